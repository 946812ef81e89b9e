"""Reads Chrome traces as a viewer would, without our code, and compares them with the timeline
files they are made from.

usage: trace_test.py RINGSCHED [SCHEDULE...]   (default: all schedules)
"""

import itertools
import json
import subprocess
import sys
import tempfile
import unittest
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

PROGRAM = ""
SCHEDULES: list = []
PS_PER_US = 1_000_000
MACHINES = {"dgx-a100": 8, "pcie-a5000x8": 8, "dgx-a100x2-ib100": 16, "ideal": 12}  # most workers
WORKERS = (1, 2, 3, 5, 8, 12)
RUNS = (
    ("--pass", "forward"),
    ("--pass", "both", "--mask", "full"),
    ("--pass", "both", "--overlap", "unbounded"),
    ("--pass", "backward", "--overlap", "none"),
)


def run(*command: str) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout


def ps(microseconds: Decimal) -> int:
    exact = microseconds * PS_PER_US
    assert exact == int(exact) and exact >= 0, f"{microseconds} is no whole number of picoseconds"
    return int(exact)


class Timeline:
    def __init__(self, path: Path) -> None:
        file = json.loads(path.read_text())
        self.file, self.detailed = file, "needs" in file["columns"]
        self.tasks = [dict(zip(file["columns"], row)) for row in file["tasks"]]
        for t in self.tasks:
            t["kind"] = file["kinds"][t["kind"]]
            t["lane"] = file["lanes"][t["lane"]]
            t["makes"] = file["tensors"][t["makes"]]
            t["end_ps"] = t["start_ps"] + t["duration_ps"]

    @property
    def makespan(self) -> int:
        return max(t["end_ps"] for t in self.tasks)


class Trace:
    def __init__(self, path: Path) -> None:
        self.file = json.loads(path.read_bytes(), parse_float=Decimal)
        self.by_phase = defaultdict(list)
        # Slices of the critical path are again of tasks: `by_phase` has those of workers.
        path = self.file["problem"]["workers"]
        self.path = [e for e in self.file["traceEvents"] if e["ph"] == "X" and e["pid"] == path]
        for e in self.file["traceEvents"]:
            if e["ph"] != "X" or e["pid"] != path:
                self.by_phase[e["ph"]].append(e)

    def metadata(self, name: str) -> dict:
        found = [e for e in self.by_phase["M"] if e["name"] == name]
        out = {(e["pid"], e["tid"]): e["args"] for e in found}
        assert len(out) == len(found), f"two {name} for one track"
        return out


class Traces(unittest.TestCase):
    def each(self):
        """Each schedule, W, kind of run and machine."""
        # Exchanges are not messages between two: tests/viz/exchange_picture_test.cpp has those.
        # Nor has decoding a backward pass.
        exchanges = ("ulysses", "all-gather", "usp")
        schedules = SCHEDULES or [
            s["name"] for s in json.loads(run(PROGRAM, "schedules", "--format", "json"))
            if s["name"] not in exchanges and s["layout"] != "decode"]
        with tempfile.TemporaryDirectory() as folder:
            plan, timeline, trace = (Path(folder, n) for n in ("plan.json", "timeline.json",
                                                               "trace.json"))
            for schedule, workers, rest in itertools.product(schedules, WORKERS, RUNS):
                flags = ["-s", schedule, "-w", str(workers), "-t", str(1000 * workers + 7), *rest]
                run(PROGRAM, "plan", *flags, "-o", str(plan))
                verdict = json.loads(run(PROGRAM, "verify", str(plan), "--format", "json"))
                for machine in (m for m, most in MACHINES.items() if workers <= most):
                    run(PROGRAM, "simulate", *flags, "-m", machine, "--timeline", str(timeline))
                    run(PROGRAM, "render", str(timeline), "--output", str(trace))
                    yield [*flags, "-m", machine], Timeline(timeline), Trace(trace), verdict

    def test_hold_what_the_timeline_says(self) -> None:
        seen = Counter()
        for flags, timeline, trace, verdict in self.each():
            with self.subTest(" ".join(flags)):
                self.check_heading(timeline, trace)
                self.check_tasks(timeline, trace)
                self.check_tracks(trace)
                self.check_rates(timeline, trace)
                seen["path"] += self.check_path(timeline, trace)
                seen["arrows"] += self.check_arrows(timeline, trace)
                for worker, peak in self.check_memory(timeline, trace).items():
                    self.assertLessEqual(peak, verdict["peak_bytes"][worker], worker)
                    seen["full"] += peak == verdict["peak_bytes"][worker]
                seen["more tracks"] += any(tid > 9 for _, tid in trace.metadata("thread_name"))
                seen["instants"] += len(trace.by_phase["i"])
        for what in ("path", "arrows", "full", "instants", "more tracks"):  # or something was not tested
            self.assertGreater(seen[what], 0, what)

    def check_heading(self, timeline: Timeline, trace: Trace) -> None:
        for key in ("schedule", "machine", "plan_hash", "problem", "source", "program"):
            self.assertEqual(trace.file[key], timeline.file[key])
        self.assertEqual(ps(trace.file["makespan_us"]), timeline.makespan)
        self.assertEqual(set(trace.by_phase) - set("MXisfC"), set())

    def check_tasks(self, timeline: Timeline, trace: Trace) -> None:
        events = {e["args"]["task"]: e for e in trace.by_phase["X"] + trace.by_phase["i"]}
        self.assertEqual(len(events), len(trace.by_phase["X"]) + len(trace.by_phase["i"]))
        self.assertEqual(sorted(events), list(range(len(timeline.tasks))))
        tracks = trace.metadata("thread_name")
        sums, slices = Counter(), Counter()
        for i, t in enumerate(timeline.tasks):
            e, args = events[i], events[i]["args"]
            self.assertEqual(e["ph"], "X" if t["duration_ps"] else "i")
            self.assertEqual((e["pid"], e["cat"], args["step"]), (t["worker"], t["kind"], t["step"]))
            self.assertEqual(ps(e["ts"]), t["start_ps"])
            direction = {"receive": " in", "send": " out"}.get(t["kind"], "")
            self.assertRegex(tracks[e["pid"], e["tid"]]["name"], f"^{t['lane']}{direction}( [0-9]+)?$")
            if t["kind"].startswith("attend"):
                self.assertEqual((args["queries"], args["keys"]), (t["queries"], t["other"]))
                self.assertEqual(args["pairs"], t["pairs"])
                self.assertRegex(e["name"], f"^attend d?q{t['queries']}[ab]? k{t['other']}[ab]?$")
            else:
                self.assertEqual(args[t["makes"]], t["queries"])
            if t["kind"] in ("send", "receive"):
                self.assertEqual(args["peer"], t["other"])
            self.assertEqual(args.get("bytes", 0), t["bytes"])
            self.assertEqual(args["cause"], timeline.file["causes"][t["cause"]])
            self.assertEqual(args.get("because", -1), t["because"])
            sums[t["worker"], t["lane"]] += t["duration_ps"]
            slices[t["worker"], t["lane"]] += ps(e["dur"]) if e["ph"] == "X" else 0
        self.assertEqual(sums, slices)

    def check_tracks(self, trace: Trace) -> None:
        names, order = trace.metadata("thread_name"), trace.metadata("thread_sort_index")
        processes = {pid for pid, _ in trace.metadata("process_name")}
        self.assertEqual(names.keys(), order.keys())
        self.assertEqual(processes, {pid for pid, _ in trace.metadata("process_sort_index")})
        workers = trace.file["problem"]["workers"]
        self.assertEqual(processes, set(range(workers + bool(trace.path))))
        for pid in processes:
            own = [(order[k]["sort_index"], v["name"]) for k, v in names.items() if k[0] == pid]
            self.assertEqual(len(set(own)), len(own))
            self.assertEqual(len({name for _, name in own}), len(own), "two tracks of one name")
        used = defaultdict(list)
        for e in trace.by_phase["X"] + trace.by_phase["i"] + trace.path:
            used[e["pid"], e["tid"]].append((e["ts"], e.get("dur", 0)))
        self.assertEqual(used.keys(), names.keys())
        for track, slices in used.items():
            self.assertGreater(track[1], 0)
            open_until: list = []
            # Of those that start together the longest first: others may stand inside it.
            for start, duration in sorted(slices, key=lambda s: (s[0], -s[1])):
                while open_until and open_until[-1] <= start:
                    open_until.pop()
                if open_until:
                    self.assertLessEqual(start + duration, open_until[-1], f"{track} at {start}")
                    self.assertEqual(duration, 0, f"two at once on {track} at {start}")
                if duration:
                    open_until.append(start + duration)

    def check_path(self, timeline: Timeline, trace: Trace) -> int:
        events = {e["args"]["task"]: e for e in trace.by_phase["X"] + trace.by_phase["i"]}
        expected = [step for step in timeline.file["critical_path"] if step[2]]
        self.assertEqual([[e["args"]["task"], ps(e["ts"]), ps(e["dur"])] for e in trace.path], expected)
        for e in trace.path:
            task = events[e["args"]["task"]]
            self.assertEqual(e["name"], f"worker {task['pid']}: {task['name']}")
            self.assertEqual(e["cname"], task["cname"])
        return len(trace.path)

    def check_arrows(self, timeline: Timeline, trace: Trace) -> int:
        slices = defaultdict(list)
        for e in trace.by_phase["X"]:
            slices[e["pid"], e["tid"]].append(e)

        def task_under(e: dict) -> int:
            under = [s["args"]["task"] for s in slices[e["pid"], e["tid"]]
                     if s["ts"] <= e["ts"] < s["ts"] + s["dur"]]
            self.assertEqual(len(under), 1, e)
            return under[0]

        ends = defaultdict(dict)
        for e in trace.by_phase["s"] + trace.by_phase["f"]:
            self.assertNotIn(e["ph"], ends[e["id"]])
            ends[e["id"]][e["ph"]] = e
        arrows = set()
        for pair in ends.values():
            self.assertEqual(pair.keys(), {"s", "f"})
            self.assertEqual(pair["f"]["bp"], "e")
            self.assertEqual(pair["s"]["name"], pair["f"]["name"])
            self.assertEqual(pair["s"]["cat"], pair["f"]["cat"])
            send, receive = task_under(pair["s"]), task_under(pair["f"])
            # A message that takes no time may end a receive before the slice of its send begins.
            if timeline.tasks[send]["start_ps"] < timeline.tasks[receive]["end_ps"]:
                self.assertLessEqual(pair["s"]["ts"], pair["f"]["ts"])
            arrows.add((send, receive))
        self.assertEqual(len(arrows), len(ends))
        expected = {(t["needs"][0], i) for i, t in enumerate(timeline.tasks)
                    if t["kind"] == "receive" and t["duration_ps"]
                    and timeline.tasks[t["needs"][0]]["duration_ps"]}
        self.assertEqual(arrows, expected)
        return len(arrows)

    def counter(self, trace: Trace, name: str, unit: str) -> dict:
        """By worker: a list of times and values."""
        out = defaultdict(list)
        for e in trace.by_phase["C"]:
            if e["name"] == name:
                self.assertEqual(e["args"].keys(), {unit})
                self.assertGreaterEqual(e["args"][unit], 0)
                steps = out[e["pid"]]
                if steps:
                    self.assertLess(steps[-1][0], ps(e["ts"]))
                steps.append((ps(e["ts"]), e["args"][unit]))
        self.assertEqual(set(out), set(range(trace.file["problem"]["workers"])))
        return out

    def check_rates(self, timeline: Timeline, trace: Trace) -> None:
        """The areas under the rates are the bytes, of messages that took time."""
        for name, kind in (("GB/s in", "receive"), ("GB/s out", "send")):
            expected, most_off = Counter(), Counter()
            for t in timeline.tasks:
                if t["kind"] == "receive":
                    ends = (t, timeline.tasks[t["needs"][0]])
                    both = max(e["start_ps"] for e in ends)
                    t = ends[0 if kind == "receive" else 1]
                    if t["end_ps"] > both:
                        expected[t["worker"]] += t["bytes"]
                        # Rates are rounded down to whole bytes per second.
                        most_off[t["worker"]] += Decimal(t["end_ps"] - both) / 10**12 + 1
            for worker, steps in self.counter(trace, name, "GB/s").items():
                self.assertEqual(steps[0][0], 0)
                self.assertEqual(steps[-1][1], 0)
                area = sum(Decimal(b[0] - a[0]) * a[1] / 1000 for a, b in zip(steps, steps[1:]))
                self.assertLessEqual(abs(area - expected[worker]), most_off[worker])

    def check_memory(self, timeline: Timeline, trace: Trace) -> dict:
        peaks = {}
        for worker, steps in self.counter(trace, "memory", "bytes").items():
            self.assertEqual(steps[0], (0, steps[0][1]))
            self.assertGreaterEqual(min(v for _, v in steps), timeline.file["initial_bytes"][worker])
            self.assertLessEqual(steps[-1][0], timeline.makespan)
            peaks[worker] = max(v for _, v in steps)
            if timeline.file["problem"]["pass"] == "forward":
                for at, value in steps:
                    self.assertEqual(value, self.alive(timeline, worker, at), (worker, at))
        return peaks

    def alive(self, timeline: Timeline, worker: int, at: int) -> int:
        """Bytes on a worker at an instant of a forward pass."""
        held = timeline.file["initial_bytes"][worker]
        for i, t in enumerate(timeline.tasks):
            if t["worker"] != worker or t["kind"] in ("send", "output"):
                continue
            readers = [r for r in timeline.tasks if i in r["needs"] and r["kind"] != "receive"]
            kept = not readers or any(r["kind"] == "output" for r in readers)
            in_place = t["kind"] == "merge" and timeline.tasks[t["needs"][0]]["bytes"] == t["bytes"]
            start = t["end_ps"] if in_place else t["start_ps"]
            if start <= at and (kept or at < max(r["end_ps"] for r in readers)):
                held += t["bytes"]
        return held


if __name__ == "__main__":
    PROGRAM, *SCHEDULES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=1)
