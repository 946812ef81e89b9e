"""Runs ringsched's plans with PyTorch, over torch.distributed.

    import torch.distributed as dist
    import ringsched.torch as rt

    dist.init_process_group()
    context = rt.Context("plan.json")                    # the same plan on every process
    ids, labels = context.dispatch(ids, labels)          # this process's share of the tokens
    out = rt.attention(q, k, v, context)                 # (batch, tokens, heads, head_dim), with gradients

Needs only torch.
"""

from ._attention import attention
from ._context import DTYPES, Context, use
from ._errors import Error
from ._mask import mask_of_documents
from .compat import register_with_transformers, scaled_dot_product_attention

__all__ = ["DTYPES", "Context", "Error", "attention", "mask_of_documents", "register_with_transformers",
           "scaled_dot_product_attention", "use"]
