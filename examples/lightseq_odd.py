#!/usr/bin/env python3
"""Writes helper-balanced causal attention with a mistake that `ringsched verify` finds.

With an even number of workers W, the pairs at distance W/2 are met from both sides in the last
step, so there the helpers rest. The public code of LightSeq (later DistFlashAttn) lets them rest in
the last step of an odd number of workers too; but then nobody else has those pairs, and the queries
never meet the keys at distance (W + 1)/2.

    python3 lightseq_odd.py 5 | ringsched verify -
    python3 lightseq_odd.py 5 --correct | ringsched verify -
"""
import json
import sys

W = int(sys.argv[1]) if len(sys.argv) > 1 else 5
CORRECT = "--correct" in sys.argv[2:]
if W < 3 or W % 2 == 0:
    sys.exit("the number of workers must be odd, and at least 3")

tasks = []
posted = set()  # (worker, lane) that have begun a group of transfers since they last computed


def add(do, inputs, **rest):
    tasks.append({"do": do, "in": inputs, **rest})
    return len(tasks) - 1


def move(tensor, sender, to, lane):
    """A send and its receive, each in one group with what the worker posted just before."""
    group = [{"with_previous": True} if (w, lane) in posted else {} for w in (sender, to)]
    posted.update({(sender, lane), (to, lane)})
    send = add("send", [tensor], to=to, step=step, **group[0])
    tasks.append({"do": "receive", "from": send, **group[1]})
    return send + 1


result = [None] * W
helped = []  # (whose queries, the partial, who made it), one step ago
last = W // 2
for step in range(last + 2):
    posted.clear()
    arrived = [(p, move(partial, r, p, "return")) for p, partial, r in helped]
    helped, jobs = [], []
    for r in range(W) if step <= last else ():
        p = (r - step) % W  # the partner of this step
        if r >= step:  # r sees p's keys
            keys = move(f"KV{p}", p, r, "fetch") if step else f"KV{r}"
            jobs.append((r, r, f"Q{r}", keys))
        elif step < last or CORRECT:  # r has nothing left to do, and helps
            jobs.append((r, p, move(f"Q{p}", p, r, "fetch"), f"KV{r}"))
    for r, p, queries, keys in jobs:
        partial = add("attend", [queries, keys], step=step)
        if r != p:
            helped.append((p, partial, r))
        else:
            result[r] = partial if step == 0 else add("merge", [result[r], partial])
    for p, partial in arrived:
        result[p] = add("merge", [result[p], partial], step=step)

problem = {"workers": W, "tokens": 1024 * W, "heads": 32, "kv_heads": 8, "head_dim": 128,
           "dtype": "bf16", "mask": "causal", "pass": "forward"}
json.dump({"format": "ringsched-plan", "version": 2, "schedule": "lightseq-odd",
           "problem": problem, "layout": "contiguous", "tasks": tasks}, sys.stdout, indent=1)
