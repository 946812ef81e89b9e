#!/usr/bin/env python3
"""`ringsched import` on traces of a real run over gloo (tests/traces), on a database as nsys writes it, and on bad input."""

import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
TRACES = pathlib.Path(__file__).resolve().parent / "traces/gloo-ring"
RANKS = [TRACES / "rank-0.json", TRACES / "rank-1.json"]


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.plan = self.make_plan("full")

    def path(self, name, text=None):
        path = pathlib.Path(self.folder.name, name)
        if text is not None:
            path.write_text(text, encoding="utf-8")
        return path

    def ringsched(self, *words, code=0):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code == 2 else done.stdout

    def make_plan(self, mask, schedule="ring", tokens=512):
        path = self.path(f"{mask}.json")
        self.ringsched("plan", "-w", 2, "--tokens", tokens, "--heads", 2, "--kv-heads", 2, "--head-dim", 16, "--dtype", "fp32",
                       "--mask", mask, "-s", schedule, "-o", path)
        return path

    def imported(self, *words):
        said = self.ringsched("import", *words, "--plan", self.plan)
        return said, json.loads(self.path("measured.json").read_text())

    def rows(self, timeline, kind):
        return [r for r in timeline["tasks"] if timeline["kinds"][r[0]] == kind]

    def test_a_real_run(self):
        said, timeline = self.imported(*RANKS)
        self.assertIn("call      2 of 2", said)
        self.assertIn("messages  each message of the plan is 2 messages in the traces", said)
        self.assertIn("clocks    as in the traces", said)
        self.assertNotIn("note", said)
        self.assertEqual(timeline["source"], "measured")
        for rank, path in enumerate(RANKS):
            events = json.loads(path.read_text())["traceEvents"]
            attends = sorted((e for e in events if "flash_attention" in e["name"]), key=lambda e: e["ts"])[-2:]
            found = [r for r in self.rows(timeline, "attend") if r[2] == rank]
            for event, row in zip(attends, found, strict=True):
                self.assertAlmostEqual(event["dur"], row[8] / 1e6, places=2)
            self.assertAlmostEqual(attends[1]["ts"] - attends[0]["ts"], (found[1][7] - found[0][7]) / 1e6, places=2)
            # Messages begin with the call that posts the first of two, and end with the last.
            for kind, call, wait in (("send", "c10d::send", "gloo:send"), ("receive", "c10d::recv_", "gloo:recv")):
                begin = sorted(e["ts"] for e in events if e["name"] == call)[-2]
                end = max(e["ts"] + e["dur"] for e in events if e["name"] == wait)
                row, = (r for r in self.rows(timeline, kind) if r[2] == rank)
                self.assertAlmostEqual(end - begin, row[8] / 1e6, places=2)

    def test_sizes_tell_of_another_problem(self):
        def held_against(ranks, code, tokens):
            other = self.make_plan("full", tokens=tokens)
            return self.ringsched("import", *ranks, "--plan", other, code=code)

        def without_shapes(path):
            text = path.read_text().replace('"Concrete Inputs"', '"Left Out"')
            return self.path(path.name, text)

        hidden = [without_shapes(path) for path in RANKS]
        self.assertRegex(held_against(hidden, 0, 1024),
                         "note      messages hold up to .* in the traces and .* in the plan; does the plan have the tokens")
        self.assertNotIn("pairs", held_against(hidden, 0, 256))
        self.assertEqual(held_against(RANKS, 1, 1024), "".join(
            f"2 attends are smaller than the plan's on worker {w}: number 1 takes 65536 pairs of query and key in the trace, "
            "262144 in the plan\n" for w in range(2)) + "does not match: 2 differences\n")
        said = held_against(RANKS, 0, 256)
        self.assertIn("note      messages are 2 times as large as the plan's: a batch of 2, or another problem\n", said)
        self.assertIn("note      attends take 4.00 times as many pairs of query and key as the plan needs: another mask or schedule, "
                      "or pairs that the run computes and hides\n", said)

    def test_shapes_tell_of_another_schedule(self):
        # Zigzag has the attends, messages and sizes of this ring, with a causal mask.
        zigzag = self.make_plan("causal", "zigzag")
        pairs = 2 * 2 * 256 * 256 / (512 * 513 / 2)
        self.assertIn(f"attends take {pairs:.2f} times", self.ringsched("import", *RANKS, "--plan", zigzag))
        trace = RANKS[1].read_text().replace('"0.","False"', '"0.","True"')
        self.assertNotEqual(trace, RANKS[1].read_text())
        said = self.ringsched("import", RANKS[0], self.path("causal.json", trace), "--plan", self.plan, code=1)
        self.assertIn("2 attends are smaller than the plan's on worker 1: number 1 takes 32896 pairs of query and key in the trace, "
                      "65536 in the plan\n", said)

    def test_json(self):
        said, timeline = self.imported(*RANKS, "--format", "json")
        found = json.loads(said)
        self.assertEqual({k: found[k] for k in ("schedule", "differences", "call", "calls", "messages_for_each", "notes", "timeline")},
                         {"schedule": "ring", "differences": [], "call": 2, "calls": 2, "messages_for_each": 2, "notes": [],
                          "timeline": "measured.json"})
        self.assertAlmostEqual(found["makespan_us"], max(r[7] + r[8] for r in timeline["tasks"]) / 1e6, places=2)
        other = self.make_plan("causal")
        found = json.loads(self.ringsched("import", *RANKS, "--plan", other, "--format", "json", code=1))
        self.assertEqual(list(found), ["schedule", "differences"])
        self.assertTrue(found["differences"])

    def test_a_call_and_a_range(self):
        first = self.imported(*RANKS, "--call", 1)
        self.assertEqual(first, self.imported(*RANKS, "--annotation", "ring", "--call", 1))
        self.assertNotEqual(first[1], self.imported(*RANKS)[1])
        self.assertIn("--call is 3; the traces have 2 calls",
                      self.ringsched("import", *RANKS, "--plan", self.plan, "--call", 3, code=2))
        self.assertIn("no range has the name", self.ringsched("import", *RANKS, "--plan", self.plan, "--annotation", "x", code=2))

    def test_clocks_that_are_seconds_apart(self):
        expected = self.imported(*RANKS)[1]
        trace = json.loads(RANKS[1].read_text())
        trace["host_name"] = "another"
        trace["baseTimeNanoseconds"] += 7_000_000_000
        said, found = self.imported(RANKS[0], self.path("apart.json", json.dumps(trace)))
        self.assertIn("clocks    moved by up to 7.00 s, by the messages", said)
        ends = [max(r[7] + r[8] for r in t["tasks"]) for t in (expected, found)]
        self.assertLess(abs(ends[1] / ends[0] - 1), 0.5)

    def test_it_compares_and_draws(self):
        self.ringsched("simulate", self.plan, "--machine", "laptop", "--timeline", "predicted.json")
        said = self.ringsched("import", *RANKS, "--plan", self.plan, "-o", "m.json", "--gantt", "m.svg")
        self.assertIn("gantt     m.svg", said)
        self.assertIn("<svg", self.path("m.svg").read_text())
        self.assertIn("measured ring on gloo, 2 workers", self.ringsched("compare", "predicted.json", "m.json"))

    def test_an_attend_that_is_missing(self):
        bad = [RANKS[0], TRACES / "skipped-rank-1.json"]
        said = self.ringsched("import", *bad, "--plan", self.plan, "--annotation", "ring", code=1)
        self.assertEqual(said, "worker 1: 1 attend in the trace; the plan needs 2\ndoes not match: 1 difference\n")
        said = self.ringsched("import", *bad, "--plan", self.plan, code=1)
        self.assertIn("worker 1: 2 attends in the trace; the plan needs 4 (2 calls with 2 each)\n", said)
        self.assertFalse(self.path("measured.json").exists())
        said = self.ringsched("import", *RANKS, "--plan", self.make_plan("causal"), code=1)
        self.assertEqual(said, "worker 0: 4 attends in the trace; the plan needs 2 (2 calls with 1 each)\ndoes not match: 1 difference\n")

    def test_bad_input(self):
        def refused(*words):
            said = self.ringsched("import", *words, code=2)
            self.assertEqual(said.count("\n"), 1, said)
            return said

        self.assertIn("--plan", refused(*RANKS))
        self.assertIn("1 trace for a plan of 2 workers", refused(RANKS[0], "--plan", self.plan))
        self.assertIn("are both of rank 0", refused(RANKS[0], RANKS[0], "--plan", self.plan))
        self.assertIn("no \"traceEvents\"", refused(self.plan, RANKS[0], "--plan", self.plan))
        self.assertIn("trace", refused(*RANKS, "--plan", RANKS[0]))
        self.assertIn("cannot read", refused("gone.json", RANKS[0], "--plan", self.plan))
        self.assertIn("--output", refused(*RANKS, "--plan", self.plan, "-o", RANKS[0]))
        self.assertIn(".svg", refused(*RANKS, "--plan", self.plan, "--gantt", "x.txt"))
        zipped = self.path("rank-0.json.gz")
        zipped.write_bytes(b"\x1f\x8b\x08" + bytes(30))
        self.assertIn("use gunzip first", refused(zipped, RANKS[1], "--plan", self.plan))
        text = RANKS[1].read_text()
        for cut in (0, 1, len(text) // 2, len(text) - 5):
            self.assertIn("cut.json:", refused(RANKS[0], self.path("cut.json", text[:cut]), "--plan", self.plan))

    def database(self, name, rows, table="CUPTI_ACTIVITY_KIND_KERNEL"):
        path = self.path(name)
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        db.execute(f"CREATE TABLE {table} (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, demangledName INTEGER)")
        names = sorted({r[3] for r in rows})
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, 0, ?, ?)", [(a, b, s, names.index(n)) for a, b, s, n in rows])
        db.commit()
        db.close()
        return path

    def test_what_nsys_exports(self):
        flash, nccl, add = ("void flash::flash_fwd_kernel<T>(Params)", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
                            "void at::native::vectorized_elementwise_kernel<4>()")
        rows = [(1000, 2000, 7, flash), (1010, 1800, 20, nccl), (2100, 3100, 7, flash), (3100, 3150, 7, add), (5000, 9000, 9, add)]
        files = [self.database(f"{r}.sqlite", [(a + 5 * r, b + 5 * r, s, n) for a, b, s, n in rows]) for r in range(2)]
        done = subprocess.run([PROGRAM, "import", *map(str, files), "--plan", str(self.plan)], capture_output=True, text=True,
                              cwd=self.folder.name)
        if "need SQLite" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        timeline = json.loads(self.path("measured.json").read_text())
        for kind, lengths in (("attend", [1_000_000] * 4), ("send", [790_000] * 2), ("receive", [790_000] * 2), ("merge", [50_000] * 2)):
            self.assertEqual([r[8] for r in self.rows(timeline, kind)], lengths, kind)
        wrong = self.database("wrong.sqlite", rows, "KERNELS")
        self.assertIn("this is not what nsys export", self.ringsched("import", wrong, files[0], "--plan", self.plan, code=2))
        cut = self.path("cut.sqlite")
        cut.write_bytes(files[0].read_bytes()[:3000])
        self.assertIn("cut.sqlite", self.ringsched("import", cut, files[0], "--plan", self.plan, code=2))
        wrong = self.database("back.sqlite", [(2000, 1000, 7, flash)])
        self.assertIn("a kernel runs from 2000 ns to 1000 ns", self.ringsched("import", wrong, files[0], "--plan", self.plan, code=2))


if __name__ == "__main__":
    unittest.main()
