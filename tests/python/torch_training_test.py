#!/usr/bin/env python3
"""Inside ordinary training code: torch.compile, checkpointing, meshes and subgroups, dispatch, both layouts."""

import unittest

import torch
import torch.distributed as dist
from torch_support import make_plan, on_workers, reference, tensors


def close(a, b, allowed=1e-12):
    return float((a.detach().double() - b.detach()).abs().max()) < allowed


def inputs(context, batch=1, seed=0):
    p = context.plan
    whole = tensors(batch, p.tokens, p.heads, p.kv_heads, p.head_dim, torch.float64, seed)
    q, k, v, g = context.dispatch(*whole)
    for x in (q, k, v):
        x.requires_grad_()
    return whole, q, k, v, g


def compiled(rank, plan, backend):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    whole, q, k, v, g = inputs(context)

    @torch.compile(fullgraph=True, backend=backend)
    def layer(q, k, v):
        return rt.attention(q.sin(), k * 2, v, context).cos()

    def plain(q, k, v):
        return rt.attention(q.sin(), k * 2, v, context).cos()

    grads = []
    for f in (layer, plain):
        out = f(q, k, v)
        grads.append((out.detach(), *torch.autograd.grad(out, (q, k, v), g)))
    return all(close(a, b) for a, b in zip(*grads))


def checkpointed(rank, plan):
    import ringsched.torch as rt
    from torch.utils.checkpoint import checkpoint

    context = rt.Context(plan, deadline=60)
    whole, q, k, v, g = inputs(context)
    grads = []
    for run in (lambda *x: rt.attention(*x, context), lambda *x: checkpoint(rt.attention, *x, context, use_reentrant=False)):
        out = run(run(q, k, v), k, v)
        grads.append(torch.autograd.grad(out, (q, k, v), g))
    return all(close(a, b, 1e-15) for a, b in zip(*grads))


def on_a_mesh(rank, plan):
    """Four processes as two groups of two, each with a sequence of its own."""
    import ringsched.torch as rt
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("batch", "sequence"))
    try:
        rt.Context(plan, mesh)
        return "a mesh of two dimensions was accepted"
    except rt.Error as e:
        if "2 dimensions" not in str(e):
            return str(e)
    context = rt.Context(plan, mesh["sequence"], deadline=60)
    whole, q, k, v, g = inputs(context, batch=2, seed=rank // 2)
    expected = reference(*whole, context.plan.mask.text)
    out = rt.attention(q, k, v, context)
    out.backward(g)
    dist.barrier()  # the first process has the store
    here = context.positions(context.share)
    return all(close(a, e[:, here]) for a, e in zip((out.detach(), q.grad, k.grad, v.grad),
                                                    (expected[0], *expected[2:])))


def there_and_back(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    p = context.plan
    x = torch.arange(p.tokens * 3.0).view(3, p.tokens).requires_grad_()
    mine = context.dispatch(x)
    whole = context.undispatch(mine)
    if not torch.equal(whole, x):
        return "undispatch(dispatch(x)) is not x"
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    here = context.positions(context.share)
    if not torch.equal(torch.autograd.grad(whole, mine, g)[0], g[:, here]):
        return "gradient"
    starts = p.mask.starts
    expected = [i - max(s for s in starts if s <= i) for i in here.tolist()]
    if context.position_ids().tolist() != expected:
        return "position_ids"
    whole, q, k, v, g = inputs(context)
    expected = reference(*whole, p.mask.text, scale=0.3)[0][:, here]
    out = rt.attention(q, k, v, context, scale=0.3)
    other = rt.attention(*(y.transpose(1, 2) for y in (q, k, v)), context, scale=0.3, layout="bhsd").transpose(1, 2)
    return close(out, expected) and close(other, expected)


def packed(rank, plan, bounds):
    """Documents by cu_seqlens, in both layouts, against torch's own attention of each document by itself."""
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    whole, *_ = inputs(context, batch=2)
    heads = [x.transpose(1, 2).requires_grad_() for x in whole[:3]]
    alone = [torch.nn.functional.scaled_dot_product_attention(*(x[:, :, a:b] for x in heads), is_causal=True, enable_gqa=True)
             for a, b in zip(bounds, bounds[1:])]
    expected = torch.cat(alone, 2)
    expected = (expected.detach(), *torch.autograd.grad(expected, heads, whole[3].transpose(1, 2)))
    here = context.positions(context.share)
    for layout in ("bshd", "bhsd"):
        given = [x[:, here] if layout == "bshd" else x[:, here].transpose(1, 2).contiguous() for x in whole]
        q, k, v = (x.detach().requires_grad_() for x in given[:3])
        out = rt.attention(q, k, v, context, layout=layout)
        found = out.detach(), *torch.autograd.grad(out, (q, k, v), given[3])
        for a, e in zip(found, expected):
            if not close(a.transpose(1, 2) if layout == "bshd" else a, e[:, :, here]):
                return f"{layout}: off by {(a.transpose(1, 2) if layout == 'bshd' else a).sub(e[:, :, here]).abs().max()}"
    return True


def error_growth(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    p = context.plan
    whole = tensors(1, p.tokens, p.heads, p.kv_heads, p.head_dim, torch.bfloat16)
    expected = reference(*whole, p.mask.text)
    q, k, v, g = context.dispatch(*whole)
    for x in (q, k, v):
        x.requires_grad_()
    out = rt.attention(q, k, v, context)
    out.backward(g)
    here = context.positions(context.share)
    return [float((a.double() - e[:, here]).abs().max()) for a, e in
            zip((out.detach(), q.grad, k.grad, v.grad), (expected[0], *expected[2:]))]


class Training(unittest.TestCase):
    def all_true(self, found):
        for said in found:
            self.assertIs(said, True, said)

    def test_compiled_is_the_same_as_eager(self):
        for schedule in ("balanced", "ulysses"):
            with self.subTest(schedule):
                self.all_true(on_workers(2, compiled, make_plan(2, schedule), "aot_eager"))

    def test_checkpointed_is_the_same(self):
        for schedule in ("zigzag", "usp"):
            with self.subTest(schedule):
                self.all_true(on_workers(3, checkpointed, make_plan(3, schedule, heads=6, kv_heads=3)))

    def test_groups_of_a_mesh(self):
        self.all_true(on_workers(4, on_a_mesh, make_plan(2, "balanced", tokens=61)))

    def test_dispatch_for_uneven_documents(self):
        self.all_true(on_workers(3, there_and_back, make_plan(3, "zigzag", tokens=61, mask="documents:20,11,30")))

    def test_cu_seqlens_in_both_layouts(self):
        from ringsched.torch import mask_of_documents

        bounds = [0, 20, 21, 50, 61]
        mask = mask_of_documents(torch.tensor(bounds, dtype=torch.int32))
        for workers, schedule in ((2, "balanced"), (3, "zigzag"), (4, "all-gather")):
            with self.subTest(workers=workers, schedule=schedule):
                self.all_true(on_workers(workers, packed, make_plan(workers, schedule, tokens=61, mask=mask), bounds))

    def test_bf16_errors_do_not_grow_with_workers(self):
        worst = {}
        for workers in (1, 2, 4):
            plan = make_plan(workers, "zigzag", tokens=512, heads=2, kv_heads=1, head_dim=32, dtype="bf16")
            worst[workers] = [max(x) for x in zip(*on_workers(workers, error_growth, plan))]
        for of_one, of_two, of_four in zip(*worst.values()):
            self.assertLess(of_four, 1.5 * of_one)
            self.assertLess(of_two, 1.5 * of_one)


if __name__ == "__main__":
    unittest.main()
