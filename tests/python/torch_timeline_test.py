#!/usr/bin/env python3
"""Plans have the hashes that the program gives them, and a recorded run is a timeline of the same plan."""

import json
import os
import subprocess
import tempfile
import unittest

from torch_support import COMMAND, make_plan, on_workers, tensors

SCHEDULES = ["ring", "striped", "zigzag", "balanced", "balanced-split", "ulysses", "all-gather", "all-gather:shares=zigzag",
             "all-gather:stride=1", "usp:ulysses=2", "usp:ulysses=2:consecutive=ring", "double-ring:node=2"]
DECODING = ["flash-decode", "tree-decode:to=one", "ring-decode"]


def ringsched(*words):
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"ringsched {words[0]}: {done.stderr}")
    return done.stdout


def predicted(plan, folder):
    """The timeline that the program predicts."""
    paths = os.path.join(folder, "plan.json"), os.path.join(folder, "predicted.json")
    with open(paths[0], "w", encoding="utf-8") as f:
        f.write(plan)
    ringsched("simulate", paths[0], "--machine", "dgx-a100", "--timeline", paths[1])
    with open(paths[1], encoding="utf-8") as f:
        return json.load(f)


def record(rank, plans, paths):
    import ringsched.torch as rt

    for plan, path in zip(plans, paths):
        context = rt.Context(plan, deadline=30)
        p = context.plan
        whole = tensors(1, p.tokens, p.heads, p.kv_heads, p.head_dim, rt.DTYPES[p.dtype])
        q, k, v, g = context.dispatch(*whole)
        q = context.new_tokens(whole[0]) if p.new_tokens else q
        q.requires_grad_(p.passes == "both")
        with context.record() as r:
            for _ in range(3):
                out = rt.attention(q, k, v, context)
                if p.passes == "both":
                    out.backward(g)
        assert len(r.runs) == 3
        r.write(path)
    return True


class Timelines(unittest.TestCase):
    def test_hashes_are_those_of_the_program(self):
        from ringsched.torch._hash import plan_hash
        from ringsched.torch._plan import load

        with tempfile.TemporaryDirectory() as folder:
            for schedule in SCHEDULES:
                for passes, mask in (("forward", "window:9"), ("both", "documents:30,71"), ("backward", "prefix:3,window:20")):
                    plan = make_plan(4, schedule, tokens=101, heads=8, kv_heads=4, head_dim=64, dtype="bf16", passes=passes, mask=mask)
                    self.assertEqual(plan_hash(load(plan)), predicted(plan, folder)["plan_hash"], (schedule, passes))

    def test_a_recorded_run_is_comparable_to_the_prediction(self):
        with tempfile.TemporaryDirectory() as folder:
            plans = [make_plan(4, s, heads=8, kv_heads=4, head_dim=64, dtype="bf16") for s in SCHEDULES]
            plans.append(make_plan(4, "zigzag", head_dim=64, dtype="bf16", passes="forward"))
            plans += [make_plan(4, s, head_dim=64, dtype="bf16", passes="forward") for s in DECODING]
            paths = [os.path.join(folder, f"measured{i}.json") for i in range(len(plans))]
            for said in on_workers(4, record, plans, paths):
                self.assertIs(said, True, said)
            for plan, path in zip(plans, paths):
                expected = predicted(plan, folder)
                said = ringsched("compare", os.path.join(folder, "predicted.json"), path)
                self.assertIn("measured", said)
                with open(path, encoding="utf-8") as f:
                    found = json.load(f)
                schedule = found["schedule"]
                self.assertEqual(found["plan_hash"], expected["plan_hash"])
                for name in ("lanes", "problem", "exchanges", "spans"):
                    self.assertEqual(found.get(name) or None, expected.get(name) or None, (schedule, name))
                names = [(e["kinds"], e["tensors"], [row[:7] for row in e["tasks"]]) for e in (found, expected)]
                rows = [[[kinds[r[0]], makes[r[1]], *r[2:]] for r in rows] for kinds, makes, rows in names]
                self.assertEqual(*rows, schedule)
                ends = [r[7] + r[8] for r in found["tasks"]]
                for t, row in enumerate(found["tasks"]):  # nothing starts before what it reads has ended
                    if expected["columns"][13] == "needs":
                        for needed in expected["tasks"][t][13]:
                            if row[2] == found["tasks"][needed][2]:
                                self.assertLessEqual(ends[needed], row[7], (schedule, t, needed))


if __name__ == "__main__":
    unittest.main()
