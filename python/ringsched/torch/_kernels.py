"""Attention of one piece by torch's own kernels, with log-sum-exp, forward and backward.

Tensors are (batch, heads, rows, head dimension); a log-sum-exp is (batch, heads, rows). Keys may have fewer heads
than queries, if their number divides. Each kernel is called as `forward(q, k, v, causal, hidden, scale)` and
`backward(g, q, k, v, out, lse, causal, hidden, scale)`.
"""

from __future__ import annotations

import torch

_aten = torch.ops.aten


def _bias(hidden, like, align=1):
    """A bias of minus infinity where a row does not see a key; rows of memory are padded to `align` elements."""
    n, m = hidden.shape
    room = torch.zeros(n, -(-m // align) * align, dtype=like.dtype, device=like.device)
    bias = room[:, :m]
    return bias.masked_fill_(hidden.to(like.device), float("-inf"))


def _repeated(x, heads):
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _summed(x, heads):
    return x if x.shape[1] == heads else x.unflatten(1, (heads, -1)).sum(2)


class Cpu:
    """The flash attention that torch has for CPUs."""

    @staticmethod
    def forward(q, k, v, causal, hidden, scale):
        mask = None if hidden is None else _bias(hidden, q)
        return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)

    @staticmethod
    def backward(g, q, k, v, out, lse, causal, hidden, scale):
        mask = None if hidden is None else _bias(hidden, q)
        lse = lse.transpose(1, 2).contiguous().transpose(1, 2)  # as the forward kernel lays it out
        return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
            g, q, k, v, out, lse, 0.0, causal, attn_mask=mask, scale=scale)


class Flash:
    """Flash attention on a GPU: bf16 and fp16, no mask but the causal one."""

    @staticmethod
    def forward(q, k, v, causal, hidden, scale):
        out = _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
        return out[0], out[1]

    @staticmethod
    def backward(g, q, k, v, out, lse, causal, hidden, scale):
        seed = torch.zeros(2, dtype=torch.uint64, device=q.device)  # read only with dropout
        # Cumulative lengths, even empty ones, would mean a batch of sequences of several lengths.
        grads = _aten._flash_attention_backward(
            *(x.transpose(1, 2) for x in (g, q, k, v, out)), lse.contiguous(), None, None, q.shape[2], k.shape[2],
            0.0, causal, seed, seed, scale=scale)
        return tuple(x.transpose(1, 2) for x in grads)


class Efficient:
    """Memory-efficient attention on a GPU: also fp32, also with a mask. Its log-sum-exp has padded rows."""

    @staticmethod
    def forward(q, k, v, causal, hidden, scale):
        k, v = (_repeated(x, q.shape[1]) for x in (k, v))
        bias = None if hidden is None else _bias(hidden, q, 16).expand(q.shape[0], q.shape[1], -1, -1)
        out, lse = _aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, causal, scale=scale)[:2]
        return out, lse[:, :, :q.shape[2]]

    @staticmethod
    def backward(g, q, k, v, out, lse, causal, hidden, scale):
        heads = k.shape[1]
        k, v = (_repeated(x, q.shape[1]) for x in (k, v))
        bias = None if hidden is None else _bias(hidden, q, 16).expand(q.shape[0], q.shape[1], -1, -1)
        rows = -(-q.shape[2] // 32) * 32
        lse = torch.nn.functional.pad(lse, (0, rows - lse.shape[2]), value=float("inf"))
        none = torch.empty((), dtype=torch.int64, device=q.device)
        # In half precision the kernel reads the output by its shape, not its strides: as (batch, rows, heads, dimension).
        out = out.transpose(1, 2).contiguous().transpose(1, 2)
        dq, dk, dv, _ = _aten._scaled_dot_product_efficient_attention_backward(
            g, q, k, v, bias, out, lse, none, none, 0.0, [True, True, True, False], causal, scale=scale)
        return dq, _summed(dk, heads), _summed(dv, heads)


class Plain:
    """Matrix products and a softmax, for devices and dtypes that no other kernel accepts."""

    @staticmethod
    def _scores(q, k, causal, hidden, scale):
        s = (q @ _repeated(k, q.shape[1]).mT).to(torch.promote_types(q.dtype, torch.float32))
        s = s * (q.shape[3] ** -0.5 if scale is None else scale)
        if causal:
            hidden = torch.ones(s.shape[2:], dtype=torch.bool, device=s.device).triu(1)
        return s if hidden is None else s.masked_fill(hidden.to(s.device), float("-inf"))

    @staticmethod
    def forward(q, k, v, causal, hidden, scale):
        s = Plain._scores(q, k, causal, hidden, scale)
        lse = s.logsumexp(-1)
        return (s - lse.unsqueeze(-1)).exp().to(q.dtype) @ _repeated(v, q.shape[1]), lse

    @staticmethod
    def backward(g, q, k, v, out, lse, causal, hidden, scale):
        factor = q.shape[3] ** -0.5 if scale is None else scale
        p = (Plain._scores(q, k, causal, hidden, scale) - lse.unsqueeze(-1)).exp()
        dp = (g @ _repeated(v, q.shape[1]).mT).to(p.dtype)
        delta = (g.to(p.dtype) * out.to(p.dtype)).sum(-1, keepdim=True)
        ds = (p * (dp - delta) * factor).to(q.dtype)
        dk, dv = ds.mT @ q, p.to(q.dtype).mT @ g
        return ds @ _repeated(k, q.shape[1]), _summed(dk, k.shape[1]), _summed(dv, k.shape[1])


def kernel_for(q, hidden):
    """The kernel for queries of this device, dtype and head dimension; `hidden` is None without a mask."""
    dim = q.shape[3]
    if q.device.type == "cpu":
        return Cpu
    if q.device.type != "cuda" or q.dtype == torch.float64:
        return Plain
    if hidden is None and q.dtype in (torch.bfloat16, torch.float16) and dim <= 256 and dim % 8 == 0:
        return Flash
    return Efficient if dim % (4 if q.dtype == torch.float32 else 8) == 0 else Plain
