#!/usr/bin/env python3
"""Choose a schedule for my model: the fastest one for each sequence length, forward and backward."""
import ringsched as rs

# The attention of Llama 3 8B. With transformers: rs.from_config(AutoConfig.from_pretrained(...), workers=32).
MODEL = {"heads": 32, "kv_heads": 8, "head_dim": 128}
SCHEDULES = ["ring", "zigzag", "balanced-split", "double-ring:node=8", "ulysses", "usp:ulysses=8:ring=zigzag"]

print("32 H100 in 4 nodes")
for tokens in ["16K", "64K", "256K", "1M"]:
    found = rs.sweep(SCHEDULES, workers=32, tokens=tokens, machines="hgx-h100x4-ib400",
                     passes="both", **MODEL)
    best, second = sorted((r for r in map(found.rows.row, range(len(found))) if r["fits"] == "yes"),
                          key=lambda row: row["makespan_us"])[:2]
    ahead = second["makespan_us"] / best["makespan_us"] - 1
    print(f"{tokens:>4} tokens: {best['schedule']:<25} {best['makespan_us'] / 1000:8.2f} ms, "
          f"{100 * ahead:4.1f}% ahead of {second['schedule']}")
