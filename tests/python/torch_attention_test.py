#!/usr/bin/env python3
"""Every schedule, run by torch over gloo, gives the numbers of attention in float64: forward and backward."""

import json
import os
import subprocess
import sys
import unittest

import torch
import torch_support as support
from torch_support import make_plan, on_workers, reference, tensors

SCHEDULES = ["ring", "striped", "zigzag", "balanced", "balanced-split", "ulysses", "all-gather", "usp", "double-ring"]


def cases(workers):
    """(name, flags of the plan, batch, dtype of the tensors)."""
    even = {"tokens": 24 * workers}
    heads = {"heads": workers * 2, "kv_heads": workers}
    out = []
    for s in SCHEDULES:
        out += [(s, {**even, **heads}, 1, "fp32"),
                (s, {"tokens": 24 * workers + 7, **heads}, 2, "fp32"),
                (s, {**even, **heads, "dtype": "bf16"}, 1, "bf16"),
                (s, {"tokens": 90, "mask": "documents:13,40,1,36", **heads}, 1, "fp32"),
                (s, {"tokens": 90, "mask": "window:9,documents:13,40,1,36", **heads}, 1, "fp32"),
                (s, {"tokens": 91, **heads}, 1, "fp64")]
        if s not in ("ulysses", "usp"):
            out += [(s, {**even, "heads": 4, "kv_heads": 1, "mask": "window:17"}, 1, "fp32")]
    out += [("zigzag", {**even, "mask": "full"}, 1, "fp32"), ("balanced", {**even, "mask": "prefix:5,window:9"}, 1, "fp32"),
            ("ring", {**even, "overlap": "unbounded"}, 1, "fp32"), ("ring", {**even, "overlap": "none"}, 1, "fp32"),
            ("zigzag", {**even, "buffers": 4}, 1, "fp32"), ("all-gather:stride=1", {**even, **heads}, 1, "fp32"),
            ("all-gather:shares=zigzag", {**even, **heads}, 2, "fp32")]
    for s in ("ulysses", "all-gather", "usp"):
        out += [(s, {**even, **heads, "exchanges": how}, 1, "fp32") for how in ("direct", "ring", "tree")]
    out += [("ulysses:pad=1", {**even, "heads": 5, "kv_heads": 5}, 2, "fp32"),
            ("ulysses:pad=1", {**even, "heads": 6, "kv_heads": 2, "exchanges": "direct", "dtype": "bf16"}, 1, "bf16")]
    if workers == 4:
        out += [("double-ring:node=2", {**even, **heads}, 1, "fp32"), ("usp:ulysses=2", {**even, **heads}, 1, "fp32"),
                ("ulysses", {**even, "heads": 8, "kv_heads": 2}, 1, "fp32"),
                ("usp:ulysses=2:ring=zigzag", {**even, **heads}, 1, "fp32"),
                ("usp:ulysses=2:ring=striped", {"tokens": 101, **heads}, 1, "fp32"),
                ("usp:ulysses=2:ring=balanced:consecutive=ring", {**even, **heads, "dtype": "bf16"}, 1, "bf16"),
                ("usp:ulysses=2", {**even, "heads": 6, "kv_heads": 3}, 1, "fp32")]
    return out


def errors_of(rank, plans):
    import ringsched.torch as rt

    out = []
    for text, batch, dtype in plans:
        context = rt.Context(text, deadline=60)
        p = context.plan
        whole = tensors(batch, p.tokens, context.heads.query, context.heads.key_value, p.head_dim, support.TYPES[dtype])
        expected = reference(*whole, p.mask.text)
        q, k, v, g = context.dispatch(*whole)
        for x in (q, k, v):
            x.requires_grad_()
        if context.has_lse:
            found, lse = rt.attention(q, k, v, context, return_lse=True)
        else:
            found, lse = rt.attention(q, k, v, context), None
        found.backward(g)
        here = context.positions(context.share)
        pairs = [(found.detach(), expected[0][:, here])]
        pairs += [(x.grad, e[:, here]) for x, e in zip((q, k, v), expected[2:])]
        if lse is not None:
            pairs.append((lse, expected[1][:, :, here]))
        out.append([float((a.double() - b).abs().max()) for a, b in pairs])
    return out


def forward_error(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    p = context.plan
    whole = tensors(1, p.tokens, p.heads, p.kv_heads, p.head_dim, torch.float32)
    out = rt.attention(*context.dispatch(*whole[:3]), context)
    return float((out.double() - reference(*whole, p.mask.text)[0][:, context.positions(context.share)]).abs().max())


def decoding_errors(rank, plans):
    """For each plan the rows of the result on this worker, and its largest error."""
    import ringsched.torch as rt

    out = []
    for text in plans:
        context = rt.Context(text, deadline=60)
        p = context.plan
        q, k, v, g = tensors(2, p.tokens, p.heads, p.kv_heads, p.head_dim, torch.float32)
        expected = reference(q, k, v, g, p.mask.text)
        found = rt.attention(context.new_tokens(q), *context.dispatch(k, v), context, return_lse=context.has_lse)
        found = found if context.has_lse else [found]
        rows = found[0].shape[1]
        errors = [x.double() - context.new_tokens(e, dim=dim).narrow(dim, 0, rows)
                  for x, e, dim in zip(found, expected, (1, 2))]
        out.append((rows, max(float(e.abs().max()) if e.numel() else 0.0 for e in errors)))
    return out


# Of numbers of size 1: the rounding of the dtype, a few times.
ALLOWED = {"fp32": 2e-5, "bf16": 0.06, "fp64": 2e-13}


class Attention(unittest.TestCase):
    def run_all(self, workers):
        named, plans = [], []
        for name, flags, batch, dtype in cases(workers):
            plans.append((make_plan(workers, name, **flags), batch, dtype))
            named.append((name, flags, batch, dtype))
        results = on_workers(workers, errors_of, plans)
        for rank, errors in enumerate(results):
            self.assertIsInstance(errors, list, errors)
            for case, found in zip(named, errors):
                with self.subTest(case=case, rank=rank):
                    self.assertLess(max(found), ALLOWED[case[3]], found)
        worst = {d: [max(e[i] for r in results for c, e in zip(named, r) if c[3] == d) for i in range(4)] for d in ALLOWED}
        for dtype, w in worst.items():
            print(f"{workers} workers, {dtype}, {sum(c[3] == dtype for c in named)} plans: largest error of "
                  f"out, dq, dk, dv " + " ".join(f"{x:.1e}" for x in w), file=sys.stderr)

    def test_a_plan_written_in_python(self):
        """examples/ring_plan.py, of a smaller problem."""
        example = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "ring_plan.py")
        plan = json.loads(subprocess.run([sys.executable, example, "3"], check=True, capture_output=True, text=True).stdout)
        plan["problem"] |= {"tokens": 100, "heads": 4, "kv_heads": 2, "head_dim": 16, "dtype": "fp32"}
        for found in on_workers(3, forward_error, json.dumps(plan)):
            self.assertIsInstance(found, float, found)
            self.assertLess(found, 2e-5)

    def test_plans_that_decode(self):
        """All new tokens are on each worker; who gets their results, the plan says."""
        for workers in (2, 3):
            named = [(name, {"tokens": 61, "heads": 4, "passes": "forward", **more})
                     for name in ("flash-decode", "flash-decode:to=one", "tree-decode:node=2", "tree-decode:to=one",
                                  "ring-decode", "ring-decode:passes=results")
                     for more in ({}, {"new-tokens": 3}, {"new-tokens": 2, "mask": "documents:13,30,2,16"},
                                  {"exchanges": "ring", "mask": "window:20"})]
            results = on_workers(workers, decoding_errors, [make_plan(workers, n, **f) for n, f in named])
            for rank, errors in enumerate(results):
                self.assertIsInstance(errors, list, errors)
                for (name, flags), (rows, error) in zip(named, errors):
                    with self.subTest(name=name, flags=flags, rank=rank):
                        gets = rank == workers - 1 or not name.endswith(("to=one", "results"))
                        documents = flags.get("mask", "").count(",") + 1
                        self.assertEqual(rows, gets * documents * flags.get("new-tokens", 1))
                        self.assertLess(error, 2e-5)

    def test_two_workers(self):
        self.run_all(2)

    def test_three_workers(self):
        self.run_all(3)

    def test_four_workers(self):
        self.run_all(4)


if __name__ == "__main__":
    unittest.main()
