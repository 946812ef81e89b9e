"""The functions of flash_attn that ring_flash_attn needs, on CPUs: torch's own flash attention under their names."""

import sys
import types

import torch

aten = torch.ops.aten


def _check(dropout_p, window_size_left, window_size_right, alibi_slopes):
    assert not dropout_p and alibi_slopes is None and (window_size_left, window_size_right) == (-1, -1)


def _flash_attn_forward(q, k, v, dropout_p, softmax_scale, causal, window_size_left=-1, window_size_right=-1, softcap=0.0,
                        alibi_slopes=None, return_softmax=False):
    _check(dropout_p, window_size_left, window_size_right, alibi_slopes)
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(*(x.transpose(1, 2) for x in (q, k, v)), 0.0, causal,
                                                                scale=softmax_scale)
    return out.transpose(1, 2), lse.contiguous(), None, None


def _flash_attn_backward(dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left=-1,
                         window_size_right=-1, softcap=0.0, alibi_slopes=None, deterministic=False, rng_state=None):
    _check(dropout_p, window_size_left, window_size_right, alibi_slopes)
    lse = softmax_lse.transpose(1, 2).contiguous().transpose(1, 2)  # as the forward kernel lays it out
    made = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *(x.transpose(1, 2) for x in (dout, q, k, v, out)), lse, 0.0, causal, scale=softmax_scale)
    for to, x in zip((dq, dk, dv), made):
        to.copy_(x.transpose(1, 2))


def _varlen(*_):
    raise NotImplementedError


def install():
    """Makes `import ring_flash_attn` work from now on."""
    package, interface = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.flash_attn_interface")
    interface._flash_attn_forward, interface._flash_attn_backward = _flash_attn_forward, _flash_attn_backward
    interface._flash_attn_varlen_forward = interface._flash_attn_varlen_backward = _varlen
    package.flash_attn_interface = interface
    sys.modules["flash_attn"], sys.modules["flash_attn.flash_attn_interface"] = package, interface
    try:  # ring_flash_attn 0.1.8 imports a name that transformers has removed
        import transformers.modeling_flash_attention_utils as utils
    except ImportError:
        return
    if not hasattr(utils, "is_flash_attn_greater_or_equal_2_10"):
        utils.is_flash_attn_greater_or_equal_2_10 = lambda: True
