#!/usr/bin/env python3
"""One plan file, run by `ringsched run` and by ringsched.torch on the same inputs, gives the same numbers to rounding.

The command does not write results; with --check it says how far each is from its own float64 reference, at the most and
relative to the largest number of that reference. This test makes the command's inputs again, by what docs/runtime.md says
of them, and computes its own reference. The largest numbers of both references must agree to float64's rounding, so both
are the same; and then results that are each within E of it are within 2 E of each other.
"""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
import torch
from torch_support import COMMAND, TYPES, make_plan, on_workers, reference

NAMES = ("output", "log-sum-exp", "query gradient", "key gradient", "value gradient")
# (workers, schedule, problem)
CASES = [(w, s, {"tokens": 53 * w + 1, "heads": 2 * w, "kv_heads": w, "dtype": dtype})
         for w in (2, 3) for s in ("ring", "striped", "zigzag", "balanced", "ulysses", "all-gather")
         for dtype in ("fp32", "bf16")]
CASES += [(4, "usp:ulysses=2:ring=zigzag", {"tokens": 203, "heads": 8, "kv_heads": 4, "dtype": "fp32"}),
          (2, "balanced-split", {"tokens": 90, "mask": "documents:13,40,1,36", "dtype": "fp32"}),
          (3, "zigzag", {"tokens": 101, "mask": "window:17", "dtype": "bf16"})]


def mixed(x):
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))


def inputs(matrix, tokens, heads, head_dim, seed=1):
    """(1, tokens, heads, head_dim) of matrix 0 to 3: queries, keys, values, output gradients (docs/runtime.md)."""
    gamma = np.uint64(0x9e3779b97f4a7c15)
    t, h, i = np.ogrid[:tokens, :heads, :head_dim]
    t, h, i = (x.astype(np.uint64) for x in (t, h, i))
    with np.errstate(over="ignore"):
        row = mixed(mixed(np.uint64(seed) + gamma) + (t << np.uint64(17) | h << np.uint64(2) | np.uint64(matrix)))
        bits = mixed(row + gamma * (i + np.uint64(1)))
    parts = sum((bits >> np.uint64(at) & np.uint64(0xffff)).astype(np.int64) for at in (0, 16, 32, 48))
    return torch.from_numpy((parts.astype(np.float32) - np.float32(2 * 65535)) / np.float32(37836.6))[None]


def problem_inputs(p, seed=1):
    heads = (p.heads, p.kv_heads, p.kv_heads, p.heads)
    return [inputs(m, p.tokens, h, p.head_dim, seed).to(TYPES[p.dtype]) for m, h in enumerate(heads)]


def errors(rank, plans):
    """For each plan the largest number of the reference and the largest error, by name."""
    import ringsched.torch as rt

    out = []
    for text in plans:
        context = rt.Context(text, deadline=60)
        p = context.plan
        whole = problem_inputs(p)
        expected = reference(*whole, p.mask.text)
        q, k, v, g = context.dispatch(*whole)
        for x in (q, k, v):
            x.requires_grad_()
        found = rt.attention(q, k, v, context, return_lse=context.has_lse)
        out_, lse = found if context.has_lse else (found, None)
        out_.backward(g)
        here = context.positions(context.share)
        of = {}
        for name, a, e, dim in zip(NAMES, (out_, lse, q.grad, k.grad, v.grad), expected, (1, 2, 1, 1, 1)):
            if a is not None:
                wrong = float((a.detach().double() - e.index_select(dim, here)).abs().max())
                of[name] = (float(e.abs().max()), wrong)
        out.append(of)
    return out


def of_command(text, seed=1):
    """Likewise, of `ringsched run`; results that are rounded to the dtype are called so there."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([COMMAND, "run", path, "--check", "--repeat", "1", "--seed", str(seed), "--format", "json"],
                              check=True, capture_output=True, text=True)
    out = {}
    for c in json.loads(done.stdout)["check"]:
        if c["rows"] != c["rows_in_all"] or not c["holds"]:
            raise AssertionError(c)
        out[c["name"].split(",")[0]] = (c["largest_error"] / c["relative_error"], c["largest_error"])
    return out


class SamePlan(unittest.TestCase):
    # Of the largest number of each result: what the dtype's rounding makes of it.
    ALLOWED = {"fp32": 4e-6, "bf16": 2e-2}

    def test_both_runtimes_give_the_same_numbers(self):
        worst = {}
        for workers in (2, 3, 4):
            cases = [c for c in CASES if c[0] == workers]
            plans = [make_plan(workers, s, **flags) for _, s, flags in cases]
            results = on_workers(workers, errors, plans)
            for said in results:
                self.assertIsInstance(said, list, said)
            for n, ((_, schedule, flags), plan) in enumerate(zip(cases, plans)):
                with self.subTest(workers=workers, schedule=schedule, **flags):
                    apart = self.compare(flags["dtype"], of_command(plan), [r[n] for r in results])
                    worst[flags["dtype"]] = max(worst.get(flags["dtype"], 0), apart)
        print("the two runtimes differ by at most, relative to the largest number:",
              ", ".join(f"{d} {x:.1e}" for d, x in worst.items()))

    def compare(self, dtype, command, ranks):
        """How far the runtimes may be apart, relative to the largest number of a result."""
        ours = {name: (ranks[0][name][0], max(r[name][1] for r in ranks)) for name in ranks[0]}
        self.assertEqual(set(ours), set(command))
        apart = []
        for name, (largest, wrong) in ours.items():
            theirs, their_wrong = command[name]
            self.assertAlmostEqual(theirs / largest, 1, delta=1e-11, msg=f"{name}: the references differ")
            apart.append((wrong + their_wrong) / largest)
            self.assertLess(apart[-1], self.ALLOWED[dtype], name)
        return max(apart)

    def test_other_inputs_would_be_noticed(self):
        plan = make_plan(2, "ring", tokens=53, dtype="fp32")
        found = of_command(plan, seed=2)
        for name, (largest, _) in on_workers(2, errors, [plan])[0][0].items():
            self.assertGreater(abs(found[name][0] / largest - 1), 1e-6, name)


if __name__ == "__main__":
    unittest.main()
