#!/usr/bin/env python3
"""Traces of torch's profiler over gloo, imported and held against plans: a ring written by hand that knows nothing of
ringsched (examples/torch_ring.py), ring_flash_attn's zigzag where it is installed, and ringsched.torch's own runs, whose
messages have the numbers of their tasks as tags, so that every match can be checked."""

import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
from flash_attn_stub import install
from torch.profiler import ProfilerActivity, profile
from torch_support import COMMAND, make_plan, on_workers, tensors

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch_ring.py")
CALLS = 3


def ringsched(*words, code=0):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
    if done.returncode != code:
        raise AssertionError(f"ringsched {words[0]}: {done.returncode} {done.stdout} {done.stderr}")
    return done.stdout


def profiled(rank, call, folder, shapes):
    call()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=shapes) as profiler:
        for _ in range(CALLS):
            dist.barrier()
            call()
    profiler.export_chrome_trace(f"{folder}/rank-{rank}.json")
    return True


def run_of_ours(rank, plan, folder):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    p = context.plan
    q, k, v, g = context.dispatch(*tensors(1, p.tokens, p.heads, p.kv_heads, p.head_dim, rt.DTYPES[p.dtype]))
    for x in (q, k, v):
        x.requires_grad_(p.passes == "both")

    def call():
        out = rt.attention(q, k, v, context)
        if p.passes == "both":
            out.backward(g)

    return profiled(rank, call, folder, True)


def run_of_ring_flash_attn(rank, folder, shapes):
    install()
    import ring_flash_attn

    q, k, v, g = (x[:, :256].contiguous() for x in tensors(1, 256, 4, 4, 32, torch.bfloat16))
    for x in (q, k, v):
        x.requires_grad_()
    return profiled(rank, lambda: ring_flash_attn.zigzag_ring_flash_attn_func(q, k, v, causal=True).backward(g), folder, shapes)


def slices(path):
    with open(path, encoding="utf-8") as f:
        return sorted((e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"), key=lambda e: e["ts"])


class Imports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.measured = os.path.join(self.folder, "measured.json")

    def write(self, plan):
        path = os.path.join(self.folder, "plan.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(plan)
        return path

    def traces(self):
        return sorted(glob.glob(self.folder + "/rank-*.json"))

    def imported(self, plan, *flags, code=0):
        said = ringsched("import", *self.traces(), "--plan", self.write(plan), "-o", self.measured, *flags, code=code)
        if code:
            return said, None
        self.assertIn("clocks    as in the traces", said)
        self.assertNotIn("matched wrongly", said)
        with open(self.measured, encoding="utf-8") as f:
            return said, json.load(f)

    def check_attends(self, timeline):
        """Those of the last call, in their order, have the lengths of their events."""
        for rank, path in enumerate(self.traces()):
            for kind, name in (("attend", "ringsched::attend"), ("attend_backward", "ringsched::attend_backward")):
                events = slices(path)
                names = {e["name"] for e in events}
                if name not in names:
                    name = "aten::_scaled_dot_product_flash_attention_for_cpu" + "_backward" * (kind != "attend")
                lengths = [e["dur"] for e in events if e["name"] == name]
                found = [r[8] / 1e6 for r in timeline["tasks"] if timeline["kinds"][r[0]] == kind and r[2] == rank]
                if not found:
                    continue
                self.assertEqual(len(lengths), CALLS * len(found))
                for a, b in zip(lengths[-len(found):], found):
                    self.assertAlmostEqual(a, b, places=2)

    def run_example(self, *flags):
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4",
                        EXAMPLE, "--traces", self.folder, "--tokens", "1024", "--calls", str(CALLS), *flags],
                       check=True, capture_output=True)

    def test_a_ring_written_by_hand(self):
        flags = {"tokens": 1024, "heads": 8, "kv_heads": 8, "head_dim": 64, "passes": "forward"}
        for mask in ("full", "causal"):
            self.run_example(*["--causal"] * (mask == "causal"))
            said, timeline = self.imported(make_plan(4, "ring", mask=mask, **flags), "--annotation", "ring")
            self.assertIn("messages  each message of the plan is 2 messages in the traces", said)
            self.check_attends(timeline)
            ringsched("simulate", self.write(make_plan(4, "ring", mask=mask, **flags)), "--machine", "laptop", "--timeline",
                      self.folder + "/predicted.json")
            self.assertRegex(ringsched("compare", self.folder + "/predicted.json", self.measured), "measured ring on gloo")
            self.assertNotIn("pairs", said)
            if mask == "full":  # zigzag has as many attends and messages, of the same sizes
                said, _ = self.imported(make_plan(4, "zigzag", mask="causal", **flags), "--annotation", "ring")
                self.assertIn(f"attends take {2 * 1024 / 1025:.2f} times as many pairs", said)

    def test_an_attend_that_is_missing(self):
        self.run_example("--skip-on-rank", "3")
        plan = make_plan(4, "ring", tokens=1024, heads=8, kv_heads=8, head_dim=64, mask="full", passes="forward")
        said, _ = self.imported(plan, "--annotation", "ring", code=1)
        self.assertEqual(said, "worker 3: 3 attends in the trace; the plan needs 4\ndoes not match: 1 difference\n")
        said, _ = self.imported(plan, code=1)
        self.assertEqual(said, "worker 3: 9 attends in the trace; the plan needs 12 (3 calls with 4 each)\ndoes not match: 1 difference\n")

    def test_ours_message_by_message(self):
        for schedule, passes in (("zigzag", "both"), ("balanced", "forward"), ("balanced-split", "both"), ("ring", "both")):
            with self.subTest(schedule=schedule):
                plan = make_plan(4, schedule, tokens=512, heads=4, kv_heads=4, head_dim=32, dtype="bf16", passes=passes)
                for rank, said in enumerate(on_workers(4, run_of_ours, plan, self.folder)):
                    self.assertIs(said, True, (rank, said))
                _, timeline = self.imported(plan)
                self.check_attends(timeline)
                receive_of = {t.get("from"): i for i, t in enumerate(json.loads(plan)["tasks"]) if t["do"] == "receive"}
                checked = 0
                for path in self.traces():
                    events = slices(path)
                    calls = [e for e in events if e["name"] in ("c10d::send", "c10d::recv_")]
                    waits = [e for e in events if e["name"] in ("gloo:send", "gloo:recv")]
                    last = len(calls) - len(calls) // CALLS
                    for call, wait in list(zip(calls, waits, strict=True))[last:]:
                        tag = int(call["args"]["Concrete Inputs"][3])
                        task = tag if call["name"] == "c10d::send" else receive_of[tag]
                        self.assertAlmostEqual(wait["ts"] + wait["dur"] - call["ts"], timeline["tasks"][task][8] / 1e6, places=1)
                        checked += 1
                kinds = [timeline["kinds"][r[0]] for r in timeline["tasks"]]
                self.assertEqual(checked, kinds.count("send") + kinds.count("receive"))

    def test_ours_with_exchanges(self):
        for schedule in ("ulysses", "all-gather", "usp:ulysses=2"):
            with self.subTest(schedule=schedule):
                plan = make_plan(4, schedule, tokens=512, heads=4, kv_heads=4, head_dim=32, dtype="bf16")
                for rank, said in enumerate(on_workers(4, run_of_ours, plan, self.folder)):
                    self.assertIs(said, True, (rank, said))
                self.check_attends(self.imported(plan)[1])

    @unittest.skipUnless(importlib.util.find_spec("ring_flash_attn"), "ring_flash_attn is not installed")
    def test_zigzag_of_ring_flash_attn(self):
        for shapes in (False, True):
            for rank, said in enumerate(on_workers(4, run_of_ring_flash_attn, self.folder, shapes)):
                self.assertIs(said, True, (rank, said))
            for passes in ("forward", "both"):
                plan = make_plan(4, "zigzag", tokens=1024, heads=4, kv_heads=4, head_dim=32, dtype="bf16", passes=passes)
                said, timeline = self.imported(plan)
                self.check_attends(timeline)
                # The gradients of own keys go round too, which the plan leaves at home: two messages for each worker.
                self.assertEqual(re.findall(r"note +(.*)", said),
                                 ["8 sends of the traces are not in the plan and left out"] * (passes == "both"))
            said, _ = self.imported(make_plan(4, "ring", tokens=1024, heads=4, kv_heads=4, head_dim=32, dtype="bf16"), code=1)
            self.assertIn("on worker 0\n", said)
            full = make_plan(4, "ring", mask="full", tokens=1024, heads=4, kv_heads=4, head_dim=32, dtype="bf16")
            if shapes:
                self.assertIn("8 attends are smaller than the plan's on worker 3: number 1 takes 32896 pairs of query and key in the "
                              "trace, 65536 in the plan", self.imported(full, code=1)[0])


if __name__ == "__main__":
    unittest.main()
