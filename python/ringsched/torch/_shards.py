"""Whole tensors and the shares of them that workers have."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ._errors import Error


def take(context, x, dim):
    if x.shape[dim] != context.plan.tokens:
        raise Error(f"dispatch: dimension {dim} has {x.shape[dim]} tokens; the plan has {context.plan.tokens}")
    return x.index_select(dim, context.positions(context.share).to(x.device))


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, context, dim):
        ctx.context, ctx.dim = context, dim
        layout = context.plan.layout
        most = max(layout.count(s) for s in layout.shares)
        mine = x.movedim(dim, 0)
        padded = mine.new_zeros((most, *mine.shape[1:]))
        padded[:mine.shape[0]] = mine
        all_of = padded.new_empty((len(layout.shares) * most, *mine.shape[1:]))
        dist.all_gather_into_tensor(all_of, padded, group=context.group)
        whole = mine.new_empty((context.plan.tokens, *mine.shape[1:]))
        for w, share in enumerate(layout.shares):
            where = context.positions(share).to(x.device)
            whole[where] = all_of[w * most:w * most + len(where)]
        return whole.movedim(0, dim)

    @staticmethod
    def backward(ctx, g):
        return take(ctx.context, g, ctx.dim), None, None


def give(context, x, dim):
    if x.shape[dim] != context.tokens:
        raise Error(f"undispatch: dimension {dim} has {x.shape[dim]} tokens; the share of worker {context.worker} "
                    f"has {context.tokens}")
    return _Whole.apply(x, context, dim)
