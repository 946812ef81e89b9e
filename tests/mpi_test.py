"""Runs over several MPI processes: every schedule computes the right numbers however its workers are
spread, only one process prints, and all times are on one clock.

usage: mpi_test.py path/to/ringsched
"""

import concurrent.futures
import itertools
import json
import shutil
import unittest

from mpi_job import PROGRAM, SANITIZED, WHOLE, WRITE_EXCHANGE_PLANS, Case, execute, flags, mpirun, said

LISTED = json.loads(execute([PROGRAM, "schedules", "--format", "json"])[1])
SCHEDULES = [s["name"] for s in LISTED if s["layout"] != "decode"]
DECODING = [s["name"] for s in LISTED if s["layout"] == "decode"]


def fitting(schedule, workers):
    """With the four heads of flags()."""
    return min(workers, 4) if schedule == "ulysses" else workers


def times(timeline):
    """Of each task: columns by name, and its end."""
    for row in timeline["tasks"]:
        task = dict(zip(timeline["columns"], row))
        task["kind"] = timeline["kinds"][task["kind"]]
        task["end_ps"] = task["start_ps"] + task["duration_ps"]
        yield task


class Numbers(Case):
    def test_every_schedule_computes_what_it_should(self):
        # Workers beyond those of even shares, too.
        spread = {n: itertools.cycle(w) for n, w in {2: (2, 5, 3), 3: (4, 3, 8), 4: (5, 4, 7)}.items()}
        cases = [(schedule, which, dtype, n, fitting(schedule, next(spread[n])))
                 for schedule, which, dtype in itertools.product(SCHEDULES, ("forward", "both"), ("fp32", "bf16"))
                 for n in (2, 3, 4)]
        if SANITIZED:  # each schedule, pass and type once or twice; rendezvous_tests have the rest in threads
            cases = cases[::7]

        def run(case):
            schedule, which, dtype, n, workers = case
            return execute(mpirun(n, PROGRAM, "run", "-s", schedule, "-w", workers, "--pass", which, "--dtype", dtype,
                                  *flags(f"--tokens {60 + 17 * workers} --check --format json")))

        with concurrent.futures.ThreadPoolExecutor(3) as pool:  # most of their time they start and wait
            answers = list(pool.map(run, cases))
        for (schedule, which, dtype, n, workers), (code, out, err) in zip(cases, answers):
            with self.subTest(schedule=schedule, which=which, dtype=dtype, processes=n, workers=workers):
                self.assertEqual(code, 0, err)
                got, tokens = json.loads(out), 60 + 17 * workers
                self.assertEqual((got["schedule"], got["workers"], got["tokens"]), (schedule, workers, tokens))
                self.assertEqual(len(got["by_worker"]), workers)
                names = [one["name"].split(", rounded to ")[0] for one in got["check"]]
                if schedule in ("ulysses", "usp") and "log-sum-exp" not in names:  # it stays where the heads were
                    names.insert(1, "log-sum-exp")
                all_names = ["output", "log-sum-exp", "query gradient", "key gradient", "value gradient"]
                self.assertEqual(names, all_names[:2] if which == "forward" else all_names)
                for one in got["check"]:
                    self.assertTrue(one["holds"], one)
                    heads = 2 if one["name"].startswith(("key gradient", "value gradient")) else 4
                    self.assertEqual(one["rows"], tokens * heads, one)

    def test_every_decoding_schedule_computes_what_it_should(self):
        for n, schedule in enumerate(DECODING):
            with self.subTest(schedule=schedule):
                code, out, err = execute(mpirun(2 + n % 2, PROGRAM, "run", "-s", schedule, "-w", 3, *flags(
                    "--tokens 111 --new-tokens 2 --check --format json")))
                self.assertEqual(code, 0, err)
                for one in json.loads(out)["check"]:
                    self.assertTrue(one["holds"], one)
                    self.assertEqual(one["rows"], 3 * 2 * 4, one)  # each worker has the results of all heads

    @unittest.skipIf(not WRITE_EXCHANGE_PLANS, "ctest says what writes the plans")
    def test_random_plans_with_exchanges(self):
        count = 50 if WHOLE else 5
        execute([WRITE_EXCHANGE_PLANS, self.folder, "random", 7, count])
        files = sorted(self.folder.glob("random-*.json"))
        self.assertEqual(len(files), count)

        def run(number):
            workers = json.loads(files[number].read_text())["problem"]["workers"]
            # With a process for each worker, exchanges are collectives of MPI; else most are messages.
            processes = workers if number % 3 else 1 + number % workers
            return execute(mpirun(processes, PROGRAM, "run", files[number], "--check", "--check-finite", "--repeat", "2",
                                  "--no-chart", "--format", "json"))

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(run, range(count)))
        self.assertTrue(any("by MPI_" in out for _, out, _ in answers))
        for file, (code, out, err) in zip(files, answers):
            with self.subTest(file.name):
                self.assertEqual(code, 0, err)
                for one in json.loads(out)["check"]:
                    self.assertTrue(one["holds"], one)
                    self.assertEqual(one["rows"], one["rows_in_all"])

    def test_a_chart_in_a_file_has_no_colours(self):
        chart = [f for f in flags("--tokens 64") if f != "--no-chart"]
        code, out, err = execute(mpirun(2, PROGRAM, "run", "-w", "2", *chart), env={"TERM": "xterm"})
        self.assertEqual(code, 0, err)
        self.assertIn("that worker's queries", out)
        self.assertNotIn("\x1b", out)

    def test_masks_and_repeats(self):
        for more in ("--mask full", "--mask window:20", "--mask documents:50,70,31", "--mask window:20,documents:50,70,31", "--pass backward", "--dtype fp16",
                     "--overlap unbounded", "--overlap none"):
            with self.subTest(more):
                got = self.good(mpirun(2, PROGRAM, "run", "-w", "5", *flags("--tokens 151 --check --format json --repeat 3"),
                                       *more.split()))
                self.assertEqual(len(got["runs_us"]), 3)
                self.assertTrue(all(one["holds"] for one in got["check"]), got["check"])

    def test_it_computes_what_one_process_does(self):
        for schedule in SCHEDULES:
            command = [PROGRAM, "run", "-s", schedule, "-w", fitting(schedule, 5), *flags("--tokens 155 --pass both --check --format json")]
            one, three = self.good(command), self.good(mpirun(3, *command))
            for key in ("plan_hash", "check", "memory_bytes", "peak_bytes"):
                if key == "memory_bytes":  # of those of the first process
                    self.assertLessEqual(three[key], one[key])
                else:
                    self.assertEqual(three[key], one[key], schedule)


class Clocks(Case):
    FLAGS = flags("--tokens 200 --pass both --timeline t.json --format json")

    def check(self, command, schedule, workers, slack_ps=0):
        code, out, err = execute(command, cwd=self.folder)
        self.assertEqual(code, 0, err)
        json.loads(out)
        measured = json.loads((self.folder / "t.json").read_text())
        plain = [f for f in self.FLAGS if f not in ("--format", "json", "--repeat", "1")]
        plain[plain.index("t.json")] = "p.json"
        code, _, err = execute([PROGRAM, "simulate", "--machine", "ideal", "-s", schedule, "-w", workers, *plain],
                               cwd=self.folder)
        self.assertEqual(code, 0, err)
        predicted = json.loads((self.folder / "p.json").read_text())
        self.assertEqual(measured["source"], "measured")
        self.assertEqual(measured["plan_hash"], predicted["plan_hash"])
        ours, theirs = list(times(measured)), list(times(predicted))
        self.assertEqual(len(ours), len(theirs))
        for task, (a, b) in enumerate(zip(ours, theirs)):
            for key in ("kind", "worker", "lane", "step", "needs"):
                self.assertEqual(a[key], b[key], task)
            self.assertGreaterEqual(a["start_ps"], 0, task)
            self.assertGreaterEqual(a["duration_ps"], 0, task)
            if a["kind"].startswith("attend"):
                self.assertGreater(a["duration_ps"], 0, task)
            if a["kind"] != "receive":
                for need in a["needs"]:  # of its own process, all of it
                    self.assertGreaterEqual(a["end_ps"], ours[need]["end_ps"], (task, need))
            else:
                [send] = a["needs"]
                self.assertEqual(ours[send]["kind"], "send")
                self.assertGreaterEqual(a["end_ps"] + slack_ps, ours[send]["start_ps"], (task, send))
        self.assertLess(max(t["end_ps"] for t in ours), 60e12, "of one run, not of clocks that differ")

    def test_all_tasks_of_all_ranks_are_in_one_timeline(self):
        for schedule, processes, workers in (("ring", 2, 4), ("zigzag", 4, 4), ("balanced", 3, 7)):
            with self.subTest(schedule=schedule, processes=processes):
                self.check(mpirun(processes, PROGRAM, "run", "-s", schedule, "-w", workers, *self.FLAGS), schedule,
                           workers)

    def test_hosts_whose_clocks_differ(self):
        apart = [shutil.which("unshare") or "unshare", "--time", "--monotonic", "3600", "--fork"]
        try:
            if execute([*apart, "true"])[0] != 0:
                self.skipTest("no time namespaces: they need root and Linux 5.6")
        except FileNotFoundError:
            self.skipTest("no unshare")
        run = [PROGRAM, "run", "-s", "balanced", "-w", "5", *self.FLAGS]
        for first, second in (([], apart), (apart, [])):
            self.check([*mpirun(1, *first, *run), ":", "-n", "2", *map(str, [*second, *run])], "balanced", 5,
                       slack_ps=2e9)  # half of the quickest message there and back, on a busy machine


class Exchanges(Case):
    """By MPI's own collectives, where each member is in a process of its own."""

    def run_of(self, schedule, *more, processes=4):
        return self.good(mpirun(processes, PROGRAM, "run", "-s", schedule, "-w", "4", "--pass", "both", *more,
                                *flags("--tokens 131 --check --repeat 3 --format json")))

    def test_each_is_the_collective_of_its_form(self):
        for schedule, by in (("ulysses", "6 exchanges by MPI_Ialltoallw"),
                             ("usp:ulysses=2:ring=zigzag:consecutive=ring", "12 exchanges by MPI_Ialltoallw"),
                             ("all-gather", "2 exchanges by MPI_Iallgatherv, 1 by MPI_Ireduce_scatter"),
                             ("all-gather:stride=1", "4 exchanges by MPI_Iallgatherv, 2 by MPI_Ireduce_scatter")):
            with self.subTest(schedule):
                got, other = self.run_of(schedule), self.run_of(schedule, "--mpi-exchanges", "messages")
                self.assertEqual(got["exchanges"], by)
                self.assertRegex(other["exchanges"], r"^\d+ exchanges by messages$")
                for one, two in zip(got["check"], other["check"], strict=True):
                    self.assertTrue(one["holds"] and two["holds"], (one, two))
                    if "reduce_scatter" not in by:  # MPI adds up in an order of its own
                        self.assertEqual(one, two)

    def test_members_in_one_process_send_messages(self):
        self.assertEqual(self.run_of("ulysses", processes=2)["exchanges"], "6 exchanges by messages")
        # Two groups of two; those of a group are in both processes.
        self.assertEqual(self.run_of("usp:ulysses=2:consecutive=ring", processes=2)["exchanges"], "12 exchanges by MPI_Ialltoallw")
        self.assertNotIn("exchanges", self.run_of("ring", processes=2))


class Refusals(Case):
    def refused(self, command, *words, times=1, **more):
        code, out, err = execute(command, cwd=self.folder, **more)
        self.assertEqual((code, out), (2, ""), err)
        # mpirun may put the line of one process into that of another.
        self.assertEqual(err.count("ringsched: "), times, err)
        for word in words:
            self.assertTrue(any(word in line for line in said(err)), err)

    def test_more_processes_than_workers(self):
        self.refused(mpirun(4, PROGRAM, "run", "-w", "3", *flags("--tokens 60")), "4 processes for 3 workers",
                     "use at most one process per worker", times=4)

    def test_processes_that_mean_different_things(self):
        run = [PROGRAM, "run", "-w", "4", *flags("--tokens 60")]
        for other, told in ((["--dtype", "fp32"], "the dtype: 'bf16' in process 0, 'fp32' in processes 1 and 2"),
                            (["-s", "ring"], "the schedule: 'balanced' in process 0, 'ring' in processes 1 and 2"),
                            (["--seed", "7"], "--seed: '1' in process 0, '7' in processes 1 and 2")):
            self.refused([*mpirun(1, *run), ":", "-n", "2", *map(str, [*run, *other])],
                         "the processes do not agree on " + told, times=3)

    def test_exchanges_that_are_no_matter_of_mpi(self):
        run = [PROGRAM, "run", "-w", "4", *flags("--tokens 60")]
        self.refused([*run, "--mpi-exchanges", "messages"], "--mpi-exchanges needs --transport mpi, but this run uses local")
        self.refused([*run, "--mpi-exchanges", "messages", "--transport", "tcp"], "--mpi-exchanges needs --transport mpi, not tcp")
        self.refused([*run, "--mpi-exchanges", "message"], "'message'", "did you mean messages?")
        self.refused([*mpirun(1, *run), ":", "-n", "2", *map(str, run), "--mpi-exchanges", "messages"],
                     "the processes do not agree on --mpi-exchanges: 'collectives' in process 0, 'messages' in processes 1 and 2",
                     times=3)

    def test_the_local_transport_under_mpirun(self):
        code, out, err = execute(mpirun(2, PROGRAM, "run", "-w", "2", "--transport", "local", *flags("--tokens 60")))
        self.assertEqual((code, out), (2, ""), err)
        # Each may say so before mpirun ends it: they have not met.
        self.assertIn("ringsched: mpirun started 2 processes, but --transport local runs in one process; use --transport mpi",
                      said(err))

    def test_one_process_under_mpirun_is_local(self):
        for more in ("", "--transport local", "--transport mpi"):
            self.good(mpirun(1, PROGRAM, "run", "-w", "2", *flags("--tokens 60 --format json"), *more.split()))

    def test_the_mpi_transport_without_mpirun(self):
        self.refused([PROGRAM, "run", "-w", "2", *flags("--tokens 60 --transport mpi")], "this is the only one", "mpirun -n N")

    def test_launchers_without_mpi(self):
        hint = "MPI finds only this one; use mpirun -n 3, srun --mpi=pmix or --transport tcp"
        where = "but the address of rank 0 is not set; give --master HOST:PORT, or set MASTER_ADDR"
        run = [PROGRAM, "run", "-w", "3", *flags("--tokens 60")]
        torch = {"RANK": "1", "WORLD_SIZE": "3"}
        self.refused(run, "torchrun started 3 processes", where, env=torch)
        self.refused([*run, "--transport", "mpi"], "torchrun started 3 processes", hint, env=torch)
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0", "SLURM_PROCID": "2",
                 "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "3", "SLURM_NODELIST": "here", "SLURM_NNODES": "1"}
        self.refused(run, "srun started 3 processes", where, env=slurm)
        self.refused([*run, "--transport", "mpi"], "srun started 3 processes", hint, env=slurm)
        self.refused([*run, "--transport", "local"], "srun started 3 processes", "--transport local", env=slurm)

    def test_flags_without_an_address(self):
        run = [PROGRAM, "run", "-w", "3", *flags("--tokens 60 --rank 1 --ranks 3")]
        self.refused(run, "ringsched: --ranks asks for 3 processes, but the address of rank 0 is not set; give --master")

    def test_a_job_of_one_task_is_no_refusal(self):
        self.good([PROGRAM, "run", "-w", "2", *flags("--tokens 60 --format json")],
                  env={"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "RANK": "0", "WORLD_SIZE": "1"})


if __name__ == "__main__":
    unittest.main(verbosity=1)
