"""One pass of a plan on one worker: starts its tasks in order, waits for messages where they are read."""

from __future__ import annotations

import torch

from . import _compute as compute
from . import _moves as moves
from ._values import Held


class Lost(Exception):
    """A task's message will not come."""

    def __init__(self, task):
        self.task = task


class Pass:
    """What a worker does in the forward or in the backward pass, worked out once for all calls."""

    def __init__(self, plan, worker, groups, tasks):
        self.groups = groups
        mine = [t for g in groups for t in g]
        self.reads = {}  # how many tasks read each tensor
        for t in mine:
            for n in t.inputs:
                self.reads[n] = self.reads.get(n, 0) + 1
        self.brought = sorted(n for n in self.reads if plan.maker(n) is not None and plan.maker(n) not in tasks)


class Run:
    def __init__(self, context, one_pass, forms, scale, tensors, keeps=()):
        self.context, self.plan, self.forms, self.scale = context, context.plan, forms, scale
        self.one_pass, self.tensors = one_pass, tensors
        self.left = dict(one_pass.reads)
        for n in keeps:
            self.left[n] = self.left.get(n, 0) + 1
        self.sent, self.results = [], []
        self.recorder = context.recorder
        if self.recorder:
            self.recorder.start(forms.device)

    def __call__(self):
        for group in self.one_pass.groups:
            self.doing = group
            if group[0].do in ("exchange", "send", "receive"):
                self.post(group)
            else:
                self.compute(group)
            for t in group:
                for n in t.inputs:
                    self.read(n)
        for p in self.sent:
            p.wait()
        return self

    def post(self, group):
        try:
            if group[0].do == "exchange":
                moves.post_exchange(self, group[0])
            else:
                moves.post_group(self, group)
        except RuntimeError as e:  # the connection to a peer that has ended
            raise Lost(group[0]) from e

    def drop(self):
        """Gives up what is on its way."""
        for p in self.sent:
            p.works = p.keep = p.then = None
        self.sent.clear()
        self.tensors.clear()

    def read(self, number):
        self.left[number] -= 1
        if self.left[number] == 0:
            del self.tensors[number]

    def ready(self, number):
        held = self.tensors[number]
        if held.pending is not None:
            held.pending.wait()
            held.pending = None
        return held

    def make(self, task, index, held):
        number = self.plan.output(task.id, index)
        if self.left.get(number):  # else nobody reads it
            self.tensors[number] = held
        return held

    def made(self, task):
        return self.tensors.get(self.plan.output(task.id)) or Held("", (0, 0), (0, 0), ())

    def waits(self, tasks, works):
        try:
            while works:
                works.pop().wait()
        except Exception as e:
            raise Lost(tasks[0]) from e
        if self.recorder:
            self.recorder.ended(tasks)

    def compute(self, group):
        t = group[0]
        held = [self.ready(n) for member in group for n in member.inputs]
        if self.recorder:
            self.recorder.begins()
        if t.do == "repack":
            moves.repack(self, group)
        elif t.keys is not None and torch.autograd._profiler_enabled():
            with torch.profiler.record_function("ringsched::" + t.do):  # `ringsched import` looks for it
                getattr(self, "_" + t.do)(t, held)
        else:
            getattr(self, "_" + t.do)(t, held)
        if self.recorder:
            self.recorder.computed(group)

    def _parts(self, held, t, heads=None):
        return self.forms.cut(held, t.rows, heads or t.heads)

    def _attend(self, t, held):
        q, = self._parts(held[0], t)
        kv = self.forms.cut(held[1], t.keys, self.plan.kv_of(t.heads))
        made = compute.attend(self.plan, t.heads, self.context.tile(t), q, kv, self.scale, self.forms.acc)
        self.make(t, 0, Held(t.makes, t.rows, t.heads, made))

    def _attend_backward(self, t, held):
        q, = self._parts(held[0], t)
        kv_heads = self.plan.kv_of(t.heads)
        kv = self.forms.cut(held[2], t.keys, kv_heads)
        dq, *dkv = compute.attend_backward(self.plan, t.heads, self.context.tile(t), q, self._parts(held[1], t), kv,
                                           self.scale, self.forms.acc)
        self.make(t, 0, Held(t.makes, t.rows, t.heads, (dq,)))
        self.make(t, 1, Held("key_value_gradient", t.keys, kv_heads, tuple(dkv)))

    def _prepare(self, t, held):
        made = compute.prepare(*self._parts(held[0], t), *self._parts(held[1], t))
        self.make(t, 0, Held(t.makes, t.rows, t.heads, made))

    def _whole(self, t, held):
        """A piece of a sum, in a tensor of all the task's rows: those that it has not are nothing yet."""
        if held.rows == t.rows:
            return held.parts
        room = [x.new_zeros((*x.shape[:2], self.plan.layout.count(t.rows), x.shape[3])) for x in held.parts]
        if held.kind == "partial":
            room[1].fill_(float("-inf"))
        out = Held(held.kind, t.rows, held.heads, tuple(room))
        for to, part in zip(self.forms.cut(out, held.rows, held.heads), held.parts):
            to.copy_(part)
        return out.parts

    def _merge(self, t, held):
        made = self._whole(t, held[0])
        o, lse = self.forms.cut(Held(t.makes, t.rows, t.heads, made), held[1].rows, t.heads)
        compute.merge_rows(o, lse, *held[1].parts)
        self.make(t, 0, Held(t.makes, t.rows, t.heads, made))

    def _reduce(self, t, held):
        made = self._whole(t, held[0])
        there = self.forms.cut(Held(t.makes, t.rows, t.heads, made), held[1].rows, t.heads)
        for to, part in zip(there, held[1].parts):
            to.add_(part)
        self.make(t, 0, Held(t.makes, t.rows, t.heads, made))

    def _round(self, t, held):
        parts = self._parts(held[0], t)
        parts = parts[:1] if held[0].kind == "partial" else parts
        self.make(t, 0, Held(t.makes, t.rows, t.heads, tuple(x.to(self.forms.io) for x in parts)))

    def _output(self, t, held):
        self.results.append(held[0])

    def result(self, kind, rows):
        """The results of one kind on these rows: tensors of the dtype of the inputs, and log-sum-exp."""
        plan, forms = self.plan, self.forms
        shapes = forms.shapes(kind, rows, plan.all_heads(kind))
        out = [torch.zeros(shape, dtype=forms.io, device=forms.device) for _, shape in shapes]
        if kind == "partial":
            out[1] = torch.full(shapes[1][1], float("-inf"), dtype=forms.acc, device=forms.device)
        whole = Held(kind, rows, plan.all_heads(kind), tuple(out))
        for held in self.results:
            if held.kind.removeprefix("rounded_") == kind:
                for to, part in zip(forms.cut(whole, held.rows, held.heads), held.parts):
                    to.copy_(part)
        return out
