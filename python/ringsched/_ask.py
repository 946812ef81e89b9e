"""Plans, sweeps and comparisons, by keyword arguments."""

from __future__ import annotations

from typing import Any, Callable, Union

from . import _core
from ._core import Builder, Comparison, Error, Plan, Problem, Run, Sweep, Timeline

Schedule = Union[str, Callable[[Problem, Builder], None]]


def plan(problem: Problem, schedule: Schedule = "balanced", *, overlap: str = "prefetch",
         buffers: int = 0, exchanges: str = "native", layout: str | None = None) -> Plan:
    """A plan for `problem`, by the name of a schedule ("usp:ulysses=4") or by a function.

    The function is called with the problem and a Builder, which lays the tokens out as `layout` says (default: contiguous).
    `overlap` is how far communication runs ahead: "none", "prefetch" (one step) or "unbounded";
    `buffers` the number of receive buffers, 0 for as many as needed; `exchanges` what carries exchanges:
    "native" (a library's collectives), or messages: "direct", "ring" or "tree".
    """
    if not isinstance(problem, Problem):
        raise Error(f"problem is {problem!r}; use ringsched.Problem(workers=8)")
    if isinstance(schedule, str):
        if layout is not None:
            raise Error(f"layout is {layout!r}, but {schedule} has a layout of its own; it is for functions")
        return _core._plan(problem, schedule, overlap, buffers, exchanges)
    builder = Builder(problem, layout or "contiguous", getattr(schedule, "__name__", "python"))
    schedule(problem, builder)
    return builder.finish(overlap=overlap, buffers=buffers, exchanges=exchanges)


def sweep(schedules: Any = None, *, workers: Any = None, tokens: Any = None, heads: Any = None,
          machines: Any = None, overlap: Any = None, kv_heads: int | None = None,
          head_dim: int | None = None, dtype: str | None = None, mask: str | None = None,
          passes: str | None = None, new_tokens: int | str | None = None,
          buffers: int | None = None,
          exchanges: str | None = None, kernels: str | None = None,
          software: str | None = None, nccl_ctas: int | None = None, diagonal: float | str | None = None,
          noise: float | str | None = None, stragglers: str | None = None,
          slow_workers: dict[int, float] | None = None, seed: int | None = None,
          runs: int | None = None, jobs: int = 0) -> Sweep:
    """Ranks schedules over many problems and machines.

    The first six arguments may be lists; what is left out is as in `ringsched sweep`. `jobs`: cells to
    simulate at once, 0 for one on each core.
    """
    lists = {"--schedule": schedules, "--workers": workers, "--tokens": tokens, "--heads": heads,
             "--machine": machines, "--overlap": overlap}
    rest = {"--kv-heads": kv_heads, "--head-dim": head_dim, "--dtype": dtype, "--mask": mask,
            "--pass": passes, "--new-tokens": new_tokens,
            "--buffers": buffers, "--exchanges": exchanges}
    machine = {"kernels": kernels, "software": software, "nccl_ctas": nccl_ctas, "diagonal": diagonal, "noise": noise,
               "stragglers": stragglers, "slow_workers": slow_workers, "seed": seed, "runs": runs}
    return _core._sweep(lists, rest, machine, jobs)


def compare(first: Run | Timeline, second: Run | Timeline, *, worst: int = 5) -> Comparison:
    """Two runs or timelines side by side; `worst` is how many tasks to name that differ most."""
    def timeline(of: Run | Timeline) -> Timeline:
        of = of.timeline if isinstance(of, Run) else of
        if not isinstance(of, Timeline):
            raise Error(f"{of!r} has no times to compare; use what simulate() or read_timeline() returns")
        return of
    return _core._compare(timeline(first), timeline(second), worst)


def from_config(config: Any, *, workers: Any = None, tokens: Any = None, **others: Any) -> Problem:
    """The Problem of a transformers model, from its config or the dict in config.json; other arguments as for Problem."""
    def read(name: str) -> int | None:
        return config.get(name) if isinstance(config, dict) else getattr(config, name, None)

    heads, width = read("num_attention_heads"), read("hidden_size")
    head_dim = read("head_dim") or (heads and width and width // heads)
    if not heads or not head_dim:
        raise Error("the config needs num_attention_heads, and head_dim or hidden_size; "
                    f"it has {heads}, {read('head_dim')} and {width}")
    sizes = {"heads": heads, "kv_heads": read("num_key_value_heads") or heads, "head_dim": head_dim}
    return Problem(workers=workers, tokens=tokens, **{**sizes, **others})
