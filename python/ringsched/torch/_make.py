"""Plans and contexts for calls that give only shapes: every process makes the same one, once for each shape."""

from __future__ import annotations

import os
import shutil
import subprocess

import torch
import torch.distributed as dist

from ._context import DTYPES, Context
from ._errors import Error

_made = {}
_NAMES = {dtype: name for name, dtype in DTYPES.items()} | {torch.float64: "fp32"}


def make_plan(schedule, *, workers, tokens, heads, kv_heads, head_dim, dtype, mask, passes="both"):
    """The text of a verified plan file, from the ringsched package or the ringsched command."""
    flags = {"workers": workers, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
             "dtype": dtype, "mask": mask}
    try:
        from ringsched import Problem, plan
    except ImportError:
        pass
    else:
        return plan(Problem(**flags, passes=passes), schedule).to_json()
    command = os.environ.get("RINGSCHED") or shutil.which("ringsched")
    if not command:
        raise Error("a plan for these shapes is wanted, but there is no ringsched package and no ringsched command; "
                    "install it, or name the command in RINGSCHED")
    words = [command, "plan", "--schedule", schedule, "--pass", passes, "--format", "json", "--output", "-"]
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Error(done.stderr.strip().removeprefix("ringsched: ").splitlines()[-1])
    return done.stdout


def context_for(schedule, q, k, mask, group=None):
    """The context for shares of equal size of (batch, tokens, heads, head_dim). The first call with a shape makes it,
    on all processes."""
    if q.dtype not in _NAMES:
        raise Error(f"q is {str(q.dtype)[6:]}; use {', '.join(str(d)[6:] for d in _NAMES)}")
    workers = dist.get_world_size(group)
    key = (schedule, workers, *q.shape[1:], k.shape[2], q.dtype, mask, (group or dist.group.WORLD).group_name)
    if key not in _made:
        _made[key] = Context(make_plan(schedule, workers=workers, tokens=workers * q.shape[1], heads=q.shape[2],
                                       kv_heads=k.shape[2], head_dim=q.shape[3], dtype=_NAMES[q.dtype], mask=mask), group)
    return _made[key]
