"""Heads of a call among those of its plan: a plan may have dummy heads, so that all workers have equally many."""

from __future__ import annotations

import torch


class Heads:
    """query, key_value: how many heads a call has. Query heads keep their key/value head, which in the plan may be read
    by more of them."""

    def __init__(self, plan):
        self.query, self.key_value = plan.heads - plan.dummy_heads[0], plan.kv_heads - plan.dummy_heads[1]
        self.all = {"query": plan.heads, "key_value": plan.kv_heads}
        group, of_plan = self.query // self.key_value, plan.heads // plan.kv_heads
        self.places = {"query": [h // group * of_plan + h % group for h in range(self.query)],
                       "key_value": list(range(self.key_value))}
        self.padded = plan.dummy_heads[0] > 0

    def pad(self, x, kind):
        """(batch, heads, rows, elements), with zeros for dummy heads."""
        if not self.padded:
            return x
        out = x.new_zeros((x.shape[0], self.all[kind], *x.shape[2:]))
        out[:, self.places[kind]] = x
        return out

    def unpad(self, x, kind):
        return x[:, self.places[kind]] if self.padded else x
