"""Measures calls and writes one as a timeline of the plan (docs/timeline-format.md), for `ringsched compare`.

On a CPU, tasks are timed as they run. A message ends when the worker first waits for it, which may be later than it
came. On a GPU every task is followed by a synchronisation, so that nothing overlaps: times of tasks, not of a run.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

from ._errors import Error
from ._plan import KINDS, TASKS
from ._values import common

_PINGS = 9


def _exchange_form(plan, task):
    """The name of an exchange, as scheduler/plan/exchange.cpp chooses it."""
    members = [plan.tasks[m] for m in task.members]
    given = [(plan.tensors[t.inputs[0]].rows, plan.tensors[t.inputs[0]].heads) for t in members if t.inputs]
    wanted = [(t.rows, t.heads) for t in members if t.rows[1]]
    if not given or not wanted:
        return "exchange"
    all_give, all_get = len(given) == len(members), len(wanted) == len(members)
    same = all(w == wanted[0] for w in wanted)

    def meets(a, b):
        return bool(common(a[0], b[0]) and common(a[1], b[1]))

    def pairs(holds):
        return all(holds(a, b) for i, a in enumerate(wanted) for b in wanted[:i])

    def contains(a, b):
        return all(x <= y and y + m <= x + n for (x, n), (y, m) in zip(a, b))

    apart = pairs(lambda a, b: not meets(a, b))
    if plan.adds_up(task):
        if all_give and all(contains(g, w) for g in given for w in wanted):
            if len(wanted) == 1:
                return "reduce"
            if all_get and (same or apart):
                return "all-reduce" if same else "reduce-scatter"
    elif all_get and same:
        return "all-gather" if len(given) > 1 else "broadcast"
    elif len(wanted) == 1:
        return "gather"
    elif len(given) == 1 and apart:
        return "scatter"
    return "all-to-all" if pairs(lambda a, b: a == b or not meets(a, b)) else "exchange"


class _Homes:
    """Which worker owns the rows of a task."""

    def __init__(self, plan):
        self.shares = plan.layout.shares
        self.owner = [w for _, w in sorted((first + i, w) for w, (first, n) in enumerate(self.shares) for i in range(n))]

    def _of(self, rows):
        return sorted(set(self.owner[rows[0]:rows[0] + max(rows[1], 1)]))

    def span(self, rows):
        owners = self._of(rows)
        return owners[0], owners[-1]

    def every(self, rows):
        """How far apart these owners are; 0 if not evenly."""
        owners = self._of(rows)
        apart = {b - a for a, b in zip(owners, owners[1:])} or {1}
        return apart.pop() if len(apart) == 1 else 0

    def seen_from(self, rows, worker):
        first, last = self.span(rows)
        return worker if first <= worker <= last and common(self.shares[worker], rows) else first


class Recording:
    """The calls of attention inside `with context.record()`; of several, the median one is written."""

    def __init__(self, context):
        self.context, self.plan = context, context.plan
        self.calls = []  # (tasks of the pass, {task: [start, end]}) by pass run
        self._device = None
        self._offset = self._clock() if self.plan.workers > 1 else 0

    def _clock(self):
        """Nanoseconds to add to this process's clock to get worker 0's."""
        group, me = self.context.meeting.control, self.context.worker
        word, offset = torch.zeros(1, dtype=torch.int64), 0
        for w in range(1, self.plan.workers):
            best = None
            for _ in range(_PINGS if me in (0, w) else 0):
                if me == 0:
                    dist.recv(word, group=group, group_src=w)
                    dist.send(torch.tensor([time.monotonic_ns()]), group=group, group_dst=w)
                else:
                    before = time.monotonic_ns()
                    dist.send(word, group=group, group_dst=0)
                    dist.recv(word, group=group, group_src=0)
                    after = time.monotonic_ns()
                    if best is None or after - before < best:
                        best, offset = after - before, int(word) - (before + after) // 2
        return offset

    def start(self, device):
        self._device = device
        self.calls.append({})

    def _now(self):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.monotonic_ns() + self._offset

    def posted(self, group):
        now = self._now()
        for t in group:
            self.calls[-1][t.id] = [now, now]

    def ended(self, tasks):
        now = self._now()
        for t in tasks:
            self.calls[-1][t.id][1] = now

    def begins(self):
        self._began = self._now()

    def computed(self, tasks):
        now = self._now()
        for t in tasks:
            self.calls[-1][t.id] = [self._began, now]

    def finish(self):
        """Brings the times of all workers together, on every worker."""
        everybody = [None] * self.plan.workers
        if self.plan.workers == 1:
            everybody = [self.calls]
        else:
            dist.all_gather_object(everybody, self.calls, group=self.context.meeting.control)
        if len({len(calls) for calls in everybody}) != 1:
            raise Error("record: workers made different numbers of calls: " + ", ".join(str(len(c)) for c in everybody))
        passes = [{k: v for calls in everybody for k, v in calls[i].items()} for i in range(len(everybody[0]))]
        self.runs = []
        while passes:
            run = passes.pop(0)
            for i, later in enumerate(passes):  # the backward pass of this call
                if not run.keys() & later.keys() and len(run) + len(later) == len(self.plan.tasks):
                    self._append(run, passes.pop(i))
                    break
            self.runs.append(run)

    @staticmethod
    def _append(run, later):
        """The time between the passes, in the model's other layers, is not part of the run."""
        gap = min(s for s, _ in later.values()) - max(e for _, e in run.values())
        run.update({k: [s - gap, e - gap] for k, (s, e) in later.items()})

    def makespan(self, run):
        return max(e for _, e in run.values()) - min(s for s, _ in run.values())

    @property
    def timeline(self):
        """The median run, as the parsed JSON of a timeline file."""
        if not self.runs:
            raise Error("record: no call of attention was made")
        spans = [self.makespan(r) for r in self.runs]
        run = self.runs[spans.index(statistics.median_low(spans))]
        plan, homes = self.plan, _Homes(self.plan)
        start = min(s for s, _ in run.values())
        rows = [self._row(homes, t, [1000 * (x - start) for x in run.get(t.id, [start, start])]) for t in plan.tasks]
        out = {"format": "ringsched-timeline", "version": 1, "source": "measured",
               "program": f"ringsched.torch, torch {torch.__version__}", "machine": str(self._device),
               "schedule": plan.schedule, "plan_hash": self.context.hash}
        missing = [t.id for t in plan.tasks if t.id not in run]
        if missing:
            out |= {"incomplete": "only one pass of the plan was recorded", "unfinished": missing}
        out["problem"] = {"workers": plan.workers, "tokens": plan.tokens, "heads": plan.heads,
                          "kv_heads": plan.kv_heads, "head_dim": plan.head_dim, "dtype": plan.dtype,
                          "mask": plan.mask.text, "pass": plan.passes}
        if plan.new_tokens:
            out["problem"]["new_tokens"] = plan.new_tokens
        out |= {"kinds": TASKS, "tensors": KINDS, "lanes": plan.lanes}
        first = [t for t in plan.tasks if t.do == "exchange" and t.id == t.members.start]
        if first:
            out["exchanges"] = [[t.id, len(t.members), _exchange_form(plan, t)] for t in first]
        out["spans"] = [s for t in plan.tasks if (s := self._span(homes, t))]
        out["columns"] = ["kind", "makes", "worker", "lane", "step", "queries", "other", "start_ps", "duration_ps"]
        out["tasks"] = rows
        return out

    def _row(self, homes, t, times):
        maker = self.plan.maker(t.inputs[0]) if t.inputs else None
        own = t.keys is not None and (self.plan.new_tokens or
                                      maker is not None and self.plan.tasks[maker].do == "exchange")
        queries = t.worker if own else homes.seen_from(t.rows, t.worker)
        other = homes.seen_from(t.keys, t.worker) if t.keys is not None else \
            self.plan.tasks[t.peer].worker if t.peer is not None else \
            self.plan.tasks[t.members.start].worker if t.members is not None else queries
        return [TASKS.index(t.do), KINDS.index(t.makes), t.worker, t.lane, t.step, queries, other, times[0],
                times[1] - times[0]]

    def _span(self, homes, t):
        queries = homes.span(t.rows)
        other = homes.span(t.keys) if t.keys is not None else queries
        whole = tuple(t.heads) == self.plan.all_heads(t.makes)
        if t.rows[1] == 0 or (queries[0] == queries[1] and other[0] == other[1] and whole):
            return None
        every = [homes.every(rows) for rows in (t.rows, t.rows if t.keys is None else t.keys)]
        return [t.id, *queries, *other, *t.heads, *(every if every != [1, 1] else [])]

    def write(self, path):
        """Writes the timeline, by worker 0 alone; `ringsched compare predicted.json PATH` reads it."""
        if self.context.worker != 0:
            return
        timeline = self.timeline
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(os.path.abspath(path)), delete=False) as f:
            f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in timeline.items()) + "\n}\n")
        os.chmod(f.name, 0o644)
        os.replace(f.name, path)
