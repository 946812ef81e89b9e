#!/usr/bin/env python3
"""Draw a figure: two schedules side by side, one alone, and which worker computes which block, as SVG."""
import ringsched as rs

problem = rs.Problem(workers=8, tokens="64K")
ring, balanced = (rs.simulate(rs.plan(problem, name), "dgx-a100") for name in ["ring", "balanced"])

pictures = {"two-runs.svg": rs.compare(ring, balanced).gantt(),
            "one-run.svg": balanced.gantt(),
            "blocks.svg": balanced.plan.block_map()}
for name, picture in pictures.items():
    picture.save(name)
    print(name)
balanced.save("one-run.html")  # a page to zoom in
print("one-run.html")
