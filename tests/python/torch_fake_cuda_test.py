#!/usr/bin/env python3
"""All that a GPU would be asked for, with fake CUDA tensors: torch checks shapes, dtypes and devices of every call, and
nothing is computed. Numbers on GPUs are tried by scripts/gpu-check alone.
"""

import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch_support import make_plan

import ringsched.torch as rt
from ringsched.torch import _kernels
from ringsched.torch._meeting import Meeting

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Calls:
    """Counts which kernels are called."""

    def __init__(self):
        self.found = {}

    def __enter__(self):
        real = _kernels.kernel_for

        def counted(q, hidden):
            kernel = real(q, hidden)
            self.found[kernel.__name__] = self.found.get(kernel.__name__, 0) + 1
            return kernel

        self.patch = mock.patch("ringsched.torch._compute.kernel_for", counted)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()


class Contracts(TorchDispatchMode):
    """What the kernels ask of their arguments and fake tensors do not check."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__
        if name.startswith("_scaled_dot_product_"):
            q, k, v = args[1:4] if "backward" in name else args[:3]
            assert all(x.stride(-1) == 1 for x in (q, k, v)), "the elements of a head do not lie side by side"
            assert q.shape[3] == k.shape[3] == v.shape[3] and k.shape[:3] == v.shape[:3]
            if "flash" in name:
                assert q.dtype in (torch.bfloat16, torch.float16) and q.shape[1] % k.shape[1] == 0
            else:
                assert q.shape[1] == k.shape[1], "this kernel has no heads that share keys"
                bias = args[4] if "backward" in name else args[3]
                if bias is not None:
                    assert bias.shape == (*q.shape[:3], k.shape[2]) and bias.stride(-2) % 16 == 0
            if "backward" in name:
                out, lse = args[5 if "efficient" in name else 4], args[6 if "efficient" in name else 5]
                rows = -(-q.shape[2] // 32) * 32 if "efficient" in name else q.shape[2]
                assert out.shape == q.shape and lse.shape == (*q.shape[:2], rows) and lse.dtype == torch.float32
                # kernel_backward.h: o_strideM() is num_heads * head_dim_value.
                assert out.transpose(1, 2).is_contiguous(), "the kernel would read other elements of the output"
        elif name.startswith("_flash_attention_backward"):
            _, q, k, v, out, lse, *ends = args[:8]
            assert ends == [None, None], "any tensor, even an empty one, means a batch of several lengths"
            assert q.dtype in (torch.bfloat16, torch.float16) and q.shape[2] % k.shape[2] == 0 and k.shape == v.shape
            assert out.shape == q.shape and lse.shape == (q.shape[0], q.shape[2], q.shape[1]) and lse.is_contiguous()
            assert all(x.stride(-1) == 1 for x in (q, k, v, out)), "the elements of a head do not lie side by side"
        return func(*args, **(kwargs or {}))


class FakeCuda(unittest.TestCase):
    def same(self, found, like):
        self.assertEqual(*([(x.shape, x.dtype, x.device) for x in xs] for xs in (found, like)))

    def pass_of(self, plan, worker, workers, dtype, bshd=True):
        """Forward and backward of one worker, over a process group that moves nothing."""
        dist.init_process_group("fake", rank=worker, world_size=workers, store=FakeStore())
        try:
            with mock.patch.object(Meeting, "agree_on_plan"), mock.patch.object(Meeting, "agree_on_call"), \
                    mock.patch.object(rt.Context, "_make_groups"), \
                    mock.patch.object(rt.Context, "lane_group", lambda *_: dist.group.WORLD), \
                    mock.patch.object(rt.Context, "member_group", lambda *_: dist.group.WORLD):
                context = rt.Context(plan)
                p = context.plan
                for t in p.tasks:  # their positions are no part of what is faked
                    if t.keys is not None and t.worker == worker:
                        context.tile(t)
                with FakeTensorMode(allow_non_fake_inputs=True), Contracts(), Calls() as calls:
                    def some(heads):
                        shape = (2, context.tokens, heads, p.head_dim) if bshd else (2, heads, context.tokens, p.head_dim)
                        return torch.empty(shape, dtype=dtype, device="cuda")

                    q, k, v = some(p.heads), some(p.kv_heads), some(p.kv_heads)
                    op = torch.ops.ringsched  # under fake tensors, operators only say what they would make
                    out, lse, *keep = op.attention(q, k, v, context.number, 1.0, bshd)
                    grads = op.attention_backward(out, q, k, v, keep, context.number, 1.0, bshd)
                    inside = [x.transpose(1, 2) if bshd else x for x in (q, k, v)]
                    made = context.run_forward(*inside, 1.0)  # and here each kernel and message is called
                    self.same(made[2], keep)
                    self.same([made[0], made[1].squeeze(-1)], [out.transpose(1, 2) if bshd else out, lse])
                    made = context.run_backward(inside[0], *inside, keep, 1.0)
                    self.same(made, [x.transpose(1, 2) if bshd else x for x in grads])
                    self.same([out, *grads], [q, q, k, v])
            return calls.found
        finally:
            dist.destroy_process_group()

    def test_every_schedule_and_dtype(self):
        for schedule in ("ring", "striped", "zigzag", "balanced", "balanced-split", "ulysses", "all-gather",
                         "all-gather:stride=1", "usp:ulysses=2:ring=zigzag", "double-ring:node=2"):
            for name, dtype in TYPES.items():
                plan = make_plan(4, schedule, tokens=4 * 32 + 3, heads=8, kv_heads=4, head_dim=64, dtype=name)
                for worker in (0, 3):
                    with self.subTest(schedule=schedule, dtype=name, worker=worker):
                        found = self.pass_of(plan, worker, 4, dtype, bshd=worker == 0)
                        self.assertEqual(set(found), {"Efficient" if name == "fp32" else "Flash"})

    def test_masks_and_head_dimensions(self):
        for mask, dim, expected in (("window:19", 64, {"Efficient"}), ("documents:40,24,64", 64, {"Flash"}),
                                    ("prefix:3,window:11", 128, {"Efficient"}), ("full", 128, {"Flash"}),
                                    ("causal", 20, {"Plain"}), ("causal", 264, {"Efficient"}),
                                    ("window:19", 20, {"Plain"})):
            with self.subTest(mask=mask, dim=dim):
                plan = make_plan(2, "zigzag", tokens=128, head_dim=dim, dtype="bf16", mask=mask)
                found = self.pass_of(plan, 1, 2, torch.bfloat16)
                self.assertTrue(expected <= set(found) <= expected | {"Flash"}, found)


if __name__ == "__main__":
    unittest.main()
