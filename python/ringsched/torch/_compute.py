"""What the computing tasks of a plan do: attend, merge, reduce, prepare, round, and the gradient of attend."""

from __future__ import annotations

import torch

from ._kernels import kernel_for

_NEVER = float("-inf")


def merge_rows(o, lse, o2, lse2):
    """Merges a second partial result into the first, in place. Rows that saw nothing have a log-sum-exp of -inf."""
    both = torch.logaddexp(lse, lse2)
    base = both.masked_fill(both == _NEVER, 0)
    o.mul_((lse - base).exp_()).add_(o2 * (lse2 - base).exp_())
    lse.copy_(both)


def _grouped(plan, heads):
    """Which key/value head each query head reads, counted from the first; None if all are read equally often."""
    group = plan.heads // plan.kv_heads
    first, n = plan.kv_of(heads)
    if n == 1 or (heads[0] % group == 0 and heads[1] % group == 0):
        return None
    return [h // group - first for h in range(heads[0], heads[0] + heads[1])]


def _keys(plan, heads, parts, order):
    index = _grouped(plan, heads)
    if index is not None:
        parts = [x[:, index] for x in parts]
    if order is not None:
        parts = [x.index_select(2, order.to(x.device)) for x in parts]
    return parts


def attend(plan, heads, tile, q, kv, scale, acc):
    """The result and log-sum-exp of queries over the keys that they see."""
    k, v = _keys(plan, heads, kv, tile.order)
    o = q.new_zeros(q.shape, dtype=acc)
    lse = q.new_full((*q.shape[:3], 1), _NEVER, dtype=acc)
    met = set()
    for p in tile.pieces:
        qp, kp, vp = q[:, :, p.rows], k[:, :, p.keys], v[:, :, p.keys]
        op, lp = kernel_for(q, p.hidden).forward(qp, kp, vp, p.form == "causal", p.hidden, scale)
        lp = lp.unsqueeze(-1).to(acc)
        rows = range(p.rows.start, p.rows.stop)
        if any(max(r.start, rows.start) < min(r.stop, rows.stop) for r in met):
            merge_rows(o[:, :, p.rows], lse[:, :, p.rows], op.to(acc), lp)
        else:
            o[:, :, p.rows] = op
            lse[:, :, p.rows] = lp
        met.add(rows)
    return o, lse


def prepare(o, lse, g):
    """What the gradient of an attend needs of a result and its gradient: log-sum-exp, delta and dO."""
    return lse, (o * g).sum(-1, keepdim=True), g


def attend_backward(plan, heads, tile, q, prepared, kv, scale, acc):
    """The gradients of queries and of keys and values, for the pairs of one attend."""
    lse, delta, g = prepared
    # Kernels take the result, but need only delta, the sum of result times dO over a row. This stand-in has that delta.
    square = g.to(acc).square().sum(-1, keepdim=True)
    out = (g * torch.where(square > 0, delta / square, 0)).to(q.dtype)
    k, v = _keys(plan, heads, kv, tile.order)
    dq, dk, dv = (x.new_zeros(x.shape, dtype=acc) for x in (q, k, v))
    for p in tile.pieces:
        rows = [x[:, :, p.rows] for x in (g, q)]
        a, b, c = kernel_for(q, p.hidden).backward(*rows, k[:, :, p.keys], v[:, :, p.keys], out[:, :, p.rows],
                                                   lse[:, :, p.rows, 0], p.form == "causal", p.hidden, scale)
        dq[:, :, p.rows] += a
        dk[:, :, p.keys] += b
        dv[:, :, p.keys] += c
    return dq, *(_of_keys(plan, heads, x, like, tile.order) for x, like in zip((dk, dv), kv))


def _of_keys(plan, heads, x, like, order):
    """Undoes _keys for a gradient."""
    if order is not None:
        x = torch.empty_like(x).index_copy_(2, order.to(x.device), x)
    index = _grouped(plan, heads)
    if index is not None:
        x = x.new_zeros(like.shape).index_add_(1, torch.tensor(index, device=x.device), x)
    return x
