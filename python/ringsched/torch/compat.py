"""Functions with the names and signatures of ring-flash-attention, and torch's scaled_dot_product_attention.

    from ringsched.torch.compat import zigzag_ring_flash_attn_func

They need no flash-attn. The first call with a shape makes a plan and proves it. Anything that a plan cannot do
(dropout, ALiBi) raises an error.
"""

from __future__ import annotations

from ._attention import attention
from ._context import current
from ._errors import Error
from ._make import context_for


def _mask(causal, window_size):
    left, right = window_size
    if (left, right) == (-1, -1):
        return "causal" if causal else "full"
    if not causal or left < 0 or right > 0:
        raise Error(f"window_size is {tuple(window_size)} with causal={causal}; use causal=True and (left, 0) or (-1, -1)")
    return f"window:{left + 1}"


def _attend(schedule, q, k, v, dropout_p, softmax_scale, causal, window_size, alibi_slopes, return_attn_probs, group):
    if dropout_p:
        raise Error(f"dropout_p is {dropout_p}; plans have no dropout, use 0")
    if alibi_slopes is not None:
        raise Error("alibi_slopes is given; plans have no ALiBi, use None")
    context = context_for(schedule, q, k, _mask(causal, window_size), group)
    found = attention(q, k, v, context, softmax_scale, return_lse=return_attn_probs)
    return (*found, None) if return_attn_probs else found


def _functions(name, schedule):
    """func, kvpacked_func and qkvpacked_func of a schedule."""

    def func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), alibi_slopes=None,
             deterministic=False, return_attn_probs=False, group=None):
        return _attend(schedule, q, k, v, dropout_p, softmax_scale, causal, window_size, alibi_slopes,
                       return_attn_probs, group)

    def kvpacked(q, kv, *args, **kwargs):
        return func(q, kv[:, :, 0], kv[:, :, 1], *args, **kwargs)

    def qkvpacked(qkv, *args, **kwargs):
        return func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], *args, **kwargs)

    for f, kind in ((func, ""), (kvpacked, "kvpacked_"), (qkvpacked, "qkvpacked_")):
        f.__name__ = f.__qualname__ = f"{name}_flash_attn_{kind}func"
        f.__doc__ = f"As ring_flash_attn.{f.__name__}, with the plan of schedule {schedule}. Shares have equal sizes."
    return func, kvpacked, qkvpacked


ring_flash_attn_func, ring_flash_attn_kvpacked_func, ring_flash_attn_qkvpacked_func = _functions("ring", "ring")
(zigzag_ring_flash_attn_func, zigzag_ring_flash_attn_kvpacked_func,
 zigzag_ring_flash_attn_qkvpacked_func) = _functions("zigzag_ring", "zigzag")
stripe_flash_attn_func, stripe_flash_attn_kvpacked_func, stripe_flash_attn_qkvpacked_func = _functions("stripe", "striped")


def _of_call(is_causal):
    context = current()
    if context is None:
        raise Error("attention by ringsched outside of a context; use `with context:` or ringsched.torch.use(context)")
    if is_causal != context.plan.mask.causal:
        raise Error(f"the call says is_causal={is_causal}; the plan's mask is {context.plan.mask.text}")
    return context


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    """torch.nn.functional.scaled_dot_product_attention over all workers, by the plan of the current context."""
    if attn_mask is not None or dropout_p:
        raise Error("attn_mask or dropout_p is given; the mask is the plan's, and there is no dropout")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise Error(f"{query.shape[1]} query heads and {key.shape[1]} key heads; use enable_gqa=True")
    return attention(query, key, value, _of_call(is_causal), scale, layout="bhsd")


def _transformers_attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None,
                            is_causal=None, softcap=None, s_aux=None, **_):
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    context = _of_call(bool(causal))
    for name, given in (("attention_mask", attention_mask), ("softcap", softcap), ("s_aux", s_aux)):
        if given is not None:
            raise Error(f"{name} is given; a plan has none")
    if dropout:
        raise Error(f"attention dropout is {dropout}; plans have no dropout, use 0")
    if sliding_window is not None and sliding_window < context.plan.tokens and context.plan.mask.window != sliding_window:
        raise Error(f"this layer has a sliding window of {sliding_window}; the plan's mask is {context.plan.mask.text}")
    return attention(query, key, value, context, scaling, layout="bhsd").transpose(1, 2), None


def register_with_transformers():
    """Makes attn_implementation="ringsched" known to transformers. Models then need position_ids of their share."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register("ringsched", _transformers_attention)
    AttentionMaskInterface.register("ringsched", _no_mask)


def _no_mask(*_, attention_mask=None, **__):
    """The plan has the mask, and a padding mask is not part of it."""
    if attention_mask is not None and not bool(attention_mask.bool().all()):
        raise Error("attention_mask hides tokens; use documents or a shorter sequence instead of padding")
