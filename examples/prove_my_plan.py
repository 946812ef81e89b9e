#!/usr/bin/env python3
"""Prove my own plan: read plan files that no schedule of ringsched wrote, and say what is wrong with them.

usage: prove_my_plan.py PLAN.json...   default: two plans that scripts beside this one write
"""
import pathlib
import subprocess
import sys
import tempfile

import ringsched as rs

HERE = pathlib.Path(__file__).parent


def written_by(folder: str, script: str, *arguments: str) -> str:
    path = pathlib.Path(folder, f"{script}.json")
    with open(path, "w") as file:
        subprocess.run([sys.executable, HERE / f"{script}.py", *arguments], stdout=file, check=True)
    return str(path)


def prove(path: str) -> None:
    plan = rs.read_plan(path)
    proof = plan.verify()
    print(f"{plan.schedule}, {plan.problem.workers} workers: {'proved' if proof else 'not proved'}")
    for violation in proof.violations:
        print(f"  {violation.rule}: {violation.text}")


with tempfile.TemporaryDirectory() as folder:
    for path in sys.argv[1:] or [written_by(folder, "ring_plan", "4"), written_by(folder, "lightseq_odd", "5")]:
        prove(path)
