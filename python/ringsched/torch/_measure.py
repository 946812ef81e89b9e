"""What calibrate measures: the executor's own tasks and messages, timed by processes that all run the same thing at once.

Every point is a body with a key. All points are sampled in turn, so that some slow seconds of the machine affect all
points. A point's time is the median of its samples, and a sample is the mean over the processes.
"""

from __future__ import annotations

import statistics
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist

from . import _compute as compute
from ._context import DTYPES
from ._mask import Mask
from ._tiles import tile

TOKENS = (128, 512, 2048, 4096, 8192)
MESSAGES = (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 25)
EXCHANGES = (1 << 16, 1 << 20, 1 << 24)
_ROWS = 2048  # of passes over memory
_PASS_HEADS, _PASS_DIM = 8, 128
PASS_ELEMENTS = _ROWS * _PASS_HEADS * _PASS_DIM
_LEAST = 0.004  # seconds of one sample: short bodies are repeated


def _attend(dtype, tokens, heads, dim, mask, backward):
    """An attend of a plan, or its gradient, as _run.py calls it, with tensors laid out as a run lays them out.

    The kernels take heads one after the other, but eight take more than eight times as long as one: the rows of a head lie
    further apart, and less of them stays in the caches.
    """
    acc = torch.promote_types(dtype, torch.float32)
    plan = SimpleNamespace(heads=heads, kv_heads=heads, kv_of=lambda some: some)
    where = torch.arange(tokens)
    t = tile(Mask(mask), where, where)
    q, k, v, g = (torch.randn(1, tokens, heads, dim).to(dtype).transpose(1, 2) for _ in range(4))
    if backward:
        q, k, v, g = (x.contiguous() for x in (q, k, v, g))
    arguments = plan, (0, heads), t, q
    if not backward:
        return lambda: compute.attend(*arguments, (k, v), dim ** -0.5, acc)
    o, lse = compute.attend(*arguments, (k, v), dim ** -0.5, acc)
    prepared = compute.prepare(o, lse, g)
    return lambda: compute.attend_backward(*arguments, prepared, (k, v), dim ** -0.5, acc)


def _passes(rows, dtype):
    """Merge, sum and prepare of this many rows; the gradient of the output is of the plan's dtype, the rest of sums'."""
    shape = (1, _PASS_HEADS, rows, _PASS_DIM)
    o, o2 = (torch.randn(shape) for _ in range(2))
    g = torch.randn(shape).to(dtype)
    lse, lse2 = (torch.randn(*shape[:3], 1) for _ in range(2))
    return {"merge": lambda: compute.merge_rows(o, lse, o2, lse2), "reduce": lambda: o.add_(o2),
            "prepare": lambda: compute.prepare(o, lse, g)}


def _batch(ops):
    for work in dist.batch_isend_irecv([dist.P2POp(call, x, group_peer=peer, group=dist.group.WORLD)
                                        for call, x, peer in ops]):
        work.wait()


def _ping_pong(rank, size):
    """A message from process 0 to process 1, and one back."""
    x = torch.zeros(size, dtype=torch.uint8)
    calls = (dist.isend, dist.irecv) if rank == 0 else (dist.irecv, dist.isend)
    return lambda: [_batch([(call, x, 1 - rank)]) for call in calls]


def _shift(rank, processes, size):
    """A step of a ring: every process sends to the next one."""
    x, y = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    return lambda: _batch([(dist.isend, x, (rank + 1) % processes), (dist.irecv, y, (rank - 1) % processes)])


def _exchange(kind, processes, size):
    size -= size % processes
    whole, other = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
    if kind == "all-to-all":
        return lambda: dist.all_to_all_single(whole, other)
    return lambda: dist.all_gather_into_tensor(whole, other[:size // processes])


class Points:
    def __init__(self, rank, processes):
        self.rank, self.processes = rank, processes
        self.all = []  # (key, which processes, body)

    def put(self, key, who, body):
        self.all.append((key, who, body if self.rank in who else None))


def _points(rank, processes, o):
    """All of them, in an order that every process has."""
    points, cores, everybody = Points(rank, processes), range(o.cores), range(processes)
    for dtype in o.dtypes:
        for dim in o.head_dims:
            for which in o.passes:
                for mask in ("full", "causal"):
                    for tokens in (n for n in TOKENS if n <= o.max_tokens):
                        points.put(("attend", which, mask, dtype, dim, tokens), cores,
                                   _attend(DTYPES[dtype], tokens, o.heads, dim, mask, which == "backward"))
    # A long tile shows how cores slow each other down: short ones slip past other programs that want a core.
    slowed = _attend(DTYPES[o.dtypes[0]], min(4096, o.max_tokens), o.heads, o.head_dims[0], "full", "backward" in o.passes)
    points.put(("together",), cores, slowed)
    points.put(("alone",), range(1), slowed)
    for name, body in _passes(_ROWS, DTYPES[o.dtypes[0]]).items():
        points.put((name,), cores, body)
    points.put(("small merge",), cores, _passes(1, DTYPES[o.dtypes[0]])["merge"])
    for size in MESSAGES:
        points.put(("message", size), range(2), _ping_pong(rank, size) if rank < 2 else None)
    points.put(("shift",), everybody, _shift(rank, processes, MESSAGES[-1]))
    for kind in ("all-to-all", "all-gather"):
        for size in EXCHANGES:
            points.put((kind, size), everybody, _exchange(kind, processes, size))
    return points.all


def _times(body, repeat):
    """Seconds of the wall clock and of this process's processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(repeat):
        body()
    return (time.perf_counter() - wall) / repeat, (time.process_time() - cpu) / repeat


def _repeats(seconds):
    """How often a body that takes this many seconds, on the slowest process, runs in one sample."""
    most = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return max(1, min(1000, int(_LEAST / max(float(most), 1e-7))))


def measure(rank, processes, o):
    """{key: (seconds, processor seconds of all processes together, spread)} on every process."""
    torch.set_num_threads(1)
    points, began = _points(rank, processes, o), time.monotonic()
    repeats, samples = [], {key: [] for key, _, _ in points}
    for _, _, body in points:
        dist.barrier()
        if body:
            body()
        dist.barrier()
        repeats.append(_repeats(_times(body, 1)[0] if body else 0))
    while True:
        for (key, _, body), repeat in zip(points, repeats):
            dist.barrier()
            samples[key].append(_times(body, repeat) if body else None)
        done = len(samples[points[0][0]])
        more = torch.tensor([done < 3 or (done < o.samples and time.monotonic() - began < o.seconds)])
        dist.broadcast(more, 0)
        if not more:
            break
    everybody = [None] * processes
    dist.all_gather_object(everybody, samples)
    return {key: _summary([s[key] for s in everybody]) for key in samples}


def _summary(by_process):
    """The mean of each sample over processes, and the median of these; processor time is added up."""
    samples = [[x for x in one if x] for one in zip(*by_process)]
    walls = sorted(statistics.fmean(wall for wall, _ in one) for one in samples)
    return SimpleNamespace(seconds=statistics.median(walls), processor=statistics.median(sum(c for _, c in s) for s in samples),
                           walls=[statistics.fmean(wall for wall, _ in one) for one in samples],
                           settled=walls[3 * len(walls) // 4] <= 1.05 * walls[len(walls) // 4])
