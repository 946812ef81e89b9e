"""The hash of a plan, as timeline/timeline.cpp computes it: equal hashes mean that tasks may be compared one by one."""

from __future__ import annotations

from ._plan import KINDS, MEMBERS, OF_KEYS, TASKS

_ALL = (1 << 64) - 1
_NONE = (1 << 32) - 1


class _Hash:
    def __init__(self):
        self.state = 0x72696E6773636864

    def add(self, x):
        s = self.state
        s ^= (x + 0x9E3779B97F4A7C15 + (s << 6 & _ALL) + (s >> 2)) & _ALL
        s = (s ^ (s >> 30)) * 0xBF58476D1CE4E5B9 & _ALL
        self.state = s ^ (s >> 27)

    def text(self, text):
        data = text.encode()
        self.add(len(data))
        for c in data:
            self.add(c)

    def pair(self, pair):
        self.add(pair[0] << 32 | pair[1])


def _met(task, numbers):
    if task.keys is not None:
        return task.keys[0] << 32 | task.keys[1]
    if task.do in ("send", "receive"):
        return _NONE if task.peer is None else task.peer
    return numbers[task.members.start] if task.members is not None else 0


def plan_hash(plan):
    h = _Hash()
    for x in (plan.workers, plan.tokens, plan.heads, plan.kv_heads, plan.head_dim):
        h.add(x)
    for text in (plan.dtype, plan.mask.text, plan.passes):
        h.text(text)
    if plan.new_tokens:
        h.add(plan.new_tokens)
    if plan.dummy_heads[0]:
        h.pair(plan.dummy_heads)
    h.add(len(plan.layout.chunks))
    for start, count, stride in plan.layout.chunks:
        h.add(start)
        h.add(stride)
        h.add(count)
    h.add(0)
    for first, count in plan.layout.shares:
        h.add(first + count)

    def heads(kind, some):
        if tuple(some) != (0, plan.kv_heads if kind in OF_KEYS else plan.heads):
            h.pair(some)

    for name in plan.lanes[3:]:
        h.text(name)
    h.add(plan.initial)
    for x in list(plan.tensors.values())[:plan.initial]:
        heads(x.kind, x.heads)
        h.add(KINDS.index(x.kind) << 32 | x.worker)
        h.pair(x.rows)
    numbers = {}
    for kind in MEMBERS:
        firsts = [t.id for t in plan.tasks if t.do == kind and t.id == t.members.start]
        numbers |= {first: n for n, first in enumerate(firsts)}
    h.add(len(plan.tasks))
    for t in plan.tasks:
        heads(t.makes, t.heads)
        if t.lane >= 3:
            h.add(t.lane)
        h.add(TASKS.index(t.do) | KINDS.index(t.makes) << 4 | min(t.lane, 3) << 8 | t.with_previous << 10
              | t.worker << 11 | t.step << 32)
        h.pair(t.rows)
        h.add(_met(t, numbers))
        for n in t.inputs + [_NONE] * (3 - len(t.inputs)):
            h.add(n)
    controls = [(before, t.id) for t in plan.tasks for before in sorted(t.after)]
    for pair in controls:
        h.pair(pair)
    h.add(len(controls))
    for t in plan.tasks:
        if t.slot is not None:
            h.pair((t.id, t.slot))
    return f"{h.state:016x}"
