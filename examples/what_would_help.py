#!/usr/bin/env python3
"""What would help most? Ask the same plan on a machine with one part changed, then with two."""
import ringsched as rs

problem = rs.Problem(workers=16, tokens="128K", heads=32, kv_heads=8, head_dim=128, passes="both")
run = rs.simulate(rs.plan(problem, "ring"), "dgx-a100x2-ib100")
print(f"ring on {run.machine.name}: {run.makespan_us / 1000:.1f} ms")

print("\none change at a time, best first")
for change in map(run.improvements().row, range(len(run.improvements()))):
    print(f"{change['change']:>20}  {change['makespan_ps'] / 1e9:6.1f} ms")

print("\nfaster links")
for factor in [2, 4, 8]:
    print(f"{factor:>19}x  {run.what_if(f'bandwidth={factor}x') / 1000:6.1f} ms")

zigzag = rs.simulate(rs.plan(problem, "zigzag"), "dgx-a100x2-ib100")
print(f"\nanother schedule, on the same machine\n{'zigzag':>20}  {zigzag.makespan_us / 1000:6.1f} ms")
