"""How workers agree before they run, and how they report a failed run."""

from __future__ import annotations

import json
import threading
import time
import zlib

import torch
import torch.distributed as dist

from ._errors import Error

_GRACE = 3.0  # seconds in which other workers may still say why they failed
_LINGER = 30.0  # the most seconds to wait for others to read that: the store may end with this process


def _workers(numbers):
    numbers = list(numbers)
    return f"worker{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _close(groups):
    while groups:
        try:
            dist.destroy_process_group(groups.pop())
        except Exception:  # it has ended already
            pass


class Meeting:
    def __init__(self, name, worker, workers, deadline):
        self.worker, self.workers, self.deadline = worker, workers, deadline
        self.store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        self.groups, self.control, self.broken = [], None, None  # groups: of this context alone

    def _collect(self, topic, seconds):
        """The texts of workers on a topic, of those that answer in this time: {worker: text}."""
        end, found = time.monotonic() + seconds, {}
        while True:
            for w in range(self.workers):
                if w not in found and self.store.check([f"{topic}/{w}"]):
                    found[w] = self.store.get(f"{topic}/{w}").decode()
            if len(found) == self.workers or time.monotonic() >= end:
                return found
            time.sleep(0.01)

    def agree_on_plan(self, plan, digest, wrong=None):
        """wrong: why this worker has no plan; all others get it too."""
        try:
            mine = [None, str(wrong), 0] if wrong else [digest, plan.schedule, plan.workers]
            self.store.set(f"plan/{self.worker}", json.dumps(mine))
            said = self._collect("plan", self.deadline.total_seconds())
        except Exception as e:
            raise Error(f"worker {self.worker} cannot reach the store of torch.distributed any more") from e
        if wrong:
            raise wrong
        for w, (found, why, _) in sorted((w, json.loads(text)) for w, text in said.items()):
            if found is None:
                raise Error(f"worker {w}: {why}")
        missing = [w for w in range(self.workers) if w not in said]
        if missing:
            raise Error(f"{_workers(missing)} of {self.workers} made no Context within "
                        f"{self.deadline.total_seconds():g} s")
        by_plan = {}
        for w, text in sorted(said.items()):
            by_plan.setdefault(tuple(json.loads(text)), []).append(w)
        if len(by_plan) > 1:
            raise Error("plans differ: " + "; ".join(f"{_workers(ws)}: {name or 'a plan'} for {n} workers ({h})"
                                                     for (h, name, n), ws in by_plan.items()))
        if plan.workers != self.workers:
            raise Error(f"the plan is for {plan.workers} workers; the group has {self.workers} processes")

    def agree_on_call(self, what, wrong):
        """Every worker publishes its call, or what is wrong with it; all raise the same error if they differ."""
        if self.broken:
            raise Error(self.broken)
        if self.workers == 1:
            if wrong:
                raise Error(wrong)
            return
        mine = torch.tensor([zlib.crc32(what.encode()), bool(wrong)])
        everybody = torch.empty(2 * self.workers, dtype=torch.int64)
        try:
            dist.all_gather_into_tensor(everybody, mine, group=self.control)
            numbers = everybody.view(-1, 2)
            if bool((numbers == torch.tensor([[mine[0], 0]])).all()):
                return
            texts = [None] * self.workers
            dist.all_gather_object(texts, (what, wrong), group=self.control)
        except Exception:
            others = [w for w in range(self.workers) if w != self.worker]
            self.fail(f"worker {self.worker}, at the start of a call", others)
        errors = [w for _, w in texts if w]
        if errors:
            raise Error(errors[0] if len(errors) == 1 else f"{errors[0]} (and {len(errors) - 1} other workers)")
        by_call = {}
        for w, (text, _) in enumerate(texts):
            by_call.setdefault(text, []).append(w)
        raise Error("calls differ: " + "; ".join(f"{_workers(ws)}: {text}" for text, ws in by_call.items()))

    def close(self):
        self.broken = self.broken or "this context has been closed"
        self.control = None
        _close(self.groups)

    def fail(self, text, waited_for=None):
        """Tells everybody what failed and raises one Error, the same on all workers that can still be reached.

        This worker's connections are closed, which wakes those that wait for it.

        waited_for: the workers whose answer did not come; None if the failure is this worker's own.
        """
        if not self.broken:
            said = {self.worker: json.dumps([text, waited_for])}
            try:
                self.store.set(f"failed/{self.worker}", said[self.worker])
                threading.Thread(target=_close, args=(self.groups,), daemon=True).start()  # it waits for messages
                self.broken = self._verdict()
            except Exception:  # the store was in a process that has ended
                self.broken = self._why(said)[0]
        self.control = None
        raise Error(self.broken)

    def _verdict(self):
        """The text of the first worker that knows; all others repeat it."""
        end = time.monotonic() + _GRACE
        while not self.store.check(["verdict"]):
            said = self._collect("failed", 0)
            own = any(json.loads(s)[1] is None for s in said.values())
            if own or len(said) == self.workers or time.monotonic() >= end:
                self.store.compare_set("verdict", "", json.dumps(self._why(said)))
            else:
                time.sleep(0.01)
        text, gone = json.loads(self.store.get("verdict"))
        self.store.set(f"knows/{self.worker}", "")
        end = time.monotonic() + min(2 * self.deadline.total_seconds(), _LINGER)
        while time.monotonic() < end and len(self._collect("knows", 0)) < self.workers - len(gone):
            time.sleep(0.01)
        return text

    def _why(self, said):
        said = {w: json.loads(s) for w, s in sorted(said.items())}
        for text, waited_for in said.values():
            if waited_for is None:
                return text, []
        for text, waited_for in said.values():
            gone = [w for w in waited_for if w not in said]
            if gone and len(said) > 1 or len(gone) == 1:
                return f"{_workers(gone)} ended or hangs; waited for by {text}", gone
        return f"no answer within {self.deadline.total_seconds():g} s, or a worker ended: {next(iter(said.values()))[0]}", []
