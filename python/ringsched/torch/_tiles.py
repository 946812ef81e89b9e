"""What an attend's queries see of its keys, as few pieces that an attention kernel takes: full rectangles and
causal squares. The rest becomes blocks of rows, each with a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_BLOCK = 1024  # rows of a masked block
_MOST_RUNS = 32  # more pieces than this are worth it only if they are long


@dataclass
class Piece:
    """Rows and keys as slices; form is "full", "causal" (a square; row i sees keys 0 to i) or "masked"."""

    rows: slice
    keys: slice
    form: str
    hidden: torch.Tensor | None = None  # masked: (rows, keys), true where a row does not see a key


@dataclass
class Tile:
    pieces: list
    order: torch.Tensor | None  # keys are taken in this order; None: as they are


def positions(layout, region):
    """The token positions of a region, chunk after chunk."""
    first, n = region
    parts = [torch.arange(s, s + c * d, d) for s, c, d in layout.chunks[first:first + n]]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)


def _lowest_seen(mask, q):
    """The first position that each query may see, apart from the prefix."""
    lowest = torch.zeros_like(q)
    if mask.starts is not None:
        starts = torch.tensor(mask.starts)
        lowest = starts[torch.searchsorted(starts, q, right=True) - 1]
    if mask.window is not None:
        lowest = torch.maximum(lowest, q - mask.window + 1)
    return lowest


def _hidden(mask, q, k):
    if not mask.causal:
        return torch.zeros(len(q), len(k), dtype=torch.bool)
    near = (k[None] >= _lowest_seen(mask, q)[:, None]) | (k[None] < mask.prefix)
    return ~(near & (k[None] <= q[:, None]))


def _runs(first, end):
    """Splits rows into runs that all see the same keys, or each one key more: (start, stop, grows)."""
    grows = (end[1:] == end[:-1] + 1) & (first[1:] == first[:-1])
    stays = (end[1:] == end[:-1]) & (first[1:] == first[:-1])
    kind = (grows.int() + 2 * stays.int()).tolist()  # of the step from one row to the next
    out, i, n = [], 0, len(first)
    while i < n:
        j = i
        k = kind[i] if i + 1 < n else 0
        if k:
            while j + 1 < n and kind[j] == k:
                j += 1
        out.append((i, j + 1, k == 1))
        i = j + 1
    return out


def _of_runs(runs, first, end):
    pieces = []
    for start, stop, grows in runs:
        a, c, n = int(first[start]), int(end[start]), stop - start
        if grows and c > a:
            if c - 1 > a:
                pieces.append(Piece(slice(start, stop), slice(a, c - 1), "full"))
            pieces.append(Piece(slice(start, stop), slice(c - 1, c - 1 + n), "causal"))
        elif grows and n > 1:  # the first row sees nothing
            pieces.append(Piece(slice(start + 1, stop), slice(a, a + n - 1), "causal"))
        elif not grows and c > a:
            pieces.append(Piece(slice(start, stop), slice(a, c), "full"))
    return pieces


def _masked(mask, q, k):
    """Blocks of rows, each with the keys from the first to the last that any of its rows sees."""
    pieces = []
    for start in range(0, len(q), _BLOCK):
        hidden = _hidden(mask, q[start:start + _BLOCK], k)
        alive = (~hidden).any(1)
        edges = torch.nonzero(alive.diff()).flatten().add(1).tolist()
        bounds = [0, *edges, len(alive)]
        for a, b in zip(bounds, bounds[1:]):
            if not alive[a]:
                continue
            seen = torch.nonzero((~hidden[a:b]).any(0)).flatten()
            keys = slice(int(seen[0]), int(seen[-1]) + 1)
            part = hidden[a:b, keys]
            rows = slice(start + a, start + b)
            pieces.append(Piece(rows, keys, "masked", part) if part.any() else Piece(rows, keys, "full"))
    return pieces


def tile(mask, q, k):
    """What queries at positions q see of keys at positions k. Rows in no piece see nothing."""
    if len(q) == 0 or len(k) == 0:
        return Tile([], None)
    order = None
    if bool((k.diff() <= 0).any()):
        order = k.argsort()
        k = k[order]
    if not mask.causal:
        return Tile([Piece(slice(0, len(q)), slice(0, len(k)), "full")], None)
    first = torch.searchsorted(k, _lowest_seen(mask, q))
    end = torch.maximum(torch.searchsorted(k, q, right=True), first)
    prefixed = mask.prefix > 0 and bool((torch.searchsorted(k, torch.minimum(torch.tensor(mask.prefix), q + 1))
                                         .minimum(first) > 0).any())
    runs = _runs(first, end)
    if prefixed or len(runs) > max(_MOST_RUNS, len(q) // 64):
        return Tile(_masked(mask, q, k), order)
    return Tile(_of_runs(runs, first, end), order)
