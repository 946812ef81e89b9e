#!/usr/bin/env python3
"""How attends are cut into pieces, and what is computed of each: without any process group."""

import random
import unittest

import torch
from torch_support import make_plan, visible

from ringsched.torch import Error, _kernels, mask_of_documents
from ringsched.torch._compute import merge_rows
from ringsched.torch._mask import Mask
from ringsched.torch._order import order, split
from ringsched.torch._plan import Plan
from ringsched.torch._tiles import tile


def some_positions(rng, tokens):
    """A few runs of positions, perhaps with strides and out of order, each position once."""
    found = []
    for _ in range(rng.randint(1, 3)):
        run = range(rng.randrange(tokens), tokens, rng.choice([1, 1, 1, 2, 4]))
        found += [x for x in run[:rng.randint(0, len(run))] if x not in found]
    return torch.tensor(found, dtype=torch.int64)


class Tiles(unittest.TestCase):
    def test_pieces_are_what_the_mask_shows_each_pair_once(self):
        rng, forms = random.Random(1), set()
        for n in range(1500):
            tokens = rng.randint(4, 60)
            cut = rng.randint(1, tokens - 1)
            mask = rng.choice(["full", "causal", f"window:{rng.randint(1, tokens)}", f"documents:{cut},{tokens - cut}",
                               f"window:{rng.randint(1, tokens)},documents:{cut},{tokens - cut}",
                               f"prefix:{rng.randint(0, tokens)},window:{rng.randint(1, tokens)}"])
            q = some_positions(rng, tokens)
            k = q if rng.random() < 0.2 else some_positions(rng, tokens)
            found = tile(Mask(mask), q, k)
            keys = k if found.order is None else k[found.order]
            seen = torch.zeros(len(q), len(k), dtype=torch.int64)
            for p in found.pieces:
                forms.add(p.form)
                block = torch.ones_like(seen[p.rows, p.keys])
                if p.form == "causal":
                    self.assertEqual(*block.shape)
                    block = block.tril()
                if p.form == "masked":
                    block = (~p.hidden).long()
                self.assertTrue(bool(block.any(1).all()), "a row of a piece sees nothing")
                seen[p.rows, p.keys] += block
            self.assertTrue(torch.equal(seen, visible(mask, tokens)[q][:, keys].long()), (mask, q, k))
        self.assertEqual(forms, {"full", "causal", "masked"})

    def test_plans_need_no_masked_piece_but_for_windows(self):
        for schedule in ("striped", "zigzag", "balanced-split", "ulysses", "all-gather:shares=zigzag"):
            plan = Plan(make_plan(4, schedule, tokens=997, heads=8, kv_heads=4, mask="documents:300,97,600"))
            for t in plan.tasks:
                if t.keys is not None:
                    from ringsched.torch._tiles import positions

                    found = tile(plan.mask, positions(plan.layout, t.rows), positions(plan.layout, t.keys))
                    self.assertTrue({p.form for p in found.pieces} <= {"full", "causal"}, (schedule, t.id))
                    self.assertLessEqual(len(found.pieces), 12)


class Orders(unittest.TestCase):
    def test_workers_that_block_in_this_order_never_wait_in_a_circle(self):
        for schedule in ("ring", "zigzag", "balanced", "ulysses", "usp:ulysses=2:ring=zigzag", "double-ring:node=2"):
            for overlap in ("none", "prefetch", "unbounded"):
                plan = Plan(make_plan(4, schedule, heads=8, kv_heads=4, overlap=overlap))
                for tasks in split(plan):
                    self.follow(plan, order(plan, tasks), tasks)

    def follow(self, plan, orders, tasks):
        """Each worker starts its next group once all that it reads is there; a message is there once both ends are."""
        started, at = set(), [0] * plan.workers
        moved = True
        while moved:
            moved = False
            for w, groups in enumerate(orders):
                while at[w] < len(groups) and all(self.is_there(plan, n, started, tasks)
                                                  for t in groups[at[w]] for n in t.inputs):
                    started |= {t.id for t in groups[at[w]]}
                    at[w] += 1
                    moved = True
        self.assertEqual(started, tasks)

    @staticmethod
    def is_there(plan, tensor, started, tasks):
        maker = plan.maker(tensor)
        if maker is None or maker not in tasks:
            return True
        t = plan.tasks[maker]
        return {maker, *([t.peer] if t.peer is not None else []), *(t.members or [])} <= started

    def test_a_plan_that_waits_in_a_circle_is_refused(self):
        text = """{"format":"ringsched-plan","version":2,"problem":{"workers":2,"tokens":64,"heads":4,"kv_heads":4,
            "head_dim":16,"dtype":"fp32","mask":"full","pass":"forward"},"tasks":[
            {"do":"send","in":["KV0"],"to":1},{"do":"send","in":["KV1"],"to":0},
            {"do":"receive","from":1},{"do":"receive","from":0},
            {"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]},
            {"do":"attend","in":["Q0",2]},{"do":"attend","in":["Q1",3]},
            {"do":"merge","in":[4,6]},{"do":"merge","in":[5,7]}]}"""
        plan = Plan(text)
        with self.assertRaisesRegex(Error, r"task 2 \(receive key value, step 0\) of worker 0 never starts"):
            order(plan, split(plan)[0])

    def test_what_is_no_plan_is_refused_in_one_line(self):
        for text, pattern in (("{}", "\"format\" is None; a plan has 'ringsched-plan'"), ("{", "not a plan file that ringsched verifies"), ('{"format":"ringsched-plan","version":3}', "version 3"),
                              (make_plan(2).replace('"attend"', '"attends"', 1), "task 0: ringsched.torch knows no task 'attends'"),
                              (make_plan(2).replace('"pass"', '"newest":3,"pass"'), "the problem says 'newest'"),
                              (make_plan(2).replace('"step"', '"when"', 1), "the task says 'when'"),
                              (make_plan(2).replace('"KV0"', '"KV7"', 1), "plan, task 0")):
            with self.assertRaisesRegex(Error, pattern) as e:
                Plan(text)
            self.assertNotIn("\n", str(e.exception))

    def test_documents_from_their_bounds(self):
        self.assertEqual(mask_of_documents(torch.tensor([0, 3, 10])), "documents:3,7")
        self.assertEqual(mask_of_documents([0, 3, 10], window=2), "window:2,documents:3,7")
        for wrong in ([1, 3], [0], [0, 3, 3]):
            self.assertRaises(Error, mask_of_documents, wrong)


class Kernels(unittest.TestCase):
    """The plain kernel, which every device has, gives the numbers of the CPU's."""

    def test_plain_is_the_same_as_the_cpu_kernel(self):
        g = torch.Generator().manual_seed(0)
        q, k, v, grad = (torch.randn(2, h, n, 8, generator=g, dtype=torch.float64)
                         for h, n in ((4, 9), (2, 9), (2, 9), (4, 9)))
        hidden = torch.rand(9, 9, generator=g) < 0.4
        hidden[:, 3] = False
        for causal, mask in ((False, None), (True, None), (False, hidden)):
            results = []
            for kernel in (_kernels.Cpu, _kernels.Plain):
                out, lse = kernel.forward(q, k, v, causal, mask, 0.4)
                results.append((out, lse, *kernel.backward(grad, q, k, v, out, lse, causal, mask, 0.4)))
            for a, b in zip(*results):
                self.assertLess(float((a - b).abs().max()), 1e-12)

    def test_rows_that_saw_nothing_merge_to_nothing(self):
        o, lse = torch.ones(1, 1, 2, 3), torch.tensor([[[[0.0], [float("-inf")]]]])
        o[:, :, 1] = 0
        merge_rows(o, lse, torch.zeros(1, 1, 2, 3), torch.full((1, 1, 2, 1), float("-inf")))
        self.assertEqual(o.tolist(), [[[[1, 1, 1], [0, 0, 0]]]])
        self.assertEqual(lse.flatten().tolist(), [0, float("-inf")])


if __name__ == "__main__":
    unittest.main()
