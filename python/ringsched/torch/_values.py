"""Tensors of a plan as torch tensors: the parts of each kind, and how to pack it for a message."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ._plan import OF_KEYS

_ALIGN = 16  # bytes; the kernels read 16 at once


def _parts_of(kind, dim, io, acc):
    """(dtype, elements of a row and head) of each part: io is the dtype of queries, acc that of sums."""
    if kind.startswith("rounded_"):
        return [(io, dim)] * (2 if kind in OF_KEYS else 1)
    return {
        "query": [(io, dim)],
        "key_value": [(io, dim)] * 2,
        "partial": [(acc, dim), (acc, 1)],  # with its log-sum-exp
        "output_gradient": [(io, dim)],
        "prepared_gradient": [(acc, 1), (acc, 1), (io, dim)],  # log-sum-exp, delta, dO
        "query_gradient": [(acc, dim)],
        "key_value_gradient": [(acc, dim)] * 2,
    }[kind]


@dataclass
class Held:
    """A tensor: parts of shape (batch, heads, rows, elements). `buffer` has them all side by side, or is None.

    `pending`: wait for it before reading the parts.
    """

    kind: str
    rows: tuple
    heads: tuple
    parts: tuple
    buffer: torch.Tensor | None = None
    pending: object = None


class Forms:
    """Shapes of tensors of one plan, for one batch size, dtype and device."""

    def __init__(self, plan, batch, io, device):
        self.plan, self.batch, self.io, self.device = plan, batch, io, device
        self.acc = torch.promote_types(io, torch.float32)

    def shapes(self, kind, rows, heads):
        n = self.plan.layout.count(rows)
        return [(dtype, (self.batch, heads[1], n, width))
                for dtype, width in _parts_of(kind, self.plan.head_dim, self.io, self.acc)]

    def _places(self, kind, rows, heads):
        at, out = 0, []
        for dtype, shape in self.shapes(kind, rows, heads):
            n = shape[0] * shape[1] * shape[2] * shape[3] * dtype.itemsize
            out.append((at, n, dtype, shape))
            at += -(-n // _ALIGN) * _ALIGN
        return out, at

    def bytes(self, kind, rows, heads):
        return self._places(kind, rows, heads)[1]

    def in_buffer(self, kind, rows, heads, buffer, pending=None):
        parts = tuple(buffer[at:at + n].view(dtype).view(shape)
                      for at, n, dtype, shape in self._places(kind, rows, heads)[0])
        return Held(kind, rows, heads, parts, buffer, pending)

    def empty(self, kind, rows, heads):
        """Room for a tensor, in one buffer."""
        size = self.bytes(kind, rows, heads)
        return self.in_buffer(kind, rows, heads, torch.empty(size, dtype=torch.uint8, device=self.device))

    def packed(self, held, rows, heads):
        """A tensor's rows and heads side by side in one buffer; its own buffer if that has exactly these."""
        if held.buffer is not None and (held.rows, held.heads) == (rows, heads):
            return held.buffer
        room = self.pack(held, rows, heads, torch.empty(self.bytes(held.kind, rows, heads), dtype=torch.uint8, device=self.device))
        if (held.rows, held.heads) == (rows, heads):
            held.buffer, held.parts = room.buffer, room.parts
        return room.buffer

    def pack(self, held, rows, heads, buffer):
        """Copies a tensor's rows and heads side by side into a buffer of that size."""
        room = self.in_buffer(held.kind, rows, heads, buffer)
        for to, part in zip(room.parts, self.cut(held, rows, heads)):
            to.copy_(part)
        return room

    def cut(self, held, rows, heads):
        """These rows and heads of each part, without a copy."""
        if (held.rows, held.heads) == (rows, heads):
            return held.parts
        at, n = self.plan.layout.offset(rows, held.rows), self.plan.layout.count(rows)
        h = heads[0] - held.heads[0]
        return tuple(x[:, h:h + heads[1], at:at + n] for x in held.parts)


def common(a, b):
    """What two ranges (first, count) have in common; None if nothing."""
    first, end = max(a[0], b[0]), min(a[0] + a[1], b[0] + b[1])
    return (first, end - first) if end > first else None
