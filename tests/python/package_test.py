"""Tests of the package ringsched, against the command's own output and by properties.

usage: package_test.py PROGRAM [unittest's arguments]   PROGRAM: a `ringsched`, whose output is right
numpy, pandas and polars are used where they are installed.
"""

import importlib.util
import json
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import ringsched as rs

PROGRAM = ""
SCHEDULES = ["ring", "striped", "zigzag", "balanced", "balanced-split", "double-ring:node=2", "ulysses",
             "all-gather:stride=4", "usp:ulysses=2"]
DECODING = ["flash-decode", "tree-decode", "ring-decode"]


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def command(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def refused(*flags):
    """What the command says of bad flags, with the names that arguments have in Python."""
    line = command(*flags, code=2).removeprefix("ringsched: ").removesuffix("\n")
    names = {"pass": "passes", "slow-worker": "slow_workers"}
    return re.sub(r"(?<![^ (])--([a-z-]+)", lambda m: names.get(m[1], m[1].replace("-", "_")), line)


def package(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "ringsched", *arguments], capture_output=True, text=True)


def ring(problem: rs.Problem, plan: rs.Builder) -> None:
    """Keys go round, as in scheduler/schedules/ring.cpp."""
    workers = range(problem.workers)
    visiting = [plan.keys(r) for r in workers]
    for s in workers:
        plan.step(s)
        if s > 0:
            visiting = [plan.move(visiting[r - 1], r) for r in workers]
        for r in workers:
            plan.merge(plan.attend(plan.queries(r), visiting[r]))


def listed(column) -> list:
    return column.tolist() if hasattr(column, "tolist") else list(column)


class Problems(unittest.TestCase):
    def test_what_is_left_out_is_as_in_the_command(self):
        plan = json.loads(command("plan", "--format", "json"))
        p = rs.Problem()
        self.assertEqual((p.workers, p.tokens), (plan["workers"], plan["tokens"]))
        self.assertEqual(rs.Problem(workers=4).tokens, 32768)
        self.assertEqual(rs.Problem(heads=12).kv_heads, 12)

    def test_prints_as_it_is_made(self):
        p = rs.Problem(workers=5, tokens="10K", heads=6, kv_heads=2, head_dim=64, dtype="fp16",
                       mask="window:1K", passes="both")
        self.assertEqual(eval(repr(p), {"Problem": rs.Problem}), p)
        self.assertEqual(rs.Problem(**p.to_dict()), p)
        self.assertEqual(pickle.loads(pickle.dumps(p)), p)
        decoding = rs.Problem(workers=4, tokens="64K", new_tokens=3)
        self.assertEqual(eval(repr(decoding), {"Problem": rs.Problem}), decoding)
        self.assertEqual(pickle.loads(pickle.dumps(decoding)), decoding)
        self.assertEqual(hash(pickle.loads(pickle.dumps(p))), hash(p))
        self.assertNotEqual(p, rs.Problem(workers=5))
        self.assertNotEqual(p, "a problem")

    def test_errors_are_the_one_line_of_the_command(self):
        for given, flags in (
            ({"workers": 0}, ["--workers", "0"]),
            ({"tokens": "64Q"}, ["--tokens", "64Q"]),
            ({"workers": [4, 8]}, ["--workers", "4,8"]),
            ({"mask": "odd"}, ["--mask", "odd"]),
            ({"kv_heads": 5}, ["--kv-heads", "5"]),
            ({"dtype": "int8"}, ["--dtype", "int8"]),
            ({"passes": "sideways"}, ["--pass", "sideways"]),
        ):
            with self.subTest(given=given), self.assertRaises(rs.Error) as caught:
                rs.Problem(**given)
            self.assertEqual(str(caught.exception), refused("plan", *flags))
            self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaisesRegex(TypeError, "worker"):
            rs.Problem(worker=8)

    def test_from_the_config_of_a_model(self):
        class Config:
            num_attention_heads, num_key_value_heads, hidden_size = 24, 8, 3072

        p = rs.from_config(Config, workers=4, tokens="32K", dtype="fp16")
        self.assertEqual((p.heads, p.kv_heads, p.head_dim, p.dtype), (24, 8, 128, "fp16"))
        file = {"num_attention_heads": 16, "head_dim": 64, "hidden_size": 4096}
        p = rs.from_config(file, workers=4)
        self.assertEqual((p.heads, p.kv_heads, p.head_dim), (16, 16, 64))
        for wrong in ({"hidden_size": 4096}, {"num_attention_heads": 16}, 5):
            with self.assertRaisesRegex(rs.Error, "the config needs num_attention_heads, and head_dim or hidden_size"):
                rs.from_config(wrong)


class Plans(unittest.TestCase):
    def test_plan_files_are_those_of_the_command(self):
        for schedule in SCHEDULES:
            for passes, overlap in (("forward", "prefetch"), ("both", "unbounded")):
                with self.subTest(schedule=schedule, passes=passes):
                    plan = rs.plan(rs.Problem(workers=4, passes=passes), schedule, overlap=overlap)
                    self.assertEqual(plan.to_json(), command(
                        "plan", "-w", "4", "--pass", passes, "-s", schedule, "--overlap", overlap, "-o", "-"))

    def test_decoding(self):
        for schedule in DECODING:
            with self.subTest(schedule=schedule):
                plan = rs.plan(rs.Problem(workers=4, new_tokens=2), schedule)
                self.assertTrue(plan.verify())
                self.assertEqual(plan.problem.new_tokens, 2)
                self.assertEqual(plan.to_json(), command("plan", "-w", "4", "--new-tokens", "2", "-s", schedule, "-o", "-"))
        with self.assertRaises(rs.Error) as caught:
            rs.plan(rs.Problem(workers=4, new_tokens=2), "ring")
        self.assertEqual(str(caught.exception), refused("plan", "-w", "4", "--new-tokens", "2", "-s", "ring"))

    def test_files_and_pickles_bring_it_back(self):
        plan = rs.plan(rs.Problem(workers=6, tokens=1001), "balanced")
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "plan.json"))
            plan.write(file)
            self.assertEqual(rs.read_plan(file), plan)
            self.assertIn("proved correct: ", command("verify", file))
        self.assertEqual(pickle.loads(pickle.dumps(plan)), plan)
        self.assertEqual(pickle.loads(pickle.dumps(plan)).hash, plan.hash)
        self.assertNotEqual(plan, rs.plan(rs.Problem(workers=6, tokens=1001), "ring"))

    def test_errors_are_those_of_the_command(self):
        p = rs.Problem(workers=4)
        for ask, flags in (
            (lambda: rs.plan(p, "zigzagg"), ["-s", "zigzagg"]),
            (lambda: rs.plan(p, "usp:ulysses=3"), ["-s", "usp:ulysses=3"]),
            (lambda: rs.plan(p, "ring", overlap="all"), ["-s", "ring", "--overlap", "all"]),
            (lambda: rs.plan(p, "ring", buffers="x"), ["-s", "ring", "--buffers", "x"]),
            (lambda: rs.plan(p, "ring", exchanges="odd"), ["-s", "ring", "--exchanges", "odd"]),
        ):
            with self.subTest(flags=flags), self.assertRaises(rs.Error) as caught:
                ask()
            self.assertEqual(str(caught.exception), refused("plan", "-w", "4", *flags))
        with self.assertRaisesRegex(rs.Error, "layout is 'striped', but ring has a layout of its own"):
            rs.plan(rs.Problem(workers=2), "ring", layout="striped")
        with self.assertRaisesRegex(rs.Error, r"problem is 'zigzag'; use ringsched.Problem\(workers=8\)"):
            rs.plan("zigzag")
        with self.assertRaisesRegex(rs.Error, "^tokens is 'x'"):
            rs.Problem(tokens="x")
        with self.assertRaisesRegex(rs.Error, "/nowhere/plan.json"):
            rs.read_plan("/nowhere/plan.json")

    def test_columns_are_the_tasks(self):
        plan = rs.plan(rs.Problem(workers=4), "balanced")
        tasks = plan.tasks
        self.assertEqual(len(tasks), len(plan))
        file = json.loads(plan.to_json())["tasks"]
        kinds = [tasks.words("kind")[k] for k in listed(tasks.kind)]
        self.assertEqual(kinds, [t["do"] for t in file])
        self.assertEqual(listed(tasks.worker), [tasks.row(i)["worker"] for i in range(len(tasks))])
        self.assertEqual(sorted(set(listed(tasks["worker"]))), [0, 1, 2, 3])
        self.assertEqual(sum(listed(plan.chunks.count)), plan.problem.tokens)
        with self.assertRaisesRegex(KeyError, "tasks has no column 'odd'; it has kind"):
            tasks["odd"]
        with self.assertRaises(AttributeError):
            tasks.odd
        with self.assertRaises(IndexError):
            tasks.row(len(tasks))

    def test_columns_outlive_their_plan(self):
        steps = rs.plan(rs.Problem(workers=16), "ring").tasks.step
        others = [rs.plan(rs.Problem(workers=16), "zigzag") for _ in range(8)]
        self.assertEqual(max(listed(steps)), 15)
        del others

    def test_words_and_pictures(self):
        plan = rs.plan(rs.Problem(workers=4), "balanced")
        text = command("plan", "-w", "4")
        self.assertEqual(str(plan), text[: text.index("\nmemory")])
        self.assertIn("<svg", plan._repr_html_())
        self.assertIn("<svg", plan.block_map()._repr_svg_())
        self.assertIn("digraph", plan.task_graph(worker=1))
        with self.assertRaisesRegex(rs.Error, "worker"):
            plan.task_graph(worker=4)
        large = rs.plan(rs.Problem(workers=600), "ring")
        self.assertNotIn("<svg", large._repr_html_())


class Proofs(unittest.TestCase):
    def test_holds_for_every_schedule_with_the_memory_of_the_command(self):
        for schedule in SCHEDULES:
            with self.subTest(schedule=schedule):
                v = rs.plan(rs.Problem(workers=4, passes="both"), schedule).verify()
                self.assertTrue(v)
                self.assertEqual(v.violations, [])
                said = json.loads(command("plan", "-w", "4", "--pass", "both", "-s", schedule, "--format", "json"))
                self.assertEqual(max(v.peak_bytes), said["peak_bytes"])

    def test_a_broken_plan_is_told_as_by_the_command(self):
        source = Path(__file__).resolve().parents[2] / "examples" / "lightseq_odd.py"
        text = subprocess.run([sys.executable, source], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder, "lightseq.json"))
            Path(file).write_text(text)
            plan = rs.read_plan(file)
            said = subprocess.run([PROGRAM, "verify", file], capture_output=True, text=True)
            v = plan.verify()
            self.assertFalse(v)
            self.assertEqual(f"{v}\n", said.stdout)
            self.assertEqual(v.violations[0].rule, "coverage")
            self.assertEqual(v.violations[0].worker, 3)
            self.assertEqual(v.peak_bytes, [])
            self.assertIsNone(v.needs_independent_lanes)
            with self.assertRaisesRegex(rs.Error, "lightseq-odd does not verify .coverage."):
                v.raise_if_broken()
            with self.assertRaises(rs.Error) as caught:
                rs.simulate(plan)
            self.assertEqual(str(caught.exception), refused("simulate", file))
            self.assertEqual(len(plan.verify(most=1).violations), 1)


class Runs(unittest.TestCase):
    def test_numbers_are_those_of_the_command(self):
        for schedule, machine, flags, given in (
            ("balanced", "ideal", [], {}),
            ("zigzag", "ideal", ["--diagonal", "0.6"], {"diagonal": 0.6}),
            ("zigzag", "dgx-a100", [], {}),
            ("ring", "hgx-h100", ["--kernels", "fa2"], {"kernels": "fa2"}),
            ("usp:ulysses=2", "dgx-a100", ["--slow-worker", "3:2"], {"slow_workers": {3: 2}}),
            ("usp:ulysses=4", "dgx-a100", ["--exchanges", "direct"], {}),
            ("striped", "dgx-a100", ["--noise", "5%", "--seed", "7", "--runs", "9"],
             {"noise": "5%", "seed": 7, "runs": 9}),
        ):
            with self.subTest(schedule=schedule, machine=machine):
                asked = ["simulate", "-m", machine, "-s", schedule, *flags]
                exchanges = "direct" if "--exchanges" in flags else "native"
                run = rs.simulate(rs.plan(rs.Problem(), schedule, exchanges=exchanges), machine, **given)
                said = json.loads(command(*asked, "--format", "json"))
                self.assertEqual(run.to_dict(), said)
                self.assertEqual(str(run), command(*asked, "--no-chart"))
                for name in ("makespan_us", "idle_fraction", "overlap_fraction", "speedup", "one_device_us",
                             "exposed_communication_us", "peak_bytes", "unit"):
                    self.assertEqual(getattr(run, name), said[name], name)
                for name, value in run.bounds.items():
                    self.assertEqual(value, said["bounds"][name])
                for name, value in run.critical_path.items():
                    self.assertEqual(value, said["critical_path"][name])
                self.assertEqual([ps / 1e6 for ps in listed(run.by_worker.attending_ps)],
                                 [w["attending_us"] for w in said["by_worker"]])

    def test_errors_are_those_of_the_command(self):
        plan = rs.plan(rs.Problem(), "ring")
        for given, flags in (
            ({"machine": "dgx"}, ["-m", "dgx"]),
            ({"machine": "dgx-a100", "kernels": "fa9"}, ["-m", "dgx-a100", "--kernels", "fa9"]),
            ({"noise": "5"}, ["--noise", "5"]),
            ({"runs": 3}, ["--runs", "3"]),
            ({"slow_workers": {9: 2}}, ["--slow-worker", "9:2"]),
        ):
            with self.subTest(given=given), self.assertRaises(rs.Error) as caught:
                rs.simulate(plan, **given)
            self.assertEqual(str(caught.exception), refused("simulate", "-s", "ring", *flags))
        with self.assertRaisesRegex(rs.Error, "dict"):
            rs.simulate(plan, slow_workers="3:2")

    def test_what_if(self):
        run = rs.simulate(rs.plan(rs.Problem(), "ring"), "dgx-a100")
        said = json.loads(command("simulate", "-m", "dgx-a100", "-s", "ring", "--what-if", "kernels=2x",
                                  "--format", "json"))
        self.assertEqual(run.what_if("kernels=2x"), said["what_if"][0]["makespan_us"])
        better = run.improvements()
        self.assertEqual([better.row(i)["change"] for i in range(len(better))],
                         [a["change"] for a in said["improvements"]])
        with self.assertRaises(rs.Error):
            run.what_if("luck=2x")

    def test_machines(self):
        names = rs.machines()["name"]
        self.assertEqual(names, [m["name"] for m in json.loads(command("machines", "--format", "json"))])
        mine = rs.Machine.from_toml(rs.Machine("dgx-a100").to_toml(), "mine")
        plan = rs.plan(rs.Problem(), "zigzag")
        self.assertEqual(rs.simulate(plan, mine).makespan_us, rs.simulate(plan, "dgx-a100").makespan_us)
        self.assertEqual(pickle.loads(pickle.dumps(mine)), mine)
        self.assertEqual(rs.schedules()["name"],
                         [s["name"] for s in json.loads(command("schedules", "--format", "json"))])


    def test_one_measured_time_and_few_thread_blocks(self):
        plan = rs.plan(rs.Problem(), "zigzag")
        fitted = rs.simulate(plan, "dgx-a100", calibrate_with="ms=26")
        self.assertAlmostEqual(fitted.makespan_us, 26000, delta=26)
        self.assertEqual(rs.simulate(plan, fitted.machine).makespan_us, fitted.makespan_us)
        self.assertIn("calibrated", str(fitted))
        with self.assertRaisesRegex(rs.Error, "calibrate_with is .26."):
            rs.simulate(plan, "dgx-a100", calibrate_with="26")
        with self.assertRaisesRegex(rs.Error, "calibrate_with is ''"):
            rs.simulate(plan, "dgx-a100", calibrate_with="")
        with self.assertRaisesRegex(rs.Error, "no meaning on machine 'ideal'"):
            rs.simulate(plan, calibrate_with="ms=26")
        ring = rs.plan(rs.Problem(tokens=16384), "ring")
        self.assertGreater(rs.simulate(ring, "hgx-h100", nccl_ctas=1).makespan_us,
                           rs.simulate(ring, "hgx-h100").makespan_us)


class Timelines(unittest.TestCase):
    def test_files_are_those_of_the_command(self):
        run = rs.simulate(rs.plan(rs.Problem(), "balanced"), "dgx-a100")
        with tempfile.TemporaryDirectory() as folder:
            theirs, ours, page, chart = (str(Path(folder, f)) for f in ("a.json", "b.json", "b.html", "b.svg"))
            command("simulate", "-m", "dgx-a100", "--timeline", theirs, "--no-chart")
            run.save(ours)
            self.assertEqual(Path(ours).read_text(), Path(theirs).read_text())
            run.save(page)
            run.save(chart)
            self.assertIn("<svg", Path(chart).read_text())
            self.assertIn("<html", Path(page).read_text())
            self.assertEqual(rs.read_timeline(ours), run.timeline)
            run.to_perfetto(str(Path(folder, "t.json")))
            self.assertTrue(json.loads(Path(folder, "t.json").read_text())["traceEvents"])
            with self.assertRaisesRegex(rs.Error, "ends in .svg, .pdf, .png, .html or .json"):
                run.save(str(Path(folder, "b.gif")))
        self.assertEqual(pickle.loads(pickle.dumps(run.timeline)), run.timeline)

    def test_columns(self):
        t = rs.simulate(rs.plan(rs.Problem(), "zigzag"), "dgx-a100").timeline
        starts, ends = listed(t.start_ps), listed(t.end_ps)
        self.assertEqual(len(starts), len(t))
        self.assertEqual(max(ends) / 1e6, t.makespan_us)
        self.assertTrue(all(a <= b for a, b in zip(starts, ends)))
        self.assertIn("worker 0", t.chart(columns=60))
        with self.assertRaisesRegex(rs.Error, "worker"):
            t.gantt(worker=8)
        with self.assertRaisesRegex(rs.Error, "width"):
            t.gantt(width=10)
        with self.assertRaisesRegex(rs.Error, "critical_path is 'loud'"):
            t.gantt(critical_path="loud")
        self.assertNotEqual(t.gantt(critical_path="outline").svg(), t.gantt(critical_path="none").svg())

    def test_comparison_is_that_of_the_command(self):
        p = rs.Problem()
        first, second = (rs.simulate(rs.plan(p, s), "dgx-a100") for s in ("ring", "zigzag"))
        c = rs.compare(first, second)
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder, f)) for f in ("a.json", "b.json")]
            for run, file in zip((first, second), files):
                run.timeline.save(file)
            self.assertEqual(f"{c}\n", command("compare", *files))
            self.assertEqual(c.to_dict(), json.loads(command("compare", *files, "--format", "json")))
        self.assertAlmostEqual(c.error, second.makespan_us / first.makespan_us - 1)
        self.assertIn("<svg", c._repr_html_())
        with self.assertRaises(rs.Error):
            rs.compare(first, rs.simulate(rs.plan(rs.Problem(workers=4), "ring"), "dgx-a100"))
        with self.assertRaisesRegex(rs.Error, "^<Plan .* has no times to compare; use what simulate.. or read_timeline.. returns"):
            rs.compare(first, first.plan)


class Sweeps(unittest.TestCase):
    def test_rows_are_those_of_the_command(self):
        for given, flags in (
            ({"machines": "dgx-a100", "schedules": ["ring", "zigzag", "usp:ulysses=2"]},
             ["-m", "dgx-a100", "-s", "ring,zigzag,usp:ulysses=2"]),
            ({"workers": [4, 8], "tokens": ["32K"], "passes": "both", "overlap": ["none", "prefetch"]},
             ["-w", "4,8", "-t", "32K", "--pass", "both", "--overlap", "none,prefetch"]),
        ):
            with self.subTest(given=given):
                sweep = rs.sweep(**given)
                self.assertEqual(sweep.to_csv(), command("sweep", *flags, "--format", "csv"))
                # The program also says which flags would name other kernels and software.
                said = re.sub(r"\n\nThese results for .*\(to change: .*\n", "\n", command("sweep", *flags))
                self.assertEqual(f"{sweep}\n", said)
                self.assertEqual(len(sweep.rows), len(sweep))
        wins = rs.sweep(["ring", "zigzag"], machines="dgx-a100").rows["slower_in"]
        self.assertEqual(wins[0], 1)
        self.assertNotEqual(wins[1], wins[1])  # zigzag is the best: no number
        self.assertEqual(rs.sweep(["ring", "zigzag"], machines="dgx-a100").best, "zigzag")
        with self.assertRaises(rs.Error) as caught:
            rs.sweep(["ring", "ring"])
        self.assertEqual(str(caught.exception), refused("sweep", "-s", "ring,ring"))

    def test_charts_are_those_of_the_command(self):
        sweep = rs.sweep(["ring", "zigzag"], machines="dgx-a100", workers=[4, 8], tokens=["32K", "64K"])
        with tempfile.TemporaryDirectory() as folder:
            rows, picture = str(Path(folder, "rows.csv")), str(Path(folder, "picture.svg"))
            Path(rows).write_text(sweep.to_csv())
            for given, flags in (
                ({}, []),
                ({"y": "speedup", "x": "workers", "medium": "column"}, ["--y", "speedup", "--x", "workers", "--for", "column"]),
                ({"kind": "map"}, ["--kind", "map"]),
                ({"kind": "pareto", "title": "Mine"}, ["--kind", "pareto", "--title", "Mine"]),
                ({"kind": "breakdown"}, ["--kind", "breakdown"]),
            ):
                with self.subTest(given=given):
                    command("plot", rows, *flags, "-o", picture)
                    self.assertEqual(sweep.plot(**given).svg(), Path(picture).read_text())
        self.assertIn("<svg", sweep._repr_html_())
        self.assertNotIn("<svg", rs.sweep(["ring"], machines="dgx-a100")._repr_html_())
        for wrong, said in (({"kind": "pie"}, "kind is 'pie'; use lines, map, pareto or breakdown"),
                            ({"kind": "map", "y": "time"}, "x and y are only for kind='lines'; this is map"),
                            ({"y": "hope"}, "y is hope; use time, speedup, tokens-per-second or memory"),
                            ({"medium": "wall"}, "medium is wall; use column, text or slide")):
            with self.assertRaises(rs.Error) as caught:
                sweep.plot(**wrong)
            self.assertEqual(str(caught.exception), said)


class OwnSchedules(unittest.TestCase):
    def test_a_ring_in_python_is_the_ring(self):
        for problem in (rs.Problem(workers=5, tokens=1003), rs.Problem(workers=4, passes="both"),
                        rs.Problem(workers=3, mask="window:2K")):
            theirs = rs.plan(problem, "ring")
            ours = rs.plan(problem, ring)
            self.assertEqual(ours.hash, theirs.hash)
            self.assertEqual(ours.schedule, "ring")
            self.assertTrue(ours.verify())

    def test_a_schedule_that_forgets_a_step_is_found_out(self):
        def forgetful(problem, plan):
            for r in range(problem.workers):
                plan.merge(plan.attend(plan.queries(r), plan.keys(r)))

        plan = rs.plan(rs.Problem(workers=3), forgetful)
        self.assertFalse(plan.verify())
        self.assertEqual({v.rule for v in plan.verify().violations}, {"coverage"})

    def test_exchanges(self):
        def gather(problem, plan):
            own = [plan.keys(r) for r in range(problem.workers)]
            chunks = own[-1].first_chunk + own[-1].chunks
            wanted = [rs.Wanted(r, 0, chunks, 0, problem.kv_heads) for r in range(problem.workers)]
            plan.step(0)
            for r, keys in enumerate(plan.exchange(own, wanted)):
                plan.merge(plan.attend(plan.queries(r), keys))

        plan = rs.plan(rs.Problem(workers=4, passes="both"), gather)
        self.assertTrue(plan.verify())
        kinds = [plan.tasks.words("kind")[k] for k in listed(plan.tasks.kind)]
        self.assertIn("exchange", kinds)
        lowered = rs.plan(rs.Problem(workers=4, passes="both"), gather, exchanges="ring")
        self.assertNotIn("exchange", [lowered.tasks.words("kind")[k] for k in listed(lowered.tasks.kind)])
        self.assertTrue(lowered.verify())

    def test_a_broken_schedule_is_not_lowered(self):
        def forgetful(problem, plan):
            plan.merge(plan.attend(plan.queries(0), plan.keys(0)))

        with self.assertRaisesRegex(rs.Error, "does not verify"):
            rs.plan(rs.Problem(workers=2), forgetful, exchanges="ring")

    def test_mistakes_are_one_line(self):
        p = rs.Problem(workers=3)
        for wrong in (
            lambda b: b.queries(3),
            lambda b: b.keys(-1),
            lambda b: b.attend(b.queries(0), b.keys(1)),
            lambda b: b.merge(b.attend(b.move(b.queries(1), 2), b.move(b.keys(0), 2))),
            lambda b: b.merge(rs.Builder(rs.Problem(workers=8)).attend(b.queries(0), b.keys(0))),
            lambda b: b.attend(rs.Builder(p).queries(0), b.keys(0)),
            lambda b: b.queries(0).part(1),
            lambda b: b.step(-1),
        ):
            with self.assertRaises(rs.Error) as caught:
                builder = rs.Builder(p)
                builder.step(0)
                wrong(builder)
                builder.finish()
            self.assertNotIn("\n", str(caught.exception))
        done = rs.Builder(p)
        done.finish()
        with self.assertRaisesRegex(rs.Error, "finished"):
            done.step(0)

    def test_what_python_raises_inside_comes_out(self):
        def broken(problem, plan):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            rs.plan(rs.Problem(), broken)


class LongWork(unittest.TestCase):
    def test_other_threads_run_meanwhile(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1

        plan = rs.plan(rs.Problem(workers=256), "ring")  # 100,000 tasks
        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        for _ in range(5):
            plan.verify()
        passed = counted[0] - before
        stop.set()
        thread.join()
        self.assertGreater(passed, 0)

    def test_an_interruption_stops_it(self):
        script = ("import signal, ringsched as rs\n"
                  "plan = rs.plan(rs.Problem(workers=32), 'ring')\n"
                  "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
                  "try:\n"
                  "    signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
                  "    rs.simulate(plan, 'hgx-h100x4-ib400', noise='5%', runs=1000000)\n"  # hours
                  "except KeyboardInterrupt:\n"
                  "    print('stopped')\n")
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as python:
            try:
                self.assertEqual(python.communicate(timeout=60)[0], "stopped\n")
            finally:
                python.kill()


class Tables(unittest.TestCase):
    def setUp(self):
        self.timeline = rs.simulate(rs.plan(rs.Problem(workers=4), "balanced"), "dgx-a100").timeline

    def test_text_and_html(self):
        tasks = self.timeline.tasks
        self.assertTrue(repr(tasks).endswith(f"tasks: {len(tasks)} rows"))
        self.assertIn("...", repr(tasks))
        self.assertTrue(tasks._repr_html_().startswith("<table>"))

    @unittest.skipUnless(has("numpy"), "numpy is not installed")
    def test_arrays_are_views(self):
        import numpy as np
        starts = self.timeline.start_ps
        self.assertIsInstance(starts, np.ndarray)
        self.assertEqual(starts.dtype, np.int64)
        self.assertEqual(starts.strides, (32,))  # of the tasks themselves
        self.assertFalse(starts.flags.writeable)
        again = self.timeline.start_ps
        self.assertTrue(np.shares_memory(starts, again))

    @unittest.skipIf(has("numpy"), "numpy is installed")
    def test_without_numpy_they_are_memoryviews(self):
        starts = self.timeline.start_ps
        self.assertIsInstance(starts, memoryview)
        self.assertTrue(starts.readonly)
        self.assertEqual(starts.strides, (32,))

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_pandas(self):
        frame = self.timeline.to_pandas()
        self.assertEqual(list(frame.columns), self.timeline.tasks.columns)
        self.assertEqual(frame.end_ps.max() / 1e6, self.timeline.makespan_us)
        self.assertEqual((frame.kind == "attend").sum(),
                         listed(self.timeline.tasks.kind).count(self.timeline.tasks.words("kind").index("attend")))

    @unittest.skipUnless(has("polars"), "polars is not installed")
    def test_polars_through_arrow(self):
        import polars
        for frame in (self.timeline.to_polars(), polars.DataFrame(self.timeline)):
            self.assertEqual(frame.columns, self.timeline.tasks.columns)
            self.assertEqual(frame["end_ps"].to_list(), listed(self.timeline.end_ps))
            kinds = self.timeline.tasks.words("kind")
            self.assertEqual([str(k) for k in frame["kind"]], [kinds[k] for k in listed(self.timeline.tasks.kind)])
        self.assertEqual(rs.machines().to_polars()["name"].to_list(), rs.machines()["name"])

    def test_what_is_not_installed_is_said(self):
        for name, ask in (("pandas", self.timeline.to_pandas), ("polars", self.timeline.to_polars)):
            if not has(name):
                with self.assertRaisesRegex(rs.Error, f"pip install {name}"):
                    ask()


class Pages(unittest.TestCase):
    def test_what_they_show_runs(self):
        root = Path(__file__).resolve().parents[2]
        page = root / "docs/python.md"
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        self.assertTrue(blocks)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("makespan", done.stdout)

    def test_every_name_of_the_table_is_there(self):
        page = (Path(__file__).resolve().parents[2] / "docs/python.md").read_text(encoding="utf-8")
        for name in re.findall(r"`([A-Za-z_]+)\(", page):
            self.assertTrue(any(hasattr(x, name) for x in (rs, rs.Plan, rs.Run, rs.Sweep, rs.Timeline, rs.Table, rs.Machine)), name)


class Command(unittest.TestCase):
    def test_says_what_the_program_says(self):
        for arguments in (["--version"], ["schedules"], ["simulate", "-m", "dgx-a100"], ["plan", "-w", "3"],
                          ["plan", "-w", "0"], ["sweep", "-s", "ring,zigzag"], ["verify", "/nowhere"],
                          ["simulate", "--help"], ["nonsense"]):
            with self.subTest(arguments=arguments):
                ours = package(*arguments)
                theirs = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
                self.assertEqual((ours.stdout, ours.stderr, ours.returncode),
                                 (theirs.stdout, theirs.stderr, theirs.returncode))

    def test_the_doctor_says_what_the_package_leaves_out(self) -> None:
        said = package("doctor", "--format", "json")
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        parts = {part["name"]: part for part in json.loads(said.stdout)["parts"]}
        self.assertIsNone(parts["runtime"]["found"])
        self.assertIn("built from source", parts["runtime"]["missing"])
        self.assertNotIn("MPI", parts)
        self.assertIn("cores usable", parts["CPU"]["found"])

    def test_what_the_package_lacks_says_what_it_needs(self):
        for name in ("run", "calibrate", "bench-links"):
            with self.subTest(name=name):
                said = package(name, "--workers", "4", "--schedule", "ring")
                self.assertEqual(said.returncode, 2)
                self.assertEqual(said.stderr, f"ringsched: {name} is not in the Python package; it needs ringsched "
                                              "built from source (scripts/build)\n")

    def test_every_name_has_words(self):
        for name in rs.__all__:
            self.assertTrue(hasattr(rs, name), name)
        stub = Path(rs.__file__).with_name("_core.pyi").read_text()
        for name in ("class Plan", "class Run", "def simulate(plan: Plan", "class Error(ValueError)"):
            self.assertIn(name, stub)
        self.assertTrue(Path(rs.__file__).with_name("py.typed").exists())


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=1)
