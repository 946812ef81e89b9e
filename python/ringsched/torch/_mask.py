"""Masks: which keys a query sees. Every mask is causal or full, cut off on the left."""

from __future__ import annotations

import re

from ._errors import Error

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _number(text):
    found = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
    if not found:
        raise Error(f"mask: {text!r} is not a number of tokens")
    return int(found[1]) * _UNITS[found[2]]


class Mask:
    """causal: no key after the query; window: keys this near; prefix: also the first positions;
    starts: where each document starts, and the end of the last."""

    def __init__(self, text):
        self.causal, self.window, self.prefix, self.starts = text != "full", None, 0, None
        kind, _, rest = text.partition(":")
        packed = re.fullmatch(r"window:(\w+),documents:(.*)", text)
        if packed:
            self.window = _number(packed[1])
            kind, rest = "documents", packed[2]
        if kind == "documents":
            self.starts = [0]
            for n in rest.split(","):
                self.starts.append(self.starts[-1] + _number(n))
            lengths = [b - a for a, b in zip(self.starts, self.starts[1:])]
            self.text = "documents:" + ",".join(map(str, lengths))
            if packed:
                self.text = f"window:{self.window},{self.text}"
        elif kind in ("window", "prefix"):
            found = re.fullmatch(r"(?:prefix:(\w+),)?window:(\w+)", text)
            if not found:
                raise Error(f"mask is {text!r}; use window:N or prefix:P,window:N")
            self.window = _number(found[2])
            self.text = f"window:{self.window}"
            if found[1] is not None:
                self.prefix = _number(found[1])
                self.text = f"prefix:{self.prefix},{self.text}"
        elif text in ("full", "causal"):
            self.text = text
        else:
            raise Error(f"mask is {text!r}; use full, causal, window:N, prefix:P,window:N, documents:A,B,... or window:N,documents:A,B,...")


def mask_of_documents(cu_seqlens, window=None):
    """The mask of documents packed one after the other, from their bounds (0, first end, ..., tokens).
    With a window, a query sees only itself and the `window` - 1 tokens of its document before it."""
    bounds = [int(x) for x in cu_seqlens]
    if len(bounds) < 2 or bounds[0] != 0 or any(b <= a for a, b in zip(bounds, bounds[1:])):
        raise Error(f"cu_seqlens is {bounds}; it must begin with 0 and grow")
    near = "" if window is None else f"window:{int(window)},"
    return near + "documents:" + ",".join(str(b - a) for a, b in zip(bounds, bounds[1:]))
