"""Measures how long ringsched.torch takes on this machine's CPU, and writes a machine profile (docs/machines.md).

    python -m ringsched.torch.calibrate --output torch-cpu.toml
    ringsched simulate plan.json --machine torch-cpu.toml
    ringsched compare predicted.json measured.json

It starts one process for each core, each with one thread, as `torchrun` does. It measures the executor's own tasks and
gloo's messages while all cores are busy, as in a run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import tempfile
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ._context import DTYPES
from ._errors import Error
from ._measure import EXCHANGES, MESSAGES, PASS_ELEMENTS, TOKENS, measure

MADE_BY = "python -m ringsched.torch.calibrate"


def _process(rank, processes, options, path):
    store = dist.FileStore(path + ".store", processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=processes)
    found = measure(rank, processes, options)
    if rank == 0:
        torch.save({key: vars(x) for key, x in found.items()}, path)
    dist.barrier()
    dist.destroy_process_group()


def _figure(x):
    return float(f"{x:.4g}")


def _table(name, /, **values):
    return "\n".join([f"[{name}]" if name else "", *(f"{k} = {json.dumps(v)}" for k, v in values.items()), ""]).lstrip("\n")


def _rates(seconds, moved=1.0):
    """[bytes, GB/s] by size. In a profile, a longer message may not arrive sooner: then the shorter one was disturbed."""
    out, later = [], float("inf")
    for n in sorted(seconds, reverse=True):
        later = min(seconds[n], 0.999 * later)
        out.append([n, _figure(moved * n / later / 1e9)])
    return out[::-1]


def _cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":", 1)[1].strip()[:60] for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return "CPU"


def _profile(found, o, name):
    """The profile's text. Rates are those of one core alone; with the machine's slowdown they give the measured times."""
    slowdown = max(1.0, statistics.median(a / b for a, b in zip(found["together",].walls, found["alone",].walls)))
    slowdown = float(f"{slowdown:.3f}") if o.cores > 1 else 1.0
    source = f"measured by {MADE_BY} on {datetime.date.today()}, {o.cores} processes at work, torch {torch.__version__}"
    alone = source + (", and faster by the slowdown, as one alone" if slowdown > 1 else "")
    launch = found["small merge",].seconds
    gb_per_s = 12 * PASS_ELEMENTS / found["reduce",].seconds / 1e9

    def bytes_of(key):
        return _figure(max(0.0, found[key,].seconds - (launch if key == "merge" else 0)) * gb_per_s * 1e9 / PASS_ELEMENTS)

    shift, processes = found["shift",], o.processes
    total = processes * MESSAGES[-1] / shift.seconds / 1e9
    rates = _rates({n: found["message", n].seconds / 2 for n in MESSAGES})
    latency = MESSAGES[0] / rates[0][1] / 1e9
    loose = sum(not x.settled for x in found.values())
    copying = max(1, min(o.cores, round(shift.processor / shift.seconds / processes)))
    out = [_table("", name=name, summary=f"{o.cores} cores of {_cpu()}, torch {torch.__version__} over gloo; a process for each worker"
                  + (f"; {loose} of {len(found)} points did not settle" if loose else ""), made_by=MADE_BY),
           _table("devices", per_node=1, workers_each=1024, concurrency=o.cores,
                  **({"slowdown": slowdown} if slowdown > 1 else {}),
                  source="the cores that the system gives; slowdown: all at work over one alone"),
           _table("memory", gb_per_s=_figure(slowdown * gb_per_s), source="a sum in place of fp32 on each core, " + alone),
           _table("launch", us=_figure(1e6 * launch), source="a merge of one row: what Python and torch take for a task, " + source),
           _table("communication", cores=copying, source="processor time of all processes while each sends to the next, " + source),
           _table("fabric", kind="memory", gb_per_s=_figure(max([total, *(r for _, r in rates)])), latency_us=_figure(1e6 * latency),
                  messages=rates, source="all processes sending at once; messages to and fro between two, " + source),
           _table("software", merge_bytes=bytes_of("merge"), reduce_bytes=12, prepare_bytes=bytes_of("prepare"), output_bytes=0,
                  source="times of those tasks at the rate above; outputs are written after the recorded run, " + source)]
    for dtype in o.dtypes:
        for dim in o.head_dims:
            for which in o.passes:
                for mask in ("full", "causal"):
                    tokens = [n for n in TOKENS if n <= o.max_tokens]
                    pairs = [n * n if mask == "full" else n * (n + 1) / 2 for n in tokens]
                    times = [found["attend", which, mask, dtype, dim, n].seconds for n in tokens]
                    flops = [(10 if which == "backward" else 4) * dim * o.heads * p for n, p in zip(tokens, pairs)]
                    rate = [_figure(slowdown * f / max(t - launch, t / 2) / 1e12) for f, t in zip(flops, times)]
                    out.append(_table("[kernel]", **{"pass": which, "mask": mask, "dtypes": [dtype], "head_dim": dim,
                                                     "tokens": tokens, "tflops": rate, "source": alone}))
    for kind in ("all-to-all", "all-gather"):
        busbw = _rates({n: found[kind, n].seconds for n in EXCHANGES}, (processes - 1) / processes)
        out.append(_table("[collective]", kind=kind, per_node=processes, busbw=busbw, source=source))
    return f"# Made by {MADE_BY}; measured anew by the same command.\n" + "\n".join(out)


def calibrate(*, dtypes=("bf16", "fp32"), head_dims=(64, 128), passes=("forward", "backward"), heads=8, max_tokens=4096,
              cores=None, seconds=60.0, samples=7, name="torch-cpu"):
    """The text of a profile of this machine's CPU. `cores` processes measure (default: all that this process may use).

    Tiles have `heads` heads: give as many as a worker computes at once. At least three samples are taken of each point; up to `samples`, until `seconds` have passed.
    """
    cores = cores or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    for given, allowed, what in ((dtypes, DTYPES, "dtype"), (passes, ("forward", "backward"), "pass")):
        for x in given:
            if x not in allowed:
                raise Error(f"{what} is {x!r}; use {', '.join(allowed)}")
    if heads < 1:
        raise Error(f"heads is {heads}; use at least 1")
    if max_tokens < TOKENS[0]:
        raise Error(f"max_tokens is {max_tokens}; use at least {TOKENS[0]}")
    options = SimpleNamespace(dtypes=list(dict.fromkeys(dtypes)), head_dims=list(dict.fromkeys(head_dims)),
                              passes=list(dict.fromkeys(passes)), heads=heads, max_tokens=max_tokens, cores=cores, processes=max(2, cores),
                              seconds=seconds, samples=samples)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found")
        mp.start_processes(_process, (options.processes, options, path), options.processes, start_method="spawn")
        found = {key: SimpleNamespace(**x) for key, x in torch.load(path).items()}
    return _profile(found, options, name)


def _words(text):
    return text.split(",")


def _numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(prog=MADE_BY, description="Measure PyTorch's attention and gloo on this machine's CPU.")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the profile, a TOML file")
    parser.add_argument("--dtype", type=_words, default=["bf16", "fp32"], help="bf16, fp16, fp32 (default bf16,fp32)")
    parser.add_argument("--head-dim", type=_numbers, default=[64, 128], metavar="N,N", help="head dimensions (default 64,128)")
    parser.add_argument("--pass", type=_words, default=["forward", "backward"], dest="passes", help="default forward,backward")
    parser.add_argument("--heads", type=int, default=8, metavar="N", help="heads that a worker computes at once (default 8)")
    parser.add_argument("--max-tokens", type=int, default=4096, metavar="N", help="largest tile (default 4096)")
    parser.add_argument("--cores", type=int, metavar="N", help="processes that measure at once (default: all cores)")
    parser.add_argument("--seconds", type=float, default=60, metavar="N", help="when to take no more samples (default 60)")
    parser.add_argument("--name", default="torch-cpu", help="the profile's name (default torch-cpu)")
    o = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(o.output))
    if not os.path.isdir(folder):
        parser.error(f"--output {o.output}: there is no folder {folder}")
    try:
        text = calibrate(dtypes=o.dtype, head_dims=o.head_dim, passes=o.passes, heads=o.heads, max_tokens=o.max_tokens, cores=o.cores,
                         seconds=o.seconds, name=o.name)
    except Error as e:
        sys.exit(f"calibrate: {e}")
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as f:
        f.write(text)
    os.chmod(f.name, 0o644)
    os.replace(f.name, o.output)
    print(f"{o.output}: {text.split('summary = ', 1)[1].splitlines()[0]}")


if __name__ == "__main__":
    main()
