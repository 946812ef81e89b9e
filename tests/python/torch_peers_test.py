#!/usr/bin/env python3
"""Torch's own ring attention (experimental context parallelism) and ours are equally far from float64."""

import unittest

import torch
import torch.distributed as dist
from torch_support import TYPES, make_plan, on_workers, reference, tensors

aten = torch.ops.aten


class TorchRing(torch.autograd.Function):
    """_templated_ring_attention over the CPU kernel; (batch, tokens, heads, head_dim), shares as zigzag."""

    @staticmethod
    def forward(ctx, q, k, v, rotation):
        from torch.distributed.tensor.experimental._context_parallel import _attention as peer

        peer.set_rotate_method(rotation)
        peer._cp_options.enable_load_balance = True
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        out, lse = peer._templated_ring_attention(dist.group.WORLD, 2, aten._scaled_dot_product_flash_attention_for_cpu,
                                                  q, k, v, is_causal=True)[:2]
        ctx.save_for_backward(q, k, v, out, lse)
        return out.transpose(1, 2)

    @staticmethod
    def backward(ctx, g):
        from torch.distributed.tensor.experimental._context_parallel import _attention as peer

        q, k, v, out, lse = ctx.saved_tensors
        op = aten._scaled_dot_product_flash_attention_for_cpu_backward
        grads = peer._templated_ring_attention_backward(dist.group.WORLD, 2, op, g.transpose(1, 2).contiguous(), "grad_out",
                                                        q, k, v, out, lse, True, dropout_p=0.0)
        return *(x.transpose(1, 2) for x in grads[:3]), None


def errors(rank, plan, dtype, rotation):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    p = context.plan
    whole = tensors(1, p.tokens, p.heads, p.kv_heads, p.head_dim, TYPES[dtype])
    expected = reference(*whole, p.mask.text)
    here = context.positions(context.share)
    out = []
    for call in (lambda q, k, v: rt.attention(q, k, v, context), lambda q, k, v: TorchRing.apply(q, k, v, rotation)):
        q, k, v, g = context.dispatch(*whole)
        for x in (q, k, v):
            x.requires_grad_()
        found = call(q, k, v)
        found.backward(g)
        out.append([float((a.detach().double() - e[:, here]).abs().max())
                    for a, e in zip((found, q.grad, k.grad, v.grad), (expected[0], *expected[2:]))])
    return out


class Peers(unittest.TestCase):
    def test_not_less_exact_than_torchs_own_ring(self):
        for workers, dtype, rotation in ((2, "fp32", "alltoall"), (2, "bf16", "allgather"), (3, "fp32", "alltoall"),
                                         (3, "bf16", "alltoall"), (4, "fp32", "allgather"), (4, "bf16", "alltoall")):
            with self.subTest(workers=workers, dtype=dtype):
                plan = make_plan(workers, "zigzag", tokens=480, heads=4, kv_heads=4, head_dim=32, dtype=dtype)
                found = on_workers(workers, errors, plan, dtype, rotation)
                for said in found:
                    self.assertIsInstance(said, list, said)
                ours, theirs = ([max(x) for x in zip(*(f[i] for f in found))] for i in (0, 1))
                print(f"{workers} workers, {dtype}, {rotation}: out, dq, dk, dv ours",
                      *(f"{x:.1e}" for x in ours), "torch", *(f"{x:.1e}" for x in theirs))
                for a, b in zip(ours, theirs):
                    self.assertLess(a, 1.5 * b)


if __name__ == "__main__":
    unittest.main()
