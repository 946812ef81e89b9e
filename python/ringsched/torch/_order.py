"""The order in which one thread of each worker starts its tasks, so that workers never wait in a circle.

The order comes from a simulated run of the whole plan in which every task takes a fixed time, by the rules of
docs/plan-format.md (rule 21). In that run, a task starts after everything it waits for, on whichever worker. So
workers that follow it never deadlock, even if waiting for a message blocks the thread.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from ._errors import Error

_COST = {"attend": 4, "attend_backward": 8, "send": 3, "receive": 3, "exchange": 3}
_TRANSFERS = ("send", "receive")


def split(plan):
    """The tasks of the forward pass, those that results need, and the rest."""
    results = ("partial", "rounded_partial")
    todo = [t.id for t in plan.tasks if t.do == "output" and t.makes in results]
    outputs = set(todo)
    if plan.passes == "backward":
        todo, outputs = [], set()
    forward = set(todo)
    while todo:
        t = plan.tasks[todo.pop()]
        needs = [plan.maker(n) for n in t.inputs]
        needs += [t.peer] if t.do in _TRANSFERS else t.members or []
        for n in needs:
            if n is not None and n not in forward:
                forward.add(n)
                todo.append(n)
    return forward, set(range(len(plan.tasks))) - forward


class _Groups:
    """Tasks that start together: runs of transfers, or one task."""

    def __init__(self, plan, tasks):
        self.tasks, self.of, lanes = [], {}, defaultdict(lambda: -1)
        self.needs = []
        last = {}  # the last task of each worker's lane, of all tasks
        for t in plan.tasks:
            lane = (t.worker, t.lane)
            previous, last[lane] = last.get(lane), t.id
            if t.id not in tasks:
                continue
            if t.with_previous and previous in self.of:
                g = self.of[previous]
                self.tasks[g].append(t)
            else:
                g = len(self.tasks)
                self.tasks.append([t])
                self.needs.append({lanes[lane]} - {-1})
                lanes[lane] = g
            self.of[t.id] = g
        for g, members in enumerate(self.tasks):
            for t in members:
                for n in [plan.maker(x) for x in t.inputs] + t.after:
                    if n in self.of and self.of[n] != g:
                        self.needs[g].add(self.of[n])

    def partners(self, g):
        found = set()
        for t in self.tasks[g]:
            found |= {self.of[m] for m in ([t.peer] if t.do in _TRANSFERS else t.members or [])}
        return found - {g}


def order(plan, tasks):
    """For each worker the groups of these tasks, as lists, in the order in which they start."""
    groups = _Groups(plan, tasks)
    n = len(groups.tasks)
    waits = [len(needs) for needs in groups.needs]
    unposted = [groups.partners(g) for g in range(n)]
    after = defaultdict(list)
    for g, needs in enumerate(groups.needs):
        for before in needs:
            after[before].append(g)
    moves = [groups.tasks[g][0].do in ("send", "receive", "exchange") for g in range(n)]
    out = [[] for _ in range(plan.workers)]
    ready, ends, posted, now = [g for g in range(n) if waits[g] == 0], [], set(), 0
    while ready or ends:
        for g in sorted(ready, key=lambda g: (not moves[g], groups.tasks[g][0].id)):
            posted.add(g)
            out[groups.tasks[g][0].worker].append(groups.tasks[g])
            unposted[g] -= posted
            done = [g] if not unposted[g] else []
            for p in groups.partners(g) & posted:
                if g in unposted[p]:
                    unposted[p].discard(g)
                    done += [p] if not unposted[p] else []
            for d in done:
                heapq.heappush(ends, (now + _COST.get(groups.tasks[d][0].do, 1), d))
        ready = []
        if ends:
            now = ends[0][0]
        while ends and ends[0][0] == now:
            for g in after[heapq.heappop(ends)[1]]:
                waits[g] -= 1
                ready += [g] if waits[g] == 0 else []
    if len(posted) < n:
        stuck = min(groups.tasks[g][0].id for g in range(n) if g not in posted)
        raise Error(f"{plan.name}: {plan.tasks[stuck]} of worker {plan.tasks[stuck].worker} never starts; "
                    "'ringsched verify' says why")
    return out
