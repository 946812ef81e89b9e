#!/usr/bin/env python3
"""When something is wrong, every process raises the same one error, and none hangs."""

import os
import signal
import time
import unittest

import torch
import torch.distributed as dist
from torch_support import make_plan, on_workers, tensors


def said(call):
    import ringsched.torch as rt

    start = time.monotonic()
    try:
        call()
    except rt.Error as e:
        return str(e), time.monotonic() - start
    return None, time.monotonic() - start


def shares(context, batch=1, dtype=torch.float32):
    p = context.plan
    return context.dispatch(*tensors(batch, p.tokens, p.heads, p.kv_heads, p.head_dim, dtype))


def wrong_shape(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=20)
    q, k, v, _ = shares(context)
    first = said(lambda: rt.attention(q[:, 1:] if rank == 1 else q, k, v, context))
    return first, said(lambda: rt.attention(q, k, v, context))


def different_batches(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=20)
    q, k, v, _ = shares(context, 1 + (rank == 2))
    return said(lambda: rt.attention(q, k, v, context))


def wrong_undispatch(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=5)
    q, k, v, _ = shares(context)
    short = said(lambda: context.undispatch(q[:, 1:] if rank == 1 else q))
    types = said(lambda: context.undispatch(q.double() if rank == 2 else q))
    other = said(lambda: context.undispatch(q) if rank else rt.attention(q, k, v, context))
    return short, types, other, said(lambda: context.undispatch(rt.attention(q, k, v, context)))


def missing_undispatch(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=3)
    q, *_ = shares(context)
    if rank == 1:
        time.sleep(9)
    return said(lambda: context.undispatch(q))


def different_plans(rank, plans):
    import ringsched.torch as rt

    return said(lambda: rt.Context(plans[rank], deadline=20))


def unreadable_plan(rank, plan):
    import ringsched.torch as rt

    first = said(lambda: rt.Context("/nowhere/plan.json" if rank == 1 else plan, deadline=20))
    second = said(lambda: rt.Context(plan, deadline=20))
    dist.barrier()  # the store by which they agree ends with worker 0
    return first, second


def missing_rank(rank, plan):
    import ringsched.torch as rt

    dist.barrier()
    found = None if rank == 1 else said(lambda: rt.Context(plan, deadline=1))
    dist.barrier()
    return found


class Stop(torch.autograd.Function):
    """Ends or holds up a process in the middle of a backward pass."""

    @staticmethod
    def forward(ctx, x, act):
        ctx.act = act
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        ctx.act()
        return g, None


def during_backward(rank, plan, act_of):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=3)
    q, k, v, g = shares(context)
    q.requires_grad_()
    out = rt.attention(q, k, v, context)
    if rank == 2:
        out = Stop.apply(out, ACTS[act_of])
    first = said(lambda: out.backward(g))
    return first, said(lambda: rt.attention(q, k, v, context))


ACTS = {"killed": lambda: os.kill(os.getpid(), signal.SIGKILL), "hangs": lambda: time.sleep(9)}


class Failures(unittest.TestCase):
    def same_error(self, found, pattern, most=None):
        self.assertTrue(all(isinstance(f, tuple) for f in found), found)
        texts = {text for text, _ in found}
        self.assertEqual(len(texts), 1, texts)
        text = texts.pop()
        self.assertIsNotNone(text)
        self.assertRegex(text, pattern)
        self.assertNotIn("\n", text)
        if most:
            self.assertLess(max(seconds for _, seconds in found), most)
        return text

    def test_a_wrong_shape_is_named_on_every_worker_and_the_next_call_works(self):
        found = on_workers(3, wrong_shape, make_plan(3))
        self.same_error([f[0] for f in found], r"^worker 1: q is \(1, 31, 4, 16\); use \(any, 32, 4, 16\)")
        self.assertEqual([f[1][0] for f in found], [None] * 3)

    def test_undispatch_is_agreed_on_as_attention_is(self):
        found = on_workers(3, wrong_undispatch, make_plan(3))
        self.same_error([f[0] for f in found], "^worker 1: undispatch: dimension 1 has 31 tokens; its share has 32$")
        self.same_error([f[1] for f in found], "^calls differ: workers 0, 1: undispatch of float32, .*; worker 2: undispatch of float64")
        self.same_error([f[2] for f in found], "^calls differ: worker 0: batch 1.*; workers 1, 2: undispatch of float32")
        self.assertEqual([f[3][0] for f in found], [None] * 3)

    def test_a_worker_that_does_not_come_to_undispatch(self):
        found = on_workers(3, missing_undispatch, make_plan(3))
        self.same_error([found[0], found[2]], "^worker 1 ended or hangs; ", most=8)

    def test_a_plan_that_one_worker_cannot_read(self):
        found = on_workers(3, unreadable_plan, make_plan(3))
        self.same_error([found[0][0], found[2][0]], "^worker 1: /nowhere/plan.json", most=8)
        self.assertRegex(found[1][0][0], "^/nowhere/plan.json")
        self.assertEqual([f[1][0] for f in found], [None] * 3)

    def test_different_batches(self):
        found = on_workers(3, different_batches, make_plan(3))
        self.same_error(found, "^calls differ: workers 0, 1: batch 1, .*; worker 2: batch 2")

    def test_different_plans(self):
        plans = [make_plan(3, s) for s in ("zigzag", "zigzag", "ring")]
        self.same_error(on_workers(3, different_plans, plans), "^plans differ: workers 0, 1: zigzag .*; worker 2: ring")

    def test_a_plan_for_others(self):
        self.same_error(on_workers(2, different_plans, [make_plan(3)] * 2), "plan is for 3 workers; .* 2 processes")

    def test_a_missing_worker(self):
        found = on_workers(3, missing_rank, make_plan(3))
        self.same_error([found[0], found[2]], "^worker 1 of 3 made no Context within 1 s", most=3)

    def test_a_killed_worker(self):
        for schedule in ("zigzag", "ulysses"):
            with self.subTest(schedule):
                found = on_workers(3, during_backward, make_plan(3, schedule, heads=6, kv_heads=3), "killed")
                self.assertIsNone(found[2])
                text = self.same_error([f[0] for f in found[:2]], "^worker 2 ended or hangs; waited for by worker ",
                                       most=12)
                self.assertRegex(text, r"step \d+, task \d+ \(")
                self.same_error([f[1] for f in found[:2]], "^worker 2 ended or hangs", most=1)

    def test_a_worker_that_hangs(self):
        found = on_workers(3, during_backward, make_plan(3), "hangs")
        text = self.same_error([f[0] for f in found[:2]], "^worker 2 ended or hangs", most=12)
        self.assertRegex(text, r"step \d+, task \d+ \(.* from worker 2\)")


if __name__ == "__main__":
    unittest.main()
