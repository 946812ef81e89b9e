#!/usr/bin/env python3
"""The checker written from docs/plan-format.md and `ringsched verify` come to the same verdict (rejected,
does not hold, holds) on thousands of plans, each spoilt in a random way.
python3 plan_format_test.py RINGSCHED [how many] [seed]"""
import collections
import concurrent.futures
import copy
import json
import os
import random
import subprocess
import sys

from plan_format_checker import DOES_NOT_HOLD, FIELDS, GIVEN, HOLDS, KINDS, Plan, judged, span

REPORTED_AS = {19: "coverage", 21: "deadlock", 22: "memory"}  # rules that are looked at when all before them hold


def by_heads(plan, parts, given=False):
    """The same plan with each task done once for each of the runs of heads that `parts` lists for its kind of
    tensor; all of a kind that it does not list. given: in what is given, too."""
    kinds = [t["makes"] for t in Plan(json.dumps(plan)).tasks]
    count = [len(parts.get(kind, [None])) for kind in kinds]
    first = [sum(count[:n]) for n in range(len(kinds))]

    def ref(x, i):
        if isinstance(x, str) and not x[0].isdigit():
            return f"{x}.{i}" if given and i > 0 and is_cut(x) else x
        n = int(str(x).removesuffix(".1"))
        new = first[n] + min(i, count[n] - 1)
        return f"{new}.1" if isinstance(x, str) else new

    def is_cut(x):
        if isinstance(x, str) and not x[0].isdigit():
            return given and GIVEN[x.rstrip("0123456789")] in parts
        return count[int(str(x).removesuffix(".1"))] > 1

    tasks = []
    for t, kind, n in zip(plan["tasks"], kinds, count):
        for i in range(n):
            new = dict(t)
            for field in ("in", "after"):
                if field in t:
                    new[field] = [ref(x, i) for x in t[field]]
            if "after" in t:
                new["after"] = [first[b] + j for b in t["after"] for j in range(count[b])]
            if type(t.get("from")) is int:
                new["from"] = ref(t["from"], i)
            if "slot" in t:
                new["slot"] = t["slot"] * n + i
            if i > 0 and t["do"] in ("send", "receive"):
                new["with_previous"] = True
            if n > 1 and "in" in t and not is_cut(t["in"][0]):
                new["heads"] = parts[kind][i]
            tasks.append(new)
    plan = dict(plan, tasks=tasks)
    if given:
        whole = Plan(json.dumps(dict(plan, tasks=[]))).given
        plan["given"] = [{"tensor": x.kind, "worker": x.worker, "heads": heads}
                         for x in whole for heads in parts.get(x.kind, [list(x.heads)])]
    return plan


def on_more_lanes(plan):
    """The same with lanes of their own for every second step."""
    p = Plan(json.dumps(plan))
    lanes = p.lanes + ["outer", "back"]
    other = {"fetch": "outer", "return": "back"}
    tasks = [dict(given, lane=other[t["lane"]]) if t["lane"] in other and t["step"] % 2 else given
             for given, t in zip(plan["tasks"], p.tasks)]
    return dict(plan, lanes=lanes, tasks=tasks)


class Exchanges:
    """Writes plans in which workers exchange what they have, by hand."""

    def __init__(self, workers, turn, mask, layout="contiguous"):
        problem = {"workers": workers, "tokens": 11, "heads": 4, "kv_heads": 2, "head_dim": 4, "dtype": "bf16",
                   "mask": mask, "pass": turn}
        self.plan = {"format": "ringsched-plan", "version": 2, "problem": problem, "layout": layout, "tasks": []}
        self.tasks, self.workers, self.turn = self.plan["tasks"], range(workers), turn
        per_worker = 2 if layout in ("zigzag", "halves") else 1
        self.home = [[w * per_worker, per_worker] for w in self.workers]
        self.all = [0, workers * per_worker]

    def add(self, do, inputs, **more):
        self.tasks.append({"do": do, "in": inputs, **more})
        return len(self.tasks) - 1

    def exchange(self, given, wanted, step, tensor):
        """By worker: what each gives or None, and the rows and heads that it gets or None. Whoever has neither is
        no member. Returns what each has got."""
        members = [w for w in self.workers if given[w] is not None or wanted[w]]
        got = [None] * len(given)
        for w in members:
            rows, heads = wanted[w] or ([], [0, 1])
            more = {"members": len(members)} if w == members[0] else {}
            got[w] = self.add("exchange", [] if given[w] is None else [given[w]], worker=w, step=step, tensor=tensor,
                              rows=rows, heads=heads, **more)
        return got

    def ulysses(self):
        """Each worker attends all rows with some of the heads."""
        q = [[w * 4 // len(self.workers), (w + 1) * 4 // len(self.workers)] for w in self.workers]
        heads = [[a, b - a] if a < b else None for a, b in q]
        kv_heads = [[a // 2, (b + 1) // 2 - a // 2] if a < b else None for a, b in q]

        def gather(names, heads, tensor):
            return self.exchange([f"{names}{w}" for w in self.workers], [h and [self.all, h] for h in heads], 0, tensor)

        def at_each(do, *inputs, **more):
            return [self.add(do, [x[w] for x in inputs], worker=w, step=0, **more) if heads[w] else None
                    for w in self.workers]

        def send_home(made, tensor, heads):
            return self.exchange(made, [[home, heads] for home in self.home], 1, tensor)
        q, kv = gather("Q", heads, "query"), gather("KV", kv_heads, "key_value")
        if self.turn != "backward":
            o = at_each("attend", q, kv, complete=True)
            send_home(at_each("round", o), "rounded_partial", [0, 4])
        if self.turn != "forward":
            o = o if self.turn == "both" else gather("O", heads, "partial")
            prepared = at_each("prepare", o, gather("dO", heads, "output_gradient"))
            gradients = at_each("attend_backward", q, prepared, kv, complete=[True, False])
            send_home(at_each("round", gradients), "rounded_query_gradient", [0, 4])
            dkv = [None if g is None else f"{g}.1" for g in gradients]
            send_home(dkv, "key_value_gradient", [0, 2])  # adds up where a head is on several workers
        return self.plan

    def all_gather(self):
        """Each worker attends its rows with all keys; one head at a time."""
        for head in range(2):
            kv = self.exchange([f"KV{w}" for w in self.workers], [[self.all, [head, 1]] for _ in self.workers],
                               head, "key_value")
            heads = [2 * head, 2]
            gradients = []
            for w in self.workers:
                place = {"worker": w, "step": head, "heads": heads}
                if self.turn != "backward":
                    o = self.add("attend", [f"Q{w}", kv[w]], **place, complete=True)
                    self.add("output", [self.add("round", [o], worker=w)], worker=w)
                if self.turn != "forward":
                    o = f"O{w}" if self.turn == "backward" else o
                    prepared = self.add("prepare", [o, f"dO{w}"], **place)
                    gradients.append(self.add("attend_backward", [f"Q{w}", prepared, kv[w]], **place,
                                              complete=[True, False]))
                    self.add("output", [gradients[-1]], worker=w)
            if gradients:
                summed = self.exchange([f"{g}.1" for g in gradients], [[home, [head, 1]] for home in self.home], head,
                                       "key_value_gradient")
                for w in self.workers:
                    self.add("output", [summed[w]], worker=w)
        return self.plan


def with_all_said(plan):
    """Bytes, pairs, heads and what is complete, as the page says they are."""
    p = Plan(json.dumps(plan))
    tasks = []
    for n, (given, t) in enumerate(zip(plan["tasks"], p.tasks)):
        new = dict(given, heads=list(t["heads"]))
        if t["do"] in ("send", "receive", "exchange", "repack"):
            new["bytes"] = p.bytes(t["makes"], t["rows"], t["heads"])
        if "keys" in t:
            new["pairs"] = sum(p.visible(q, k) for q in span(t["rows"]) for k in span(t["keys"]))
        made = [x.maker in p.complete for x in p.outputs(n)]
        if made:
            new["complete"] = made if len(made) == 2 else made[0]
        tasks.append(new)
    return dict(plan, tasks=tasks)


def spoil(plan, rnd):
    """One random change, mostly to a task."""
    plan = copy.deepcopy(plan)
    tasks = plan["tasks"]
    n = rnd.randrange(len(tasks))
    t = tasks[n]
    chunks = 2 * plan["problem"]["workers"] + 1
    value = rnd.choice([-1, 0, 1, 2, 3, rnd.randrange(len(tasks) + 1), None, True, "1", 1.5, [], {},
                        [0, 1], [1, 1], [0, 2]])
    number = rnd.choice([rnd.randrange(-1, len(tasks) + 1), rnd.randrange(max(n, 1)), rnd.randrange(max(n, 1))])
    worker = rnd.randrange(plan["problem"]["workers"])

    def renumber(move):
        def name(x):
            if isinstance(x, str) and x.endswith(".1") and x[0].isdigit():
                return f"{move(int(x[:-2]))}.1"
            return move(x) if type(x) is int else x
        for x in tasks:
            for field in ("in", "after"):
                if isinstance(x.get(field), list):
                    x[field] = [name(y) for y in x[field]]
            if "from" in x:
                x["from"] = name(x["from"])

    def drop():
        del tasks[n]
        renumber(lambda m: m - (m > n))

    def repeat():
        tasks.insert(n, copy.deepcopy(t))
        renumber(lambda m: m + (m > n))

    def swap():
        m = rnd.choice([(n + 1) % len(tasks), rnd.randrange(len(tasks))])
        tasks[n], tasks[m] = tasks[m], tasks[n]
        renumber(lambda x: m if x == n else n if x == m else x)

    def an_input():
        if t.get("in"):
            other = rnd.choice([number, number, f"{number}.1", f"Q{worker}", f"KV{worker}", f"dO{worker}",
                                f"O{worker}", "K1", "Q01", "5", f"Q{worker}.1", f"KV{worker}.1"])
            t["in"][rnd.randrange(len(t["in"]))] = other

    def input_of_another():
        u = rnd.choice(tasks)
        if u.get("in") and t.get("in"):
            t["in"][0] = u["in"][0]

    def flip_group():
        t["with_previous"] = not t.get("with_previous", False)

    def regions():
        t[rnd.choice(["rows", "keys"])] = [rnd.randrange(-1, chunks), rnd.randrange(0, 4)]

    def output_of_what_is_given():
        tasks.append({"do": "output", "in": [f"O{worker}"]})

    def both_halves():
        if t["do"] == "receive" and type(t["from"]) is int:
            field, most = rnd.choice([("rows", chunks), ("heads", 4)])
            t[field] = [rnd.randrange(most), 1]
            tasks[t["from"]][field] = list(t[field])

    def heads():
        t["heads"] = [rnd.randrange(-1, 5), rnd.randrange(0, 5)]

    def heads_of_a_line():  # of a task and of all that read what it makes
        new, line = [rnd.randrange(4), rnd.choice([1, 1, 2])], {n}
        for m, x in enumerate(tasks):
            if m == n or x.get("from") in line or (isinstance(x.get("in"), list) and x["in"] and x["in"][0] in line):
                x["heads"] = list(new)
                line.add(m)

    def no_heads():
        for x in rnd.choice([[t], tasks]):
            x.pop("heads", None)

    def completeness():
        t["complete"] = rnd.choice([True, False, [True, False], [False, True], [True, True], [False, False]])
        if t["do"] == "output" and type(t["in"][0]) is int:
            tasks[t["in"][0]]["complete"] = t.pop("complete")

    def a_given():
        whole = [{"tensor": kind, "worker": w} for kind in ("query", "key_value")
                 for w in range(plan["problem"]["workers"])]
        g = rnd.choice(plan.setdefault("given", whole))
        rnd.choice([
            lambda: plan["given"].remove(g), lambda: plan["given"].append(dict(g)),
            lambda: rnd.shuffle(plan["given"]),
            lambda: g.update(heads=[rnd.randrange(4), rnd.randrange(3)]),
            lambda: g.update(rows=[rnd.randrange(chunks), 1]), lambda: g.update(worker=worker),
            lambda: g.update(tensor=rnd.choice(KINDS)), lambda: g.pop("heads", None),
            lambda: g.update({rnd.choice(list(g)): value})])()

    def hidden():
        w, v = worker, rnd.randrange(plan["problem"]["workers"])
        tasks[n:n] = [{"do": "attend", "in": [f"Q{w}", f"KV{v}"], "worker": w, "step": t.get("step", 0)}]
        renumber(lambda m: m + (m >= n))

    def member():  # dropped, doubled or turned round, and the first one says how many there are
        ends = [i for i, x in enumerate(tasks) if x["do"] in ("exchange", "repack") and type(x.get("members")) is int]
        if not ends:
            return
        first = rnd.choice(ends)
        members = tasks[first]["members"]
        end = min(first + members, len(tasks))
        m = rnd.randrange(first, end)
        how = rnd.randrange(4)
        if how == 0 and members > 1:
            del tasks[m]
            renumber(lambda x: x - (x > m))
            tasks[first].pop("members", None)
            tasks[first]["members"] = members - 1
        elif how == 1:
            tasks.insert(m + 1, {k: v for k, v in copy.deepcopy(tasks[m]).items() if k != "members"})
            renumber(lambda x: x + (x > m))
            tasks[first]["members"] = members + 1
        elif how == 2:
            tasks[first]["members"] = rnd.choice([members - 1, members + 1, worker])
        else:
            other = tasks[rnd.randrange(first, end)]
            field = rnd.choice(["in", "rows", "heads", "worker", "lane", "step", "complete"])
            tasks[m][field] = copy.deepcopy(rnd.choice([
                other.get(field), {"in": [], "rows": [], "heads": [rnd.randrange(4), 1], "worker": worker,
                                   "lane": "compute", "step": 7, "complete": False}[field]]))

    def waste():
        w = rnd.randrange(plan["problem"]["workers"])
        tasks.extend([{"do": "send", "in": [f"KV{worker}"], "to": w}, {"do": "receive", "from": len(tasks)},
                      {"do": "attend", "in": [f"Q{w}", len(tasks) + 1]}][:rnd.choice([1, 2, 2, 2, 3])])

    def helped():  # an attend merged into a result: right if it sees nothing
        ends = [i for i, x in enumerate(tasks) if x["do"] == "output" and type(x["in"][0]) is int]
        if not ends or any(type(tasks[i]["in"][0]) is not int for i in ends):
            return
        e = rnd.choice(ends)
        w = tasks[e]["worker"]
        tasks[e:e] = [{"do": "attend", "in": [f"Q{w}", f"KV{w}"], "rows": [2 * w, 1], "keys": [2 * w + 1, 1]},
                      {"do": "merge", "in": [tasks[e]["in"][0], e]}]
        renumber(lambda m: m + 2 * (m >= e) if m != e else m)
        tasks[e + 1]["in"] = [tasks[e + 1]["in"][0], e]
        tasks[e + 2]["in"] = [e + 1]

    def a_problem():
        p = plan["problem"]
        p[rnd.choice(list(p))] = rnd.choice([
            value, 1, 2, 3, 4, 8, "bf16", "fp32", "both", "forward", "backward", "full", "causal", "window:3", "window:0",
            "window:1K", "window:k", "prefix:2,window:3", "prefix:0,window:1", "documents:3,5",
            f"documents:1,{p['tokens'] - 1}", f"window:2,documents:1,{p['tokens'] - 1}", "window:2,documents:3",
            "documents:3,window:2"])

    def lanes():
        names = plan.setdefault("lanes", ["compute", "fetch", "return", "outer"])
        rnd.choice([
            lambda: names.append(rnd.choice(["outer", "x" * 40, "x" * 41, "\u00e9" * 21, "", "a\nb", 7])),
            lambda: names.append("more"), lambda: names.pop(), lambda: names.reverse(),
            lambda: t.update(lane=rnd.choice(names)), lambda: t.update(lane=rnd.choice(names)),
            lambda: names.extend(["a", "b", "c"])])()

    def a_layout():
        plan["layout"] = rnd.choice(["contiguous", "striped", "zigzag", "halves", "spiral", value])

    def a_chunk():
        if isinstance(plan.get("layout"), dict):
            chunk = rnd.choice(plan["layout"]["chunks"])
            chunk[rnd.choice(["worker", "start", "count", "stride", "x"])] = rnd.choice([value, 1, 2, 3, 4])

    def dummy_heads():
        plan["dummy_heads"] = rnd.choice([[rnd.randrange(-1, 5), rnd.randrange(-1, 3)], [2, 1], [1], value])

    def a_root_field():
        field = rnd.choice(["format", "version", "schedule", "add_outputs", "add_outputs", "x"])
        plan[field] = rnd.choice([value, False, True, "ring", "x" * 1001, "\x7f", "\u001f", 1, 2])

    rnd.choice([
        drop, repeat, swap, swap, swap, an_input, an_input, an_input, input_of_another, input_of_another,
        flip_group, output_of_what_is_given, flip_group, regions, regions, heads, heads, heads_of_a_line, heads_of_a_line, no_heads,
        completeness, completeness, member, member, member, lanes, lanes, a_given, a_given, lambda: plan.update(version=1),
        both_halves, hidden, waste, waste, helped, helped, a_problem, a_layout, a_chunk, a_root_field, dummy_heads,
        lambda: t.update(worker=worker),
        lambda: t.update(lane=rnd.choice(["compute", "fetch", "return", "fast"])),
        lambda: t.update(after=[number] + t.get("after", [])),
        lambda: t.pop("after", None), lambda: t.pop("slot", None),
        lambda: t.update(slot=rnd.choice([0, 1, 2, number])),
        lambda: t.update({"from": rnd.choice([number, None])}),
        lambda: t.update(to=worker), lambda: t.pop("to", None),
        lambda: t.update(tensor=rnd.choice(KINDS + ("keys",))),
        lambda: t.update({rnd.choice(["bytes", "pairs"]): rnd.choice([0, 1, 16, 32, 64, 96, 128, 256])}),
        lambda: t.update({rnd.choice(list(FIELDS["send"] | FIELDS["receive"] | FIELDS["attend"])): value}),
        lambda: t.pop(rnd.choice(list(t)), None),
    ])()
    return plan


def seeds(program):
    """Plans that hold, of all kinds."""
    problems = []
    for schedule in ("ring", "zigzag", "balanced", "balanced-split", "striped"):
        for turn in ("forward", "backward", "both"):
            for overlap in (["none"], ["prefetch"], ["unbounded", "--buffers", "3"]):
                problems.append([schedule, turn, *overlap])
    # Chunks in another order than workers. With two or three workers, in the same order.
    problems += [[f"usp:ulysses=2:ring={ring}:consecutive=ring", turn, "none"]
                 for ring in ("ring", "zigzag") for turn in ("forward", "backward", "both")]
    # With exchanges lowered to messages and repacks.
    problems += [[schedule, turn, "none", "--exchanges", how] for how in ("direct", "ring")
                 for schedule in ("ulysses", "all-gather", "usp:ulysses=2") for turn in ("forward", "backward", "both")]
    # New tokens against cached keys, with queries on each worker.
    problems += [[schedule, "forward", "none", "--new-tokens", "2", "--exchanges", how]
                 for schedule in ("flash-decode", "tree-decode:node=2:to=one", "ring-decode", "ring-decode:passes=results")
                 for how in ("native", "direct", "tree")]
    masks = ["causal", "full", "window:3", "prefix:2,window:3", "documents:5,6", "window:3,documents:5,6"]
    found = []
    for i, (schedule, turn, *overlap) in enumerate(problems):
        workers = 2 + i % 3
        sizes = ["--workers", str(workers), "--tokens", "11", "--heads", "4", "--kv-heads", "2", "--head-dim", "4"]
        run = subprocess.run([program, "plan", "--schedule", schedule, *sizes, "--mask", masks[i % 6], "--pass", turn,
                              "--overlap", *overlap, "--output", "-"], capture_output=True, text=True)
        if run.returncode == 0:
            found.append(json.loads(run.stdout))
    for i, turn in enumerate(("forward", "both", "backward") * 4):
        exchanges = Exchanges(2 + i % 4, turn, masks[i % 6], ("contiguous", "zigzag", "striped", "halves")[i % 4])
        found.append(exchanges.ulysses() if i % 2 else exchanges.all_gather())
    return found


def with_heads(plan, i):
    """The i-th way to cut it by heads."""
    if i % 3 == 0 and plan["problem"]["pass"] == "forward":  # within a group
        return by_heads(plan, {"partial": [[0, 1], [1, 1], [2, 2]]})
    halves = {kind: [[0, 2], [2, 2]] if "key" not in kind else [[0, 1], [1, 1]] for kind in KINDS}
    return by_heads(plan, halves, given=i % 2 == 0)


def with_copies(plan):
    """Each result goes on to the next worker, after all else: any number of complete tensors may hold the same."""
    tasks = list(plan["tasks"])
    for given, t in zip(plan["tasks"], Plan(json.dumps(plan)).tasks):
        if t["do"] == "output":
            tasks += [{"do": "send", "in": given["in"], "to": (t["worker"] + 1) % plan["problem"]["workers"]},
                      {"do": "receive", "from": len(tasks), "complete": True}]
    return dict(plan, tasks=tasks)


def main():
    program, most = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1500
    rnd = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    plans = seeds(program)
    plans += [with_heads(plan, i) for i, plan in enumerate(plans)
              if all(t["do"] not in ("exchange", "repack") for t in plan["tasks"])]
    plans += [plan for plan in map(on_more_lanes, plans) if judged(json.dumps(plan))[0] == HOLDS]
    plans += [with_copies(plan) for plan in plans[::2]]
    plans += [with_all_said(plan) for plan in plans]

    def compared(plan):
        text = json.dumps(plan)
        command = [program, "verify", "-", "--format", "json"]
        run = subprocess.run(command, input=text, capture_output=True, text=True)
        return judged(text), run, text

    def check(judgement, run, text):
        verdict, why = judgement
        broken = {x["rule"] for x in json.loads(run.stdout)["violations"]} if run.returncode < 2 else set()
        expected = REPORTED_AS.get(int(why.split()[1])) if verdict == DOES_NOT_HOLD else None
        if verdict == run.returncode and (expected is None or expected in broken):
            return
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "plan-format-differs.json")
        with open(path, "w") as file:
            file.write(text)
        sys.exit(f"{path}: the page says {verdict} ({why}), ringsched says {run.returncode}: {run.stdout}{run.stderr}")

    def spoilt_once_or_twice():
        plan = spoil(rnd.choice(plans), rnd)
        try:
            return spoil(plan, rnd) if rnd.random() < 0.3 else plan
        except (TypeError, ValueError, LookupError, AttributeError):  # too odd to be changed again
            return plan

    tally = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for judgement, run, text in pool.map(compared, plans):
            check(judgement, run, text)
            assert judgement[0] == HOLDS, (judgement, text)
        spoilt = [spoilt_once_or_twice() for _ in range(most)]
        for judgement, run, text in pool.map(compared, spoilt):
            tally[judgement[0], judgement[1] if judgement[0] == DOES_NOT_HOLD else ""] += 1
            check(judgement, run, text)
    for (verdict, why), n in sorted(tally.items()):
        print(f"{n:6} {('hold', 'do not hold', 'are rejected')[verdict]} {why}")


main()
