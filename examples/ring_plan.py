#!/usr/bin/env python3
"""Writes the plan of causal ring attention: python3 ring_plan.py [workers] > plan.json"""
import json
import sys

W = int(sys.argv[1]) if len(sys.argv) > 1 else 4
tasks = []


def add(do, inputs=None, **rest):
    tasks.append({"do": do, **({"in": inputs} if inputs else {}), **rest})
    return len(tasks) - 1  # how later tasks name what this one makes


# Step 0: every worker attends its own keys.
keys = [f"KV{r}" for r in range(W)]
result = [add("attend", [f"Q{r}", keys[r]], step=0) for r in range(W)]

# Step s: keys go r - 1 -> r, so worker r meets those of worker r - s. It sees none before worker 0.
for s in range(1, W):
    sends = {r: add("send", [keys[r - 1]], to=r, step=s) for r in range(s, W)}
    for r in sends:
        keys[r] = add("receive", **{"from": sends[r]}, **({"with_previous": True} if r + 1 < W else {}))
    for r in sends:
        result[r] = add("merge", [result[r], add("attend", [f"Q{r}", keys[r]])])

problem = {"workers": W, "tokens": 1024 * W, "heads": 32, "kv_heads": 8, "head_dim": 128,
           "dtype": "bf16", "mask": "causal", "pass": "forward"}
json.dump({"format": "ringsched-plan", "version": 2, "schedule": "ring of my own",
           "problem": problem, "layout": "contiguous", "tasks": tasks}, sys.stdout, indent=1)
