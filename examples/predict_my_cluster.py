#!/usr/bin/env python3
"""Predict for my cluster: describe what differs from a built-in profile, and rank the schedules on it."""
import ringsched as rs

# Edit this. `base` is a profile to start from (`ringsched machines`); docs/machines.md lists every key.
MINE = """
name = "my-cluster"
summary = "2 x 8 H100, four 200 Gb/s NICs per node"
base = "hgx-h100"

[devices]
nodes = 2
per_node = 8
sms = 132
source = "nvidia-smi"

[network]
nics = 4
gb_per_s = 23.5
latency_us = 25
source = "200 Gb/s are 25 GB/s; 94% of it carries data. Better: measure with `ringsched bench-links`"
"""

cluster = rs.Machine.from_toml(MINE)
problem = rs.Problem(workers=16, tokens="256K", heads=32, kv_heads=8, head_dim=128)
print(f"{cluster.summary}, {problem.tokens} tokens")
for schedule in ["ring", "zigzag", "double-ring:node=8", "usp:ulysses=8"]:
    run = rs.simulate(rs.plan(problem, schedule), cluster)
    print(f"{schedule:>18}  {run.makespan_us / 1000:6.1f} ms  {run.speedup:4.1f}x as fast as one GPU")
