"""Which worker owns which tokens: chunks of positions, and the share of each worker (docs/plan-format.md)."""

from __future__ import annotations

from ._errors import Error


def parts(count, pieces):
    """Cuts `count` positions into pieces, the larger ones first: a list of (start, count)."""
    out, start = [], 0
    for i in range(pieces):
        n = count // pieces + (i < count % pieces)
        out.append((start, n))
        start += n
    return out


def _listed(chunks, workers):
    out, shares = [], [None] * workers
    for chunk in chunks:
        w = chunk["worker"]
        first, n = shares[w] or (len(out), 0)
        if first + n != len(out):
            raise Error(f"layout: list the chunks of worker {w} together")
        shares[w] = (first, n + 1)
        out.append((chunk["start"], chunk["count"], chunk.get("stride", 1)))
    if None in shares:
        raise Error(f"layout: worker {shares.index(None)} has no chunk")
    return out, shares


def _for_decoding(workers, documents, new_tokens):
    """The cached tokens of each document in parts; after those of the last worker, all new tokens."""
    has, new, cached = [[] for _ in range(workers)], [], 0
    for start, end in zip(documents, documents[1:]):
        count = end - start - new_tokens
        for i, (s, n) in enumerate(parts(count, workers)):
            if n:
                has[(cached + i) % workers].append((start + s, n, 1))
        if new_tokens:
            new.append((end - new_tokens, new_tokens, 1))
        cached += count
    has[-1] += new
    chunks, shares = [], []
    for own in has:
        shares.append((len(chunks), len(own)))
        chunks += own
    return chunks, shares


class Layout:
    """chunks: (start, count, stride) of each; shares: (first chunk, number of chunks) by worker; queries: in decoding,
    the region of all new tokens, the last ones of each document."""

    def __init__(self, said, workers, tokens, documents=(), new_tokens=0):
        self._make(said, workers, tokens, documents, new_tokens)
        new = [i for i, (start, _, _) in enumerate(self.chunks)
               if new_tokens and min(end for end in documents if end > start) - start <= new_tokens]
        self.queries = (new[0], new[-1] + 1 - new[0]) if new else (0, 0)

    def _make(self, said, workers, tokens, documents, new_tokens):
        per_worker = 1
        if isinstance(said, dict):
            self.chunks, self.shares = _listed(said["chunks"], workers)
            return
        if said == "decode":
            self.chunks, self.shares = _for_decoding(workers, documents, new_tokens)
            return
        if said == "contiguous":
            self.chunks = [(s, n, 1) for s, n in parts(tokens, workers)]
        elif said == "striped":
            self.chunks = [(r, len(range(r, tokens, workers)), workers) for r in range(workers)]
        elif said == "zigzag":
            p, per_worker = parts(tokens, 2 * workers), 2
            self.chunks = [(*p[i], 1) for r in range(workers) for i in (r, 2 * workers - 1 - r)]
        elif said == "halves":
            per_worker = 2
            self.chunks = [(s + a, n, 1) for s, m in parts(tokens, workers) for a, n in parts(m, 2)]
        else:
            raise Error(f"layout is {said!r}; use contiguous, striped, zigzag, halves, decode or a list of chunks")
        self.shares = [(r * per_worker, per_worker) for r in range(workers)]

    def count(self, region):
        """The tokens of a region, a (first chunk, number of chunks)."""
        first, n = region
        return sum(c[1] for c in self.chunks[first:first + n])

    def offset(self, part, whole):
        """How many tokens of region `whole` come before its region `part`."""
        return self.count((whole[0], part[0] - whole[0]))
