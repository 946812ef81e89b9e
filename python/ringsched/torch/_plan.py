"""Reads a plan file (docs/plan-format.md): what each task does, on which rows and heads, all defaults filled in.

It trusts that the plan holds: `ringsched verify` proves that. It refuses what it does not know.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from ._errors import Error
from ._layout import Layout
from ._mask import Mask

KINDS = ["query", "key_value", "partial", "output_gradient", "prepared_gradient", "query_gradient",
         "key_value_gradient", "rounded_partial", "rounded_query_gradient", "rounded_key_value_gradient"]
TASKS = ["attend", "attend_backward", "prepare", "merge", "reduce", "send", "receive", "output", "round",
         "exchange", "repack"]
MEMBERS = ("exchange", "repack")  # several tasks of these kinds make one operation
GIVEN = {"Q": "query", "KV": "key_value", "dO": "output_gradient", "O": "partial"}
SUMS = ("partial", "query_gradient", "key_value_gradient")
FIELDS = {
    "plan": {"format", "version", "schedule", "problem", "layout", "lanes", "given", "tasks", "add_outputs", "dummy_heads"},
    "problem": {"workers", "tokens", "heads", "kv_heads", "head_dim", "dtype", "mask", "pass", "new_tokens"},
    "task": {"do", "in", "worker", "step", "rows", "heads", "keys", "to", "from", "tensor", "members", "lane",
             "with_previous", "after", "complete", "slot", "bytes", "pairs"},
}
OF_KEYS = ("key_value", "key_value_gradient", "rounded_key_value_gradient")  # these have kv_heads heads


@dataclass
class Tensor:
    """A tensor of a plan, by number: the initial ones first, then two numbers for each task."""

    kind: str
    worker: int
    rows: tuple  # (first chunk, number of chunks)
    heads: tuple  # (first head, number of heads)
    maker: int | None = None  # a task; None: it is given


@dataclass
class Task:
    id: int
    do: str
    worker: int = 0
    step: int = 0
    lane: int = 0
    inputs: list = field(default_factory=list)  # numbers of tensors
    makes: str = ""
    rows: tuple = (0, 0)
    heads: tuple = (0, 0)
    keys: tuple | None = None
    peer: int | None = None  # the other half of a transfer
    members: range | None = None  # the tasks of its exchange
    with_previous: bool = False
    after: list = field(default_factory=list)
    slot: int | None = None
    complete: list | None = None  # by output

    def __str__(self):
        return f"task {self.id} ({self.do} {self.makes.replace('_', ' ')}, step {self.step})"


class Plan:
    """A plan file, read. `tensors` is a dictionary by number; `text` is the file."""

    def __init__(self, text, name="plan"):
        self.text, self.name = text, name
        try:
            self._read(json.loads(text))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as e:
            if isinstance(e, Error):
                raise
            where = f", task {len(self.tasks)}" if hasattr(self, "tasks") else ""
            raise Error(f"{name}{where}: this is not a plan file that ringsched verifies ({type(e).__name__}: {e})") from e

    def _read(self, d):
        if d.get("format") != "ringsched-plan":
            raise Error(f"{self.name}: \"format\" is {d.get('format')!r}; a plan has 'ringsched-plan'")
        if d.get("version") not in (1, 2):
            raise Error(f"{self.name}: version {d.get('version')}; use 1 or 2")
        p = d["problem"]
        self._only_known("plan", d)
        self._only_known("problem", p)
        self.schedule = d.get("schedule", "")
        self.workers, self.tokens, self.head_dim = p["workers"], p["tokens"], p["head_dim"]
        self.heads, self.kv_heads = p["heads"], p["kv_heads"]
        self.dtype, self.passes, self.mask = p["dtype"], p["pass"], Mask(p["mask"])
        self.new_tokens, self.dummy_heads = p.get("new_tokens", 0), d.get("dummy_heads", [0, 0])
        documents = self.mask.starts or [0, self.tokens]
        self.layout = Layout(d.get("layout", "decode" if self.new_tokens else "contiguous"), self.workers, self.tokens,
                             documents, self.new_tokens)
        self.lanes = d.get("lanes", ["compute", "fetch", "return"])
        self._read_given(d.get("given"))
        self.tasks, self.said_complete = [], {}
        self._members, self._step, self._to = range(0), 0, {}
        for g in d["tasks"]:
            self.tasks.append(self._task(g))
            self._add_tensors(self.tasks[-1])
        if d.get("add_outputs", True):
            self._add_outputs()
        self._mark_complete()

    def _only_known(self, where, found):
        """A field that this reader does not know could change what the plan means."""
        for name in sorted(set(found) - FIELDS[where]):
            raise Error(f"{self.name}: the {where} says {name!r}, which ringsched.torch cannot run")

    def home(self, kind, worker):
        """The rows of a kind of tensor that a worker is given, or has results for."""
        decoded = self.new_tokens and kind not in OF_KEYS
        return self.layout.queries if decoded else self.layout.shares[worker]

    def all_heads(self, kind):
        return (0, self.kv_heads if kind in OF_KEYS else self.heads)

    def kv_of(self, heads):
        """The key/value heads that query heads read."""
        group = self.heads // self.kv_heads
        first, last = heads[0] // group, (heads[0] + heads[1] - 1) // group
        return (first, last - first + 1)

    def _read_given(self, listed):
        if listed is None:
            kinds = ["query", "key_value"] + ["output_gradient"] * (self.passes != "forward")
            kinds += ["partial"] * (self.passes == "backward")
            listed = [{"tensor": k, "worker": w} for k in kinds for w in range(self.workers)]
        self.given, self.tensors = {}, {}
        for g in listed:
            kind, w = g["tensor"], g["worker"]
            number = len(self.tensors)
            self.tensors[number] = Tensor(kind, w, tuple(g.get("rows", self.home(kind, w))),
                                          tuple(g.get("heads", self.all_heads(kind))))
            self.given.setdefault((kind, w), []).append(number)
        self.initial = len(self.tensors)

    def output(self, task, index=0):
        return self.initial + 2 * task + index

    def maker(self, tensor):
        return self.tensors[tensor].maker

    def _tensor(self, ref):
        if isinstance(ref, int):
            number = self.output(ref)
        else:
            head, _, index = ref.partition(".")
            if head.isdigit():
                number = self.output(int(head), int(index))
            else:
                letters = head.rstrip("0123456789")
                number = self.given[GIVEN[letters], int(head[len(letters):])][int(index or 0)]
        if number not in self.tensors:
            raise Error(f"{self.name}, task {len(self.tasks)}: there is no tensor {ref!r}")
        return number

    def _makes(self, g, do, inputs, send):
        if "tensor" in g:
            return g["tensor"]
        if do == "round":
            return "rounded_" + inputs[0].kind
        fixed = {"attend": "partial", "attend_backward": "query_gradient", "prepare": "prepared_gradient"}
        return fixed.get(do) or (send.makes if send else inputs[0].kind)

    def _rows(self, g, do, inputs, send):
        if "rows" in g:
            return tuple(g["rows"]) or (0, 0)
        if do in ("merge", "reduce"):
            (a, m), (b, n) = inputs[0].rows, inputs[1].rows
            return (min(a, b), max(a + m, b + n) - min(a, b))
        return send.rows if send else inputs[do == "prepare"].rows

    def _task(self, g):
        do = g["do"]
        if do not in TASKS:
            raise Error(f"{self.name}, task {len(self.tasks)}: ringsched.torch knows no task {do!r}")
        self._only_known("task", g)
        t = Task(len(self.tasks), do, inputs=[self._tensor(ref) for ref in g.get("in", [])])
        inputs = [self.tensors[n] for n in t.inputs]
        send = None
        if do == "receive":
            send = self.tasks[g["from"]]
            send.peer, t.peer = t.id, send.id
        if do in MEMBERS:
            if t.id >= self._members.stop:
                self._members = range(t.id, t.id + g["members"])
            t.members = self._members
        t.worker = g["worker"] if "worker" in g else self._to[send.id] if send else inputs[0].worker
        if "to" in g:
            self._to[t.id] = g["to"]
        t.makes = self._makes(g, do, inputs, send)
        t.rows = self._rows(g, do, inputs, send)
        same = send is not None and send.makes == t.makes
        t.heads = tuple(g["heads"]) if "heads" in g else inputs[0].heads if inputs else \
            send.heads if same else self.all_heads(t.makes)
        if do in ("attend", "attend_backward"):
            t.keys = tuple(g["keys"]) if "keys" in g else inputs[-1].rows
        self._step = t.step = g.get("step", self._step)
        moves = do in ("send", "receive", "exchange")
        usual = "compute" if not moves else "return" if t.makes.removeprefix("rounded_") in SUMS else "fetch"
        t.lane = self.lanes.index(g.get("lane", usual))
        follows = do == "repack" and t.id != t.members.start
        t.with_previous, t.after, t.slot = g.get("with_previous", follows), g.get("after", []), g.get("slot")
        if "complete" in g:
            self.said_complete[t.id] = g["complete"]
        return t

    def _add_tensors(self, t):
        if t.do in ("send", "output") or t.rows[1] == 0:
            return
        self.tensors[self.output(t.id)] = Tensor(t.makes, t.worker, t.rows, t.heads, t.id)
        if t.do == "attend_backward":
            self.tensors[self.output(t.id, 1)] = Tensor("key_value_gradient", t.worker, t.keys,
                                                        self.kv_of(t.heads), t.id)

    def _add_outputs(self):
        if any(t.do == "output" for t in self.tasks):
            return
        read = {n for t in self.tasks if t.do in ("send", *MEMBERS, "merge", "reduce", "round") for n in t.inputs}
        results = []
        for number, x in self.tensors.items():
            kind = x.kind.removeprefix("rounded_")
            first, n = self.home(kind, x.worker)
            at_home = first <= x.rows[0] and x.rows[0] + x.rows[1] <= first + n
            if x.maker is None or kind not in SUMS or number in read or not at_home:
                continue
            if self.passes != "backward" or kind != "partial":
                results.append((KINDS.index(x.kind), x.worker, x.maker, number))
        for _, worker, _, number in sorted(results):
            x = self.tensors[number]
            self.tasks.append(Task(len(self.tasks), "output", worker, self._step, 0, [number], x.kind, x.rows,
                                   x.heads))

    def _mark_complete(self):
        put_out = {t.inputs[0] for t in self.tasks if t.do == "output"}
        for t in self.tasks:
            said = self.said_complete.get(t.id)
            if said is not None:
                t.complete = said if isinstance(said, list) else [said]
            elif t.do == "exchange" or t.makes not in SUMS:
                t.complete = [True]
            else:
                t.complete = [self.output(t.id, i) in put_out for i in range(1 + (t.do == "attend_backward"))]

    def is_complete(self, tensor):
        maker = self.tensors[tensor].maker
        return maker is None or self.tasks[maker].complete[tensor - self.output(maker)]

    def adds_up(self, exchange):
        """Whether an exchange, or a repack, adds parts of sums rather than copying cells."""
        given = [self.tasks[m].inputs[0] for m in exchange.members if self.tasks[m].inputs]
        return bool(given) and not self.is_complete(given[0])


def load(plan):
    """A Plan from a file's name, its text, its parsed JSON, or anything with to_json() (ringsched.Plan)."""
    if isinstance(plan, Plan):
        return plan
    if hasattr(plan, "to_json"):
        if hasattr(plan, "verify"):
            plan.verify().raise_if_broken()
        return Plan(plan.to_json())
    if isinstance(plan, dict):
        return Plan(json.dumps(plan))
    if isinstance(plan, (str, os.PathLike)) and not str(plan).lstrip().startswith("{"):
        try:
            with open(plan, encoding="utf-8") as f:
                return Plan(f.read(), os.path.basename(plan))
        except OSError as e:
            raise Error(f"{plan}: {e.strerror}") from e
    if isinstance(plan, str):
        return Plan(plan)
    raise Error(f"a plan is a file's name, the text of one, or a ringsched.Plan, not {type(plan).__name__}")
