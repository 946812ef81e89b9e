"""Whole tensors and the shares of them that workers have."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ._errors import Error


def _missing_dimension(x, dim):
    return "" if -x.dim() <= dim < x.dim() else f"dimension {dim} of {tuple(x.shape)}; use dim= for that of the tokens"


def take(context, x, dim):
    if _missing_dimension(x, dim):
        raise Error(f"dispatch: {_missing_dimension(x, dim)}")
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
        try:
            dist.all_gather_into_tensor(all_of, padded, group=context.group)
        except Exception:
            me = context.worker
            context.meeting.fail(f"worker {me}, in undispatch", [w for w in range(context.plan.workers) if w != me])
        whole = mine.new_empty((context.plan.tokens, *mine.shape[1:]))
        for w, share in enumerate(layout.shares):
            where = context.positions(share).to(x.device)
            whole[where] = all_of[w * most:w * most + len(where)]
        return whole.movedim(0, dim)

    @staticmethod
    def backward(ctx, g):
        return take(ctx.context, g, ctx.dim), None, None


def give(context, x, dim):
    wrong, what = _missing_dimension(x, dim), "undispatch"
    if not wrong and x.shape[dim] != context.tokens:
        wrong = f"dimension {dim} has {x.shape[dim]} tokens; its share has {context.tokens}"
    if not wrong:
        others = [n for i, n in enumerate(x.shape) if i != dim % x.dim()]
        what = f"undispatch of {str(x.dtype)[6:]}, tokens in dimension {dim % x.dim()}, the others {others}"
    context.meeting.agree_on_call(what, wrong and f"worker {context.worker}: undispatch: {wrong}")
    return _Whole.apply(x, context, dim)
