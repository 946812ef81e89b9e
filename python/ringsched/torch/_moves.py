"""Messages between workers: groups of sends and receives, and exchanges as torch's collectives."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ._compute import merge_rows
from ._values import Held, common


class Pending:
    """Something on its way: the works of torch.distributed, what to keep until then, and what to do at the end."""

    def __init__(self, tasks, works, keep, run, then=None):
        self.tasks, self.works, self.keep, self.run, self.then = tasks, works, keep, run, then

    def wait(self):
        if self.works is None:
            return
        works, self.works = self.works, None
        self.run.waits(self.tasks, works)
        if self.then:
            self.then()
        self.keep = self.then = None


def post_group(run, tasks):
    """Starts sends and receives as one batch. Those between the same two workers are in the order of the sends."""
    plan, forms, ops, keep = run.plan, run.forms, [], []
    for t in sorted(tasks, key=lambda t: t.id if t.do == "send" else t.peer):
        if t.do == "send":
            buffer = forms.packed(run.ready(t.inputs[0]), t.rows, t.heads)
        else:
            held = run.make(t, 0, forms.empty(t.makes, t.rows, t.heads))
            buffer = held.buffer
        keep.append(buffer)
        if buffer.numel() == 0:
            continue
        call, tag = (dist.isend, t.id) if t.do == "send" else (dist.irecv, t.peer)
        ops.append((t, dist.P2POp(call, buffer, group=run.context.lane_group(t.lane), tag=tag,
                                  group_peer=plan.tasks[t.peer].worker)))
    if run.recorder:
        run.recorder.posted(tasks)
    if not ops:
        return
    works = dist.batch_isend_irecv([op for _, op in ops])
    if len(works) != len(ops):  # one work for the whole batch
        whole = Pending([t for t, _ in ops], works, keep, run)
        pending = [whole] * len(ops)
    else:
        pending = [Pending([t], [w], keep, run) for (t, _), w in zip(ops, works)]
    for (t, _), p in zip(ops, pending):
        if t.do == "receive":
            run.made(t).pending = p
        run.sent.append(p)


def _shares(plan, exchange):
    """What each member gives each other: {(giver, getter): (rows, heads)}, by worker."""
    members = [plan.tasks[m] for m in exchange.members]
    out = {}
    for giver in members:
        if not giver.inputs:
            continue
        given = plan.tensors[giver.inputs[0]]
        for getter in members:
            rows, heads = common(given.rows, getter.rows), common(given.heads, getter.heads)
            if rows and heads:
                out[giver.worker, getter.worker] = (rows, heads)
    return out


def is_all_gather(plan, exchange, shares, sizes):
    """Every member gets everything that each gives, and all give equally much."""
    members = [plan.tasks[m] for m in exchange.members]
    if len(shares) != len(members) ** 2 or len(set(sizes.values())) != 1:
        return False
    return all(shares[t.worker, w.worker] == (plan.tensors[t.inputs[0]].rows, plan.tensors[t.inputs[0]].heads)
               for t in members for w in members)


def post_exchange(run, task):
    """Starts this worker's part of an exchange: an all-gather, or an all-to-all of shares of any sizes.

    Parts of sums are added by each getter in the order of the members, so that results do not depend on timing.
    """
    plan, forms, me = run.plan, run.forms, task.worker
    shares = _shares(plan, task)
    sizes = {pair: forms.bytes(task.makes, *cells) for pair, cells in shares.items()}
    workers = [plan.tasks[m].worker for m in task.members]
    group = run.context.member_group(task)
    given = run.ready(task.inputs[0]) if task.inputs else None
    got = run.make(task, 0, forms.empty(task.makes, task.rows, task.heads)) if task.rows[1] else None
    ordered = sorted(workers)  # as torch numbers the members of a group
    incoming = {w: sizes.get((w, me), 0) for w in ordered}
    adds = plan.adds_up(task)
    if run.recorder:
        run.recorder.posted([task])
    if not adds and is_all_gather(plan, task, shares, sizes):
        send = forms.packed(given, given.rows, given.heads)
        receive = send.new_empty(send.numel() * len(workers))
        work = dist.all_gather_single(receive, send, group=group, async_op=True) \
            if hasattr(dist, "all_gather_single") else \
            dist.all_gather_into_tensor(receive, send, group=group, async_op=True)
    else:
        outgoing = {w: sizes.get((me, w), 0) for w in ordered}
        if not adds and incoming[me]:  # what stays here goes straight to its place
            _place(forms, got, [Held(task.makes, *shares[me, me], forms.cut(given, *shares[me, me]))], False)
            incoming[me] = outgoing[me] = 0
        send, receive = (torch.empty(sum(n.values()), dtype=torch.uint8, device=forms.device) for n in (outgoing, incoming))
        at = 0
        for w in ordered:
            if outgoing[w]:
                forms.pack(given, *shares[me, w], send[at:at + outgoing[w]])
            at += outgoing[w]
        work = dist.all_to_all_single(receive, send, list(incoming.values()), list(outgoing.values()), group=group,
                                      async_op=True)

    def place():
        at, from_worker = 0, {}
        for w in ordered:
            if incoming[w]:
                from_worker[w] = forms.in_buffer(task.makes, *shares[w, me], receive[at:at + incoming[w]])
            at += incoming[w]
        _place(forms, got, [from_worker[w] for w in workers if w in from_worker], adds)

    pending = Pending([task], [work], (send, receive), run, place if got is not None else None)
    if got is not None:
        got.pending = pending
    run.sent.append(pending)


def repack(run, tasks):
    """Joins tensors of this worker, or cuts them, as an exchange does with those of several."""
    plan, forms = run.plan, run.forms
    given = [run.ready(t.inputs[0]) for t in tasks if t.inputs]
    for t in tasks:
        if not t.rows[1]:
            continue
        shares = []
        for x in given:
            rows, heads = common(x.rows, t.rows), common(x.heads, t.heads)
            if rows and heads:
                shares.append(Held(x.kind, rows, heads, forms.cut(x, rows, heads)))
        got = forms.empty(t.makes, t.rows, t.heads)
        _place(forms, got, shares, plan.adds_up(t))
        run.make(t, 0, got)


def _place(forms, got, shares, adds):
    """Puts shares where they belong; parts of sums are added up."""
    if adds:
        for part in got.parts:
            part.zero_()
        if got.kind == "partial":
            got.parts[1].fill_(float("-inf"))
    for share in shares:
        there = forms.cut(got, share.rows, share.heads)
        if not adds:
            for to, part in zip(there, share.parts):
                to.copy_(part)
        elif got.kind == "partial":
            merge_rows(*there, *share.parts)
        else:
            for to, part in zip(there, share.parts):
                to.add_(part)
