#!/usr/bin/env python3
"""Drop-ins: ring-flash-attention's functions, torch's SDPA signature, transformers."""

import unittest

import torch
import torch.distributed as dist
from torch_support import make_plan, on_workers, reference, tensors

try:
    import transformers
except ImportError:
    transformers = None

TOKENS = 64


def error_of(call):
    import ringsched.torch as rt

    try:
        call()
    except rt.Error as e:
        return str(e)
    return None


def compat(rank, workers):
    from ringsched.torch import compat as c

    whole = tensors(2, TOKENS, 4, 2, 16, torch.float64)
    t = torch.arange(TOKENS)
    half = t.chunk(2 * workers)
    places = {"ring": t.chunk(workers)[rank], "stripe": t[rank::workers],
              "zigzag_ring": torch.cat([half[rank], half[2 * workers - 1 - rank]])}
    for name, here in places.items():
        for options, mask in (({"causal": True}, "causal"), ({}, "full"),
                              ({"causal": True, "window_size": (6, 0)}, "window:7")):
            expected = reference(*whole, mask)
            q, k, v, g = (x[:, here].clone().requires_grad_() for x in whole)
            out, lse, _ = getattr(c, f"{name}_flash_attn_func")(q, k, v, return_attn_probs=True, **options)
            out.backward(g)
            for a, e in zip((out, q.grad, k.grad, v.grad), (expected[0], *expected[2:])):
                if (a - e[:, here]).abs().max() > 1e-12:
                    return f"{name} {mask}: {(a - e[:, here]).abs().max()}"
            if (lse - expected[1][:, :, here]).abs().max() > 1e-12:
                return f"{name}: lse"
            packed = getattr(c, f"{name}_flash_attn_kvpacked_func")(q, torch.stack([k, v], 2), **options)
            if not torch.equal(packed, out):
                return f"{name}: kvpacked"
    q, k, v, _ = (x[:, places["ring"]] for x in whole)
    refused = [error_of(lambda: c.ring_flash_attn_func(q, k, v, dropout_p=0.1)),
               error_of(lambda: c.ring_flash_attn_func(q, k, v, window_size=(3, 3)))]
    return all(refused) or f"accepted: {refused}"


def sdpa(rank, plan):
    import ringsched.torch as rt

    context = rt.Context(plan, deadline=60)
    whole = tensors(1, TOKENS, 4, 2, 16, torch.float64)
    q, k, v = (x.transpose(1, 2) for x in context.dispatch(*whole[:3]))
    call = rt.scaled_dot_product_attention
    with context:
        out = call(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2)
        refused = [error_of(lambda: call(q, k, v, enable_gqa=True)), error_of(lambda: call(q, k, v, is_causal=True)),
                   error_of(lambda: call(q, k, v, q, is_causal=True, enable_gqa=True))]
    refused.append(error_of(lambda: call(q, k, v, is_causal=True, enable_gqa=True)))
    here = context.positions(context.share)
    same = (out - reference(*whole, "causal")[0][:, here]).abs().max() < 1e-12
    return bool(same) and all(refused) or f"{bool(same)} {refused}"


def llama(window=None):
    kinds = {} if window is None else {"sliding_window": window}
    config = (transformers.LlamaConfig if window is None else transformers.MistralConfig)(
        vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation="sdpa", **kinds)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64)


def losses_of_training(rank, workers, plan, steps=10):
    """The losses of ten steps, and the gradients of the first; workers = 1 is the model as it is."""
    import ringsched.torch as rt

    model = llama()
    ids = torch.randint(97, (2, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    ids, labels = ids[:, :-1], ids[:, 1:]  # shifted while tokens are in order
    arguments = {}
    if workers > 1:
        rt.register_with_transformers()
        context = rt.Context(plan, deadline=60)
        rt.use(context)
        model.set_attn_implementation("ringsched")
        ids, labels = context.dispatch(ids, labels)
        arguments["position_ids"] = context.position_ids().expand(2, -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, gradients = [], None
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(ids, use_cache=False, **arguments).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / (2 * TOKENS)
        loss.backward()
        total = loss.detach().clone()
        if workers > 1:
            for x in [total] + [p.grad for p in model.parameters()]:
                dist.all_reduce(x)
        gradients = gradients or [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        losses.append(float(total))
    return losses, gradients


def losses_with_fsdp(rank, workers, plan, steps=10):
    """As losses_of_training, with parameters sharded over the same processes, and every layer checkpointed."""
    import ringsched.torch as rt
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (workers,))
    rt.register_with_transformers()
    context = rt.Context(plan, mesh, deadline=60)
    model = llama()
    model.set_attn_implementation("ringsched")
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    ids = torch.randint(97, (2, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    ids, labels = context.dispatch(ids[:, :-1], ids[:, 1:])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    with context:
        for _ in range(steps):
            optimizer.zero_grad()
            logits = model(ids, position_ids=context.position_ids().expand(2, -1), use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / (2 * TOKENS)
            (loss * workers).backward()  # FSDP takes the mean over processes
            total = loss.detach().clone()
            dist.all_reduce(total)
            optimizer.step()
            losses.append(float(total))
    return losses


def refused_window(rank, plan):
    import ringsched.torch as rt

    rt.register_with_transformers()
    model = llama(window=9)
    model.set_attn_implementation("ringsched")
    context = rt.Context(plan, deadline=60)
    ids = context.dispatch(torch.zeros(1, TOKENS, dtype=torch.int64))
    with context:
        return error_of(lambda: model(ids, position_ids=context.position_ids()[None], use_cache=False))


class DropIns(unittest.TestCase):
    def all_true(self, found):
        for said in found:
            self.assertIs(said, True, said)

    def test_functions_of_ring_flash_attention(self):
        self.all_true(on_workers(2, compat, 2))

    def test_scaled_dot_product_attention(self):
        self.all_true(on_workers(2, sdpa, make_plan(2, "balanced", tokens=TOKENS)))

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_a_llama_trains_as_on_one_process(self):
        alone = on_workers(1, losses_of_training, 1, None)[0]
        self.assertIsInstance(alone, tuple, alone)
        self.assertLess(alone[0][-1], alone[0][0])
        for workers, schedule in ((2, "zigzag"), (2, "ulysses"), (4, "balanced")):
            with self.subTest(workers=workers, schedule=schedule):
                plan = make_plan(workers, schedule, tokens=TOKENS)
                for said in on_workers(workers, losses_of_training, workers, plan):
                    self.assertIsInstance(said, tuple, said)
                    losses, gradients = said
                    for a, b in zip(losses, alone[0]):
                        self.assertAlmostEqual(a, b, places=10)
                    for a, b in zip(gradients, alone[1]):
                        self.assertLess(float((a - b).abs().max()), 1e-12)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_a_llama_under_fsdp_and_checkpointing_trains_as_on_one_process(self):
        alone = on_workers(1, losses_of_training, 1, None)[0][0]
        for said in on_workers(2, losses_with_fsdp, 2, make_plan(2, "balanced", tokens=TOKENS)):
            self.assertIsInstance(said, list, said)
            for a, b in zip(said, alone):
                self.assertAlmostEqual(a, b, places=10)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_a_sliding_window_is_not_dropped(self):
        for said in on_workers(2, refused_window, make_plan(2, tokens=TOKENS)):
            self.assertRegex(str(said), "sliding window of 9; the plan's mask is causal")
        for said in on_workers(2, refused_window, make_plan(2, tokens=TOKENS, mask="window:9")):
            self.assertIsNone(said)


if __name__ == "__main__":
    unittest.main()
