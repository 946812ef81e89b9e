#!/usr/bin/env python3
"""Compare with my own run: measured times against predictions, and whether each lies in its 80% interval.

The times here are those of ring-flash-attention's README (commit 556ddaa) for 8 A100: put yours in their place. For
a comparison task by task, `ringsched import` reads profiler traces (docs/import.md).
"""
import ringsched as rs

MEASURED_MS = {"ring": 1000 / 24.0, "zigzag": 1000 / 38.2, "striped": 1000 / 32.5}  # from iterations per second

problem = rs.Problem(workers=8, tokens=65536, heads=32, kv_heads=8, head_dim=128)
print("schedule  measured  predicted  80% interval")
for schedule, measured in MEASURED_MS.items():
    run = rs.simulate(rs.plan(problem, schedule), "dgx-a100", software="ring-flash-attention")
    low, high = (t / 1000 for t in run.to_dict()["interval_80_us"])
    where = "inside" if low <= measured <= high else f"outside: {measured * 1000 / run.makespan_us:.2f}x as long"
    print(f"{schedule:>8}  {measured:5.1f} ms   {run.makespan_us / 1000:5.1f} ms   {low:.1f} to {high:.1f} ms, {where}")
