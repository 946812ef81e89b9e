"""A Context: a plan, run by the processes of a group. One process is one worker of the plan."""

from __future__ import annotations

import contextlib
import gc
import itertools
import traceback
import zlib
from collections import Counter
from datetime import timedelta

import torch
import torch.distributed as dist

from . import _shards
from ._errors import Error
from ._hash import plan_hash
from ._heads import Heads
from ._meeting import Meeting
from ._order import order, split
from ._plan import load
from ._record import Recording
from ._run import Lost, Pass, Run
from ._tiles import positions, tile
from ._values import Forms, Held

_contexts = {}  # by number, for operators: these take numbers and tensors only
_numbers = itertools.count()
_made = Counter()  # contexts by group name
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def context(number):
    if number not in _contexts:
        raise Error("the context of this call has been closed")
    return _contexts[number]


def _group_of(group):
    if group is None:
        return dist.group.WORLD
    if hasattr(group, "get_group"):  # a DeviceMesh
        if group.ndim != 1:
            raise Error(f"the mesh has {group.ndim} dimensions; use one of them, mesh[\"name\"]")
        return group.get_group()
    return group


class Context:
    """Runs a plan on the processes of a group. All of them make it together, with the same plan.

    plan: a plan file's name, its text, or a ringsched.Plan with pass "both" (or "forward" without gradients).
    group: a process group or a DeviceMesh of one dimension; None is all processes.
    deadline: after this many seconds without an answer, every process gives up and raises an Error.
    """

    def __init__(self, plan, group=None, *, deadline=120.0):
        self.plan, wrong = None, None
        try:
            self.plan = load(plan)
            if self.plan.passes == "backward":
                raise Error(f"{self.plan.name}: its pass is backward; make the plan with pass both, or forward")
        except (Error, OSError) as e:
            wrong = e
        self.hash = wrong is None and plan_hash(self.plan)
        self.group = _group_of(group)
        self.worker = dist.get_rank(self.group)
        self.deadline = timedelta(seconds=deadline)
        ranks = dist.get_process_group_ranks(self.group)  # groups of one mesh may share a name
        name = f"{self.group.group_name}/{zlib.crc32(repr(ranks).encode()):08x}"
        _made[name] += 1
        self.meeting = Meeting(f"ringsched/{name}/{_made[name]}", self.worker, dist.get_world_size(self.group),
                               self.deadline)
        self.meeting.agree_on_plan(self.plan, self.hash, wrong)
        self._make_groups()
        self.share = self.plan.layout.shares[self.worker]
        self.number = next(_numbers)
        self.recorder, self._tiles, self._positions = None, {}, {}
        forward, backward = split(self.plan)
        self.forward = Pass(self.plan, self.worker, order(self.plan, forward)[self.worker], forward)
        self.backward = Pass(self.plan, self.worker, order(self.plan, backward)[self.worker], backward)
        puts_out = any(t.do == "output" and t.worker == self.worker for t in self.plan.tasks)
        rows = self.plan.home("query", self.worker)
        self.rows_out = rows if puts_out or not self.plan.new_tokens else (rows[0], 0)  # of the result of a call
        self.heads = Heads(self.plan)
        self.has_lse = all(t.makes != "rounded_partial" for t in self.plan.tasks if t.do == "output")
        _contexts[self.number] = self

    def _new_group(self, workers):
        ranks = [dist.get_global_rank(self.group, w) for w in workers]
        made = dist.new_group(ranks, timeout=self.deadline, use_local_synchronization=True)
        self.meeting.groups.append(made)
        return made

    def _make_groups(self):
        """A communicator for each lane, so that lanes do not wait for each other, and for each set of members."""
        plan, everybody = self.plan, tuple(range(self.plan.workers))
        self._lanes, self._members = {}, {}
        if plan.workers == 1:
            return
        ranks = [dist.get_global_rank(self.group, w) for w in everybody]
        self.meeting.control = dist.new_group(ranks, timeout=self.deadline, backend="gloo",
                                              use_local_synchronization=True)
        self.meeting.groups.append(self.meeting.control)
        for lane in sorted({t.lane for t in plan.tasks if t.do == "send"}):
            self._lanes[lane] = self._new_group(everybody)
        for t in plan.tasks:
            if t.do == "exchange" and t.id == t.members.start:
                workers = tuple(sorted(plan.tasks[m].worker for m in t.members))
                if self.worker in workers and (t.lane, workers) not in self._members:
                    self._members[t.lane, workers] = self._new_group(workers)

    def lane_group(self, lane):
        return self._lanes[lane]

    def member_group(self, task):
        return self._members[task.lane, tuple(sorted(self.plan.tasks[m].worker for m in task.members))]

    def positions(self, region):
        if region not in self._positions:
            self._positions[region] = positions(self.plan.layout, region)
        return self._positions[region]

    def tile(self, task):
        key = (task.rows, task.keys)
        if key not in self._tiles:
            self._tiles[key] = tile(self.plan.mask, self.positions(task.rows), self.positions(task.keys))
        return self._tiles[key]

    def _peers(self, task):
        if task.do == "exchange":
            return sorted({self.plan.tasks[m].worker for m in task.members} - {task.worker})
        return [self.plan.tasks[task.peer].worker] if task.peer is not None else []

    def _where(self, task):
        peers = self._peers(task)
        way = {"receive": " from", "send": " to"}.get(task.do, " with")
        who = f"{way} worker{'s' * (len(peers) > 1)} {', '.join(map(str, peers))}" if peers else ""
        return f"worker {task.worker}, step {task.step}, task {task.id} ({task.do} {task.makes.replace('_', ' ')}{who})"

    def _run(self, one_pass, forms, scale, tensors, keeps=()):
        run = Run(self, one_pass, forms, scale, tensors, keeps)
        try:
            return run()
        except Exception as e:
            failed = e
        # Works and groups that frames still hold would keep connections open, so others would wait.
        lost = isinstance(failed, Lost)
        task = failed.task if lost else run.doing[0]
        text = self._where(task) + ("" if lost else f": {type(failed).__name__}: {str(failed).splitlines()[0]}")
        traceback.clear_frames(failed.__traceback__)
        run.drop()
        del run, failed
        self._lanes.clear()
        self._members.clear()
        gc.collect()
        self.meeting.fail(text, self._peers(task) if lost else None)

    def _given(self, kinds):
        """The tensors that this worker is given, cut from its share: {number: Held}."""
        out = {}
        for (kind, worker), numbers in self.plan.given.items():
            if worker != self.worker or kind not in kinds:
                continue
            whole = Held(kind, self.plan.home(kind, worker), self.plan.all_heads(kind), kinds[kind])
            for n in numbers:
                x = self.plan.tensors[n]
                out[n] = Held(kind, x.rows, x.heads, Forms(self.plan, 0, kinds[kind][0].dtype, None)
                              .cut(whole, x.rows, x.heads))
        return out

    def run_forward(self, q, k, v, scale):
        """Result, log-sum-exp and what the backward pass needs, of (batch, heads, rows, head dimension)."""
        q, k, v = self._padded(q, k, v)
        forms = Forms(self.plan, q.shape[0], q.dtype, q.device)
        saved = self.backward.brought
        run = self._run(self.forward, forms, scale, self._given({"query": (q,), "key_value": (k, v)}), saved)
        out, lse = run.result("partial", self.rows_out)
        keep, seen = [], set()
        for n in saved:
            held = run.ready(n)
            for x in [held.buffer] if self.in_buffer(n) else held.parts:
                alias = x.untyped_storage()._cdata
                keep.append(x.clone() if alias in seen else x)
                seen.add(alias)
        return self.heads.unpad(out, "query"), self.heads.unpad(lse, "query"), keep

    def _padded(self, q, k, v):
        pad = self.heads.pad
        return pad(q, "query"), pad(k, "key_value"), pad(v, "key_value")

    def in_buffer(self, number):
        """Whether what the backward pass needs of a tensor is kept as one buffer."""
        return self.plan.tasks[self.plan.maker(number)].do in ("receive", "exchange")

    def kept_shapes(self, forms):
        """(dtype, shape) of what run_forward keeps."""
        out = []
        for n in self.backward.brought:
            x = self.plan.tensors[n]
            if self.in_buffer(n):
                out.append((torch.uint8, (forms.bytes(x.kind, x.rows, x.heads),)))
            else:
                out += forms.shapes(x.kind, x.rows, x.heads)
        return out

    def run_backward(self, g, q, k, v, keep, scale):
        (q, k, v), g = self._padded(q, k, v), self.heads.pad(g, "query")
        forms = Forms(self.plan, q.shape[0], q.dtype, q.device)
        g = g.contiguous()
        if q.device.type == "cpu":  # torch's kernel for CPUs takes a tenth longer where rows of a head lie apart
            q, k, v = (x.contiguous() for x in (q, k, v))
        tensors = self._given({"query": (q,), "key_value": (k, v), "output_gradient": (g,)})
        kept = iter(keep)
        for n in self.backward.brought:
            x = self.plan.tensors[n]
            if self.in_buffer(n):
                tensors[n] = forms.in_buffer(x.kind, x.rows, x.heads, next(kept))
            else:
                tensors[n] = Held(x.kind, x.rows, x.heads,
                                  tuple(next(kept) for _ in forms.shapes(x.kind, x.rows, x.heads)))
        run = self._run(self.backward, forms, scale, tensors)
        dq, = run.result("query_gradient", self.share)
        return [self.heads.unpad(dq, "query"),
                *(self.heads.unpad(x, "key_value") for x in run.result("key_value_gradient", self.share))]

    @property
    def tokens(self):
        """The tokens of this worker's share."""
        return self.plan.layout.count(self.share)

    @property
    def query_tokens(self):
        """The tokens of q on this worker: those of its share, or in decoding all new tokens."""
        return self.plan.layout.count(self.plan.home("query", self.worker))

    def new_tokens(self, *tensors, dim=1):
        """In decoding, the new tokens of whole tensors: what each worker gives to attention() as q."""
        where = self.positions(self.plan.layout.queries)
        out = tuple(x.index_select(dim, where.to(x.device)) for x in tensors)
        return out if len(out) != 1 else out[0]

    def position_ids(self, *, device=None):
        """The position of each token of this worker's share, counted from the start of its document."""
        p = self.positions(self.share)
        if self.plan.mask.starts is not None:
            starts = torch.tensor(self.plan.mask.starts)
            p = p - starts[torch.searchsorted(starts, p, right=True) - 1]
        return p.to(device)

    def dispatch(self, *tensors, dim=1):
        """This worker's share of whole tensors, with all tokens in dimension `dim`."""
        out = tuple(_shards.take(self, x, dim) for x in tensors)
        return out if len(out) != 1 else out[0]

    def undispatch(self, *tensors, dim=1):
        """Whole tensors from all workers' shares, on every worker, with tokens in order.

        In the backward pass each worker takes its own rows of its own gradient. That is right if every worker computes the
        same from the whole tensor, as a loss over it.
        """
        out = tuple(_shards.give(self, x, dim) for x in tensors)
        return out if len(out) != 1 else out[0]

    @contextlib.contextmanager
    def record(self):
        """Measures the calls made inside: `with context.record() as r: ...`, then `r.write("measured.json")`."""
        recording = Recording(self)
        self.recorder = recording
        try:
            yield recording
        finally:
            self.recorder = None
        recording.finish()

    def close(self):
        """Ends the context's communicators. After that, gradients of earlier calls cannot be computed."""
        _contexts.pop(self.number, None)
        self._lanes.clear()
        self._members.clear()
        self.meeting.close()

    def __enter__(self):
        _current.append(self)
        return self

    def __exit__(self, *_):
        _current.pop()

    def __repr__(self):
        p = self.plan
        return (f"<Context {p.schedule}: worker {self.worker} of {p.workers}, {self.tokens} of {p.tokens} tokens, "
                f"{p.heads} heads ({p.kv_heads} kv) x {p.head_dim}, {p.mask.text}>")


_current = [None]


def current():
    """The context of the innermost `with context:`, else that of use(); may be None."""
    return _current[-1]


def use(context):
    """Sets the context for calls outside of any `with context:`; None clears it."""
    _current[0] = context
