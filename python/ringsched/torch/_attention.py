"""attention(): the forward and backward pass of a plan as operators for autograd and torch.compile."""

from __future__ import annotations

import torch
from torch import Tensor

from ._context import DTYPES, context as context_of
from ._errors import Error
from ._values import Forms


def _wrong(context, q, k, v, bshd):
    """What is wrong with the tensors of a call; empty if nothing is."""
    p = context.plan
    heads, kv_heads = context.heads.query, context.heads.key_value
    for name, x, heads, tokens in (("q", q, heads, context.query_tokens), ("k", k, kv_heads, context.tokens),
                                   ("v", v, kv_heads, context.tokens)):
        rows = (tokens, heads) if bshd else (heads, tokens)
        if x.dim() != 4 or x.shape[0] != q.shape[0] or tuple(x.shape[1:]) != (*rows, p.head_dim):
            layout = "batch, tokens, heads, head_dim" if bshd else "batch, heads, tokens, head_dim"
            allowed = ", ".join(map(str, (q.shape[0] if name != "q" else "any", *rows, p.head_dim)))
            return f"worker {context.worker}: {name} is {tuple(x.shape)}; use ({allowed}): {layout}"
        if x.dtype not in (DTYPES[p.dtype], torch.float64):
            return f"worker {context.worker}: {name} is {str(x.dtype)[6:]}; the plan is for {p.dtype}"
        if x.dtype != q.dtype or x.device != q.device:
            return f"worker {context.worker}: q and {name} differ in dtype or device"
    return ""


def _rows_inside(x, bshd):
    return x.transpose(1, 2) if bshd else x


@torch.library.custom_op("ringsched::attention", mutates_args=())
def _forward(q: Tensor, k: Tensor, v: Tensor, context: int, scale: float, bshd: bool) -> list[Tensor]:
    c = context_of(context)
    c.meeting.agree_on_call(f"batch {q.shape[0]}, {str(q.dtype)[6:]}, scale {scale:g}", _wrong(c, q, k, v, bshd))
    out, lse, keep = c.run_forward(*(_rows_inside(x, bshd) for x in (q, k, v)), scale)
    return [_rows_inside(out, bshd).contiguous(), lse.squeeze(-1), *keep]


@_forward.register_fake
def _(q, k, v, context, scale, bshd):
    c = context_of(context)
    forms = Forms(c.plan, q.shape[0], q.dtype, q.device)
    rows = c.plan.layout.count(c.rows_out)
    shape = (q.shape[0], rows, *q.shape[2:]) if bshd else (*q.shape[:2], rows, q.shape[3])
    lse = q.new_empty((q.shape[0], c.heads.query, rows), dtype=forms.acc)
    keep = [q.new_empty(shape, dtype=dtype) for dtype, shape in c.kept_shapes(forms)]
    return [q.new_empty(shape), lse, *keep]


@torch.library.custom_op("ringsched::attention_backward", mutates_args=())
def _backward(g: Tensor, q: Tensor, k: Tensor, v: Tensor, keep: list[Tensor], context: int, scale: float,
              bshd: bool) -> list[Tensor]:
    c = context_of(context)
    grads = c.run_backward(*(_rows_inside(x, bshd) for x in (g, q, k, v)), keep, scale)
    return [_rows_inside(x, bshd).contiguous() for x in grads]


@_backward.register_fake
def _(g, q, k, v, keep, context, scale, bshd):
    return [x.new_empty(x.shape) for x in (q, k, v)]


def _save(ctx, inputs, output):
    q, k, v, *ctx.rest = inputs
    ctx.save_for_backward(q, k, v, *output[2:])


def _gradients(ctx, grads):
    q, k, v, *keep = ctx.saved_tensors
    return (*torch.ops.ringsched.attention_backward(grads[0], q, k, v, keep, *ctx.rest), None, None, None)


_forward.register_autograd(_gradients, setup_context=_save)


def attention(q, k, v, context, scale=None, layout="bshd", return_lse=False):
    """Attention over the whole sequence, computed by the context's plan. Each worker has a share of it.

    q, k, v: this worker's share, (batch, tokens, heads, head dimension); with layout "bhsd" heads come before tokens.
    Every worker calls this at the same time. A plan that decodes takes all new tokens as q on every worker; a worker that
    has no result gets one of no tokens. With return_lse also the log-sum-exp, (batch, heads, tokens), which has
    no gradient.
    """
    if not hasattr(context, "plan"):
        raise Error(f"context is {context!r}; use a ringsched.torch.Context")
    if layout not in ("bshd", "bhsd"):
        raise Error(f"layout is {layout!r}; use bshd or bhsd")
    if return_lse and not context.has_lse:
        raise Error(f"{context.plan.name}: this plan moves its results without their log-sum-exp; use another schedule "
                    "for return_lse")
    if context.plan.passes == "forward" and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise Error(f"{context.plan.name}: its pass is forward; make the plan with pass both to get gradients")
    scale = context.plan.head_dim ** -0.5 if scale is None else float(scale)
    out, lse, *_ = torch.ops.ringsched.attention(q, k, v, context.number, scale, layout == "bshd")
    return (out, lse.detach()) if return_lse else out
