#!/usr/bin/env python3
"""Find the longest sequence that fits: what attention needs on the fullest worker, against the memory I can spare."""
import ringsched as rs

SPARE_GIB = 8  # of each GPU, after weights, optimizer states and activations
WORKERS, UNIT = 8, 8 * 1024  # the step of the search; every worker gets equal shares


def fits(schedule: str, units: int) -> bool:
    problem = rs.Problem(workers=WORKERS, tokens=units * UNIT, heads=32, kv_heads=8, head_dim=128, passes="both")
    return max(rs.plan(problem, schedule).verify().peak_bytes) <= SPARE_GIB * 2**30


def longest(schedule: str) -> int:
    most = 1
    while fits(schedule, 2 * most):
        most *= 2
    least_too_many = 2 * most
    while least_too_many - most > 1:
        middle = (most + least_too_many) // 2
        most, least_too_many = (middle, least_too_many) if fits(schedule, middle) else (most, middle)
    return most * UNIT


print(f"tokens that fit {SPARE_GIB} GiB on each of {WORKERS} workers, forward and backward")
for name in ["ring", "zigzag", "balanced-split", "ulysses", "all-gather"]:
    print(f"{name:>14}  {longest(name) / 1024:5.0f}K")
