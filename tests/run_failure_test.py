"""Runs that cannot finish: a process dies, stops, runs out of memory or time, meets a NaN,
or gets a signal. Every process must end soon, say what was pending, and leave
nothing behind except the times so far, marked as incomplete.

usage: run_failure_test.py path/to/ringsched
"""

import json
import os
import re
import signal
import sys
import time
import unittest

from mpi_job import PATIENCE, PROGRAM, SANITIZED, Case, Process, execute, mpirun, said, still_there

FAILED = 3
GRACE = 8  # seconds after the deadline, by which all must be over beside other tests
# Minutes of work that takes no time to set up, and little of which goes by between two looks at whether
# to go on. Sanitized programs need longer for both.
TOKENS = "32K" if SANITIZED else "128K"
LONG = f"--tokens {TOKENS} --heads 1 --kv-heads 1 --head-dim 64 --dtype fp32 --mask full --schedule ring".split()
SMALL = "--tokens 2000 --heads 4 --kv-heads 2 --head-dim 16".split()
PENDING = re.compile(r"task \d+ \(worker \d+, step \d+, [a-z_]+ of .*\), for [\d.]+ (us|ms|s)")


class Failures(Case):
    def command(self, workers, *more):
        return [PROGRAM, "run", "-w", workers, "--repeat", "1", "--no-chart", "--timeline", "t.json", *more]

    def over(self, job, since, deadline):
        """All processes end in time, and nothing is left of the run."""
        code = job.wait(PATIENCE)
        ended = time.time()
        # mpirun itself may take a little longer than the processes that it has started.
        last = max([at for _, at in job.noted("exit").values()], default=ended)
        self.assertLess(last - since, deadline + GRACE, job.stderr())
        self.assertLess(ended - since, deadline + GRACE + 2, job.stderr())
        self.assertEqual(still_there(self.folder), [])
        self.assertEqual(job.stdout(), "", "results of a run that failed")
        self.assertEqual([f.name for f in self.folder.iterdir() if f.name.startswith(".ringsched")], [])
        self.check_what_is_left(job)
        return code

    def check_what_is_left(self, job):
        """If anything is, it says that it is incomplete, and why."""
        file = self.folder / "t.json"
        told = re.findall(r"^ringsched: (?:.*; )?t\.json is incomplete: (\d+) of (\d+) tasks had ended$", job.stderr(), re.M)
        self.assertEqual(len(told), 1 if file.exists() else 0, job.stderr())
        if not told:
            return
        timeline = json.loads(file.read_text())
        unfinished, tasks = timeline.get("unfinished", []), timeline["tasks"]
        self.assertEqual((len(tasks) - len(unfinished), len(tasks)), tuple(map(int, told[0])))
        self.assertTrue(any(timeline["incomplete"] in line for line in said(job.stderr())), timeline["incomplete"])
        start, took = (timeline["columns"].index(c) for c in ("start_ps", "duration_ps"))
        for row in tasks:
            self.assertGreaterEqual(min(row[start], row[took]), 0)
        # What reads timelines knows.
        refused = execute([PROGRAM, "compare", file, file])
        self.assertEqual(refused[:2], (2, ""))
        self.assertIn("is incomplete", refused[2])
        if max(row[start] + row[took] for row in tasks) > 0:
            self.assertIn("\nINCOMPLETE, ", execute([PROGRAM, "render", file])[1])

    def codes(self, job):
        return {rank: code for rank, (code, _) in sorted(job.noted("exit").items())}

    def ended_by_mpirun(self, job, ranks):
        """What these ended with: mpirun kills all that are left when the first has ended, so perhaps not all."""
        codes = self.codes(job)
        ends = {codes[rank] for rank in ranks if rank in codes}
        self.assertIn(FAILED, ends, job.stderr())
        self.assertLessEqual(ends, {FAILED, -signal.SIGKILL}, job.stderr())
        for rank in ranks:  # but all have said what was pending
            self.assertIn("stopped by signal 15; pending: ", self.line_of(job, rank))
            self.assertRegex(self.line_of(job, rank), PENDING)

    def line_of(self, job, rank):
        """What a process said, which must be one line."""
        file = job.folder / f"{rank}.stderr"
        text = file.read_text() if file.exists() else job.stderr()
        lines = [line for line in said(text) if line.startswith(f"ringsched: process {rank}: ")]
        self.assertEqual(len(lines), 1, job.stderr())
        return lines[0]

    def started(self, processes, workers, *more):
        job = self.job(mpirun(processes, *self.wrapped(*self.command(workers, *more))))
        ranks = job.ranks(processes)
        job.until_running(ranks, workers // processes)
        return job, ranks

    def test_a_process_is_killed(self):
        job, ranks = self.started(3, 6, *LONG, "--deadline", "60")
        ranks[1].kill(signal.SIGKILL)
        code = self.over(job, time.time(), 0)  # nobody has to wait for the deadline
        self.assertEqual(code, 128 + signal.SIGKILL, "of mpirun itself")
        self.ended_by_mpirun(job, (0, 2))

    def test_a_process_is_killed_and_the_network_tells(self):
        job = self.job(mpirun(2, *self.wrapped(*self.command(8, *LONG, "--deadline", "60")),
                              options=["--mca", "btl", "self,tcp", "--mca", "pml", "ob1"]))
        ranks = job.ranks(2)
        job.until_running(ranks, 4)
        ranks[0].kill(signal.SIGKILL)
        self.assertEqual(self.over(job, time.time(), 0), 128 + signal.SIGKILL)
        self.ended_by_mpirun(job, (1,))

    def test_a_process_is_stopped(self):
        # Short steps, so that long before the deadline all wait for one; sanitized programs compute slowly.
        tokens = "16K" if SANITIZED else "64K"
        steps = [tokens if word == TOKENS else word for word in LONG]
        job, ranks = self.started(2, 8, *steps, "--deadline", "8")
        ranks[1].kill(signal.SIGSTOP)
        since = time.time()
        self.assertEqual(self.over(job, since, 8), FAILED)
        self.assertEqual(self.codes(job)[0], FAILED)
        line = self.line_of(job, 0)
        self.assertIn("not finished after 8.00 s; pending: ", line)
        # The first to wait for it is its neighbour in the ring, in the group in which it passes on what it has.
        self.assertRegex(line, r"\(worker 0, step \d+, (receive of .* from worker 7 of process 1|send of .* to worker 1)\)")

    # Every worker has one attend, of a second or more, between collectives of MPI.
    IN_EXCHANGE = ["--schedule", "ulysses", "--tokens", "4K" if SANITIZED else "20K", "--heads", "3", "--kv-heads", "3",
                   "--head-dim", "64", "--dtype", "fp32", "--mask", "full"]

    def test_a_process_is_stopped_that_others_await_in_a_collective(self):
        job, ranks = self.started(3, 3, *self.IN_EXCHANGE, "--deadline", "10")
        ranks[2].kill(signal.SIGSTOP)
        self.assertEqual(self.over(job, time.time(), 10), FAILED)
        line = self.line_of(job, 0)
        self.assertIn("not finished after 10.0 s; pending: ", line)
        self.assertRegex(line, r"\(worker 0, step 1, exchange of rounded_partial .*, waiting for .*worker 2 of process 2\)")

    def test_a_process_is_killed_among_collectives(self):
        many = ["--schedule", "all-gather", "--pass", "both", *SMALL, "--repeat", "10000", "--deadline", "60"]
        job = self.job(mpirun(3, *self.wrapped(*[x for x in self.command(3) if x not in ("--repeat", "1")], *many)))
        ranks = job.ranks(3)
        job.until_running(ranks, 1)
        ranks[1].kill(signal.SIGKILL)
        self.assertEqual(self.over(job, time.time(), 0), 128 + signal.SIGKILL)

    def test_a_process_never_comes(self):
        job = self.job([*mpirun(1, *self.wrapped(*self.command(2, *SMALL, "--deadline", "1"))), ":", "-n", "1",
                        "sleep", "600"])
        job.ranks(1)
        self.assertEqual(self.over(job, time.time(), 1), FAILED)
        self.assertEqual(self.codes(job), {0: FAILED})
        self.assertIn("(--deadline) while looking for the other processes", self.line_of(job, 0))

    def test_mpirun_is_told_to_end(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), self.own_folder():
                job, ranks = self.started(2, 4, *LONG, "--deadline", "60")
                os.kill(job.process.pid, number)
                self.assertNotEqual(self.over(job, time.time(), 0), 0)
                self.ended_by_mpirun(job, (0, 1))

    def test_one_process_is_told_to_end(self):
        job, ranks = self.started(2, 4, *LONG, "--deadline", "60")
        ranks[1].kill(signal.SIGTERM)
        self.assertEqual(self.over(job, time.time(), 0), FAILED)
        self.assertEqual(self.codes(job)[1], FAILED)
        self.ended_by_mpirun(job, (0, 1))

    def test_a_number_that_is_none(self):
        for schedule in ("ring", "balanced"):
            nan = self.command(4, *SMALL, "--schedule", schedule, "--inputs", "nan", "--check-finite", "--deadline", "60")
            for processes in (1, 2, 4):
                with self.subTest(schedule=schedule, processes=processes), self.own_folder():
                    since = time.time()
                    job = self.job(mpirun(processes, *self.wrapped(*nan)) if processes > 1 else nan)
                    code = self.over(job, since, 0)
                    self.assertEqual(code, FAILED)
                    if processes > 1:
                        self.assertIn(FAILED, self.codes(job).values())
                        self.assertLessEqual(set(self.codes(job).values()), {FAILED, -signal.SIGKILL})
                    told = [line for line in said(job.stderr()) if "produced a number that is not finite" in line]
                    self.assertTrue(told, job.stderr())
                    self.assertRegex(told[0], r"task \d+ \(worker \d, step \d, [a-z_]+ of .*\): ")

    def test_numbers_that_are_none_go_through_unasked(self):
        job = self.job([PROGRAM, "run", "-w", "4", *SMALL, "--repeat", "1", "--no-chart", "--inputs", "nan"])
        self.assertEqual(job.wait(PATIENCE), 0)

    @unittest.skipIf(SANITIZED, "sanitizers map terabytes")
    def test_a_process_has_too_little_memory(self):
        # Of the second process, KiB: too little for its workers, which take 2 x 300 MiB each.
        script = self.folder / "limited"
        script.write_text('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && ulimit -v $1\nshift\nexec "$@"\n')
        script.chmod(0o755)
        big = ["--tokens", "16K", "--heads", "16", "--kv-heads", "16", "--head-dim", "128", "--dtype", "fp32"]
        since = time.time()
        job = self.job(mpirun(2, *self.wrapped(script, "700000", *self.command(4, *big, "--deadline", "60"))))
        self.assertEqual(self.over(job, since, 10), FAILED)
        self.assertEqual(self.codes(job)[1], FAILED)
        self.assertRegex(self.line_of(job, 1), r"worker [23]: cannot allocate [\d.]+ MiB for its tensors|out of memory")

    @unittest.skipIf(SANITIZED, "sanitizers map terabytes")
    def test_links_are_measured_with_too_little_memory(self):
        code, out, err = execute(["sh", "-c", 'ulimit -v 200000; exec "$0" bench-links -e 64M -n 1', PROGRAM])
        self.assertEqual((code, out, err), (FAILED, "", "ringsched: out of memory\n"))

    def test_too_little_time(self):
        for processes in (1, 2):
            with self.subTest(processes=processes), self.own_folder():
                command = self.command(4, *LONG, "--deadline", "2")
                since = time.time()
                job = self.job(mpirun(processes, *self.wrapped(*command)) if processes > 1 else command)
                # Making the inputs is a phase of its own, with a deadline of its own.
                self.assertEqual(self.over(job, since, 4), FAILED)
                if "(--deadline) while waiting for the other processes" in job.stderr():
                    continue  # a busy machine: one of them began later than the other could wait
                for rank in range(processes):
                    line = self.line_of(job, rank) if processes > 1 else said(job.stderr())[0]
                    if rank == 0:
                        self.assertIn("not finished after 2.00 s; pending: ", line)
                    self.assertRegex(line, PENDING)

    def test_a_local_run_is_told_to_end(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), self.own_folder():
                job = self.job(self.command(4, *LONG, "--deadline", "60"))
                process = self.local(job)
                job.until_running([process], 4)
                process.kill(number)
                self.assertEqual(self.over(job, time.time(), 0), FAILED)
                line, left = said(job.stderr())
                self.assertIn("t.json is incomplete", left)
                self.assertIn(f"stopped by signal {int(number)}; pending: ", line)
                self.assertRegex(line, PENDING)

    def test_what_is_to_be_ignored_is(self):
        """As nohup has it: the hang-up does nothing, and the run ends as it would have."""
        command = self.command(4, *LONG, "--deadline", "2")
        job = self.job([sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
                        "os.execv(sys.argv[1], sys.argv[1:])", *command])
        process = self.local(job)
        job.until(lambda: still_there(self.folder), "the program was there")
        job.until_running([process], 4)
        process.kill(signal.SIGHUP)
        self.assertEqual(self.over(job, time.time(), 2), FAILED)
        self.assertIn("not finished after 2.00 s", job.stderr())

    def test_told_to_end_while_checking(self):
        job = self.job([*self.command(2, "--tokens", "6000", "--heads", "8", "--head-dim", "128"), "--check", "--check-rows",
                        "6000", "--deadline", "60"])
        process = self.local(job)
        # The run is short and has threads; what computes for long without them, and after them, is the check.
        job.until(lambda: process.threads() > 2, "the run had begun")
        alone = []

        def for_long():
            alone.append(process.threads() <= 2)
            return len(alone) >= 50 and all(alone[-50:])
        job.until(for_long, "the check had begun")
        process.kill(signal.SIGTERM)
        self.assertEqual(self.over(job, time.time(), 0), FAILED)
        self.assertIn("stopped by signal 15 while checking its numbers", job.stderr())

    def test_a_file_that_cannot_be_written(self):
        """It is said once, and the run has come to its end all the same: it is shown, and its timeline is whole."""
        for name in ("p.svg", "p.json"):
            (self.folder / name).symlink_to("/dev/full")
        for more, file in ((["--gantt", "p.svg"], "p.svg"), (["--trace", "p.json"], "p.json"),
                           (["--timeline", "/dev/full"], "/dev/full")):
            with self.subTest(file):
                flags = more if "--timeline" in more else ["--timeline", "t.json", *more]
                code, out, err = execute([PROGRAM, "run", "-w", "2", "--repeat", "1", "--no-chart", *SMALL, *flags],
                                         cwd=self.folder)
                self.assertEqual(code, FAILED)
                self.assertIn("\nmakespan  ", out)
                self.assertEqual(err, f"ringsched: cannot write {file}: No space left on device\n")
                if "--timeline" not in more:
                    self.assertNotIn("incomplete", json.loads((self.folder / "t.json").read_text()))

    def local(self, job):
        return Process(job.process.pid)


if __name__ == "__main__":
    unittest.main(verbosity=1)
