"""What the tests of ringsched.torch share: plans by the ringsched command, processes over gloo, and attention in
float64, computed naively from the mask's definition."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import traceback
import types

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
sys.path.insert(0, PYTHON)
try:
    import ringsched
except ImportError:  # its compiled part is not built: ringsched.torch does not need it
    package = types.ModuleType("ringsched")
    package.__path__ = [os.path.join(PYTHON, "ringsched")]
    sys.modules["ringsched"] = package

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import ringsched.torch  # noqa: F401  before the forks

COMMAND = os.environ.get("RINGSCHED") or shutil.which("ringsched")
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp64": torch.float64}


def make_plan(workers, schedule="zigzag", tokens=96, heads=4, kv_heads=2, head_dim=16, dtype="fp32", mask="causal",
              passes="both", **flags):
    """The text of a plan file."""
    given = {"workers": workers, "schedule": schedule, "tokens": tokens, "heads": heads, "kv-heads": kv_heads,
             "head-dim": head_dim, "dtype": dtype, "mask": mask, "pass": passes, **flags}
    command = [COMMAND, "plan", "--format", "json", "-o", "-"]
    for name, value in given.items():
        command += [f"--{name}", str(value)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def visible(mask, tokens):
    """(tokens, tokens): whether query i sees key j."""
    i, j = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
    kind, _, rest = mask.partition(":")
    if kind == "full":
        return torch.ones(tokens, tokens, dtype=torch.bool)
    if ",documents:" in mask:
        window, documents = mask.split(",", 1)
        return visible(window, tokens) & visible(documents, tokens)
    if kind == "documents":
        of = torch.repeat_interleave(torch.arange(rest.count(",") + 1), torch.tensor([int(n) for n in rest.split(",")]))
        return (j <= i) & (of[:, None] == of[None])
    if kind == "window":
        return (j <= i) & (i - j < int(rest))
    if kind == "prefix":
        prefix, window = rest.split(",window:")
        return (j <= i) & ((j < int(prefix)) | (i - j < int(window)))
    return j <= i


def tensors(batch, tokens, heads, kv_heads, head_dim, dtype, seed=0):
    """q, k, v and the gradient of the output, (batch, tokens, heads, head_dim)."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, tokens, h, head_dim, generator=g, dtype=torch.float64).to(dtype)
            for h in (heads, kv_heads, kv_heads, heads)]


def reference(q, k, v, g, mask, scale=None):
    """Output, log-sum-exp and gradients in float64."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    kk, vv = (x.repeat_interleave(group, 2).transpose(1, 2) for x in (k, v))
    s = q.transpose(1, 2) @ kk.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~visible(mask, q.shape[1]), float("-inf"))
    out = (s.softmax(-1) @ vv).transpose(1, 2)
    out.backward(g.double())
    return out.detach(), s.logsumexp(-1).detach(), q.grad, k.grad, v.grad


def _process(rank, workers, listening, function, args, out):
    os.environ.update(OMP_NUM_THREADS="1")
    torch.set_num_threads(1)
    port = listening.getsockname()[1]
    own = {"master_listen_fd": listening.detach()} if rank == 0 else {}
    store = dist.TCPStore("127.0.0.1", port, workers, rank == 0, **own)
    listening.close()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=workers)
    try:
        said = function(rank, *args)
    except Exception:
        said = traceback.format_exc()
    torch.save(said, os.path.join(out, str(rank)))
    if dist.is_initialized() and not isinstance(said, str):
        dist.destroy_process_group()


def on_workers(workers, function, *args):
    """What function(rank, *args) returns in each of so many processes; None for one that was killed."""
    # The store's port is bound here and never let go, so that no other program can take it before process 0 listens.
    with tempfile.TemporaryDirectory() as out:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(128)
            # Forks start at once; no thread of torch runs in this process, as it only waits.
            context = mp.start_processes(_process, (workers, listening, function, args, out), workers, join=False,
                                         start_method="fork")
        for p in context.processes:
            p.join()
        paths = [os.path.join(out, str(r)) for r in range(workers)]
        return [torch.load(p) if os.path.exists(p) else None for p in paths]
