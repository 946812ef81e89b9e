"""Plan, predict and verify distributed exact attention.

    import ringsched as rs

    problem = rs.Problem(workers=8, tokens="64K")
    plan = rs.plan(problem, "zigzag")
    plan.verify().raise_if_broken()
    run = rs.simulate(plan, "dgx-a100")

Times in tables are in picoseconds (`_ps`), elsewhere in microseconds (`_us`). On the machine "ideal" a
block takes one microsecond.
"""

from __future__ import annotations

from ._ask import compare, from_config, plan, sweep
from ._core import (Builder, Comparison, Error, Keys, Machine, Merged, Partial, Picture, Plan, Problem,
                    Queries, Run, Sweep, Table, Timeline, Verification, Violation, Wanted, __version__,
                    machines, read_plan, read_timeline, schedules, simulate)

Error.__module__ = "ringsched"
NONE = 0xFFFFFFFF  #: where a column of ids has none

__all__ = ["NONE", "Builder", "Comparison", "Error", "Keys", "Machine", "Merged", "Partial", "Picture",
           "Plan", "Problem", "Queries", "Run", "Sweep", "Table", "Timeline", "Verification",
           "Violation", "Wanted", "__version__", "compare", "from_config", "machines", "plan",
           "read_plan", "read_timeline", "schedules", "simulate", "sweep"]
