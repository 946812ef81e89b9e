"""Runs over several processes that meet by themselves, as torchrun or a shell starts them: correct numbers,
one clear line from each if they do not fit together, and all end in time if one of them fails.

usage: multi_process_test.py path/to/ringsched
"""

import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import sys
import time
import unittest

from lying_proxy import LyingProxy
from mpi_job import PROGRAM, SANITIZED, WHOLE, WRITE_EXCHANGE_PLANS, Case, execute, flags
from multi_process_job import Processes, free_port, torchrun_variables
from multi_process_soak import Hosts, soak

SCHEDULES = ("ring", "striped", "zigzag", "balanced", "balanced-split")
FAILED, BAD = 3, 2
GRACE = 8  # seconds after the deadline, beside other tests
TOKENS = "32K" if SANITIZED else "128K"  # sanitized programs compute slowly
LONG = (f"run -w 6 --tokens {TOKENS} --heads 1 --kv-heads 1 --head-dim 64 --dtype fp32 --mask full --schedule ring --repeat 1 "
        "--no-chart").split()


def problem(text):
    return ["run", *flags(text)]


class Runs(Case):
    def processes(self):
        p = Processes(self.folder)
        self.addCleanup(p.close)
        return p

    def good(self, p):
        """What process 0 prints, if all is well on each."""
        self.assertTrue(p.wait(), "not all have ended")
        for rank, one in enumerate(p.all):
            self.assertEqual((one.code, one.said()), (0, []), f"{rank}: {one.stderr()}")
            if rank > 0:
                self.assertEqual(one.stdout(), "")
        return p.all[0].stdout()


class Numbers(Runs):
    def test_every_schedule_computes_what_it_should(self):
        for n, (schedule, which, dtype, ranks, workers) in enumerate(
                (s, w, d, r, r + (i + k) % 4) for i, s in enumerate(SCHEDULES)
                for k, (w, d, r) in enumerate((("forward", "bf16", 2), ("both", "fp32", 3), ("both", "bf16", 4)))
                if not SANITIZED or i % 3 == k):  # each schedule once
            with self.subTest(schedule=schedule, which=which, dtype=dtype, ranks=ranks, workers=workers):
                p, tokens = self.processes(), 60 + 17 * workers
                p.ranks(ranks, *problem(f"-s {schedule} -w {workers} --pass {which} --dtype {dtype} --tokens {tokens} --check "
                                        "--repeat 2 --format json"))
                got = json.loads(self.good(p))
                self.assertEqual((got["workers"], got["transport"], got["processes"], got["launcher"], got["launched_by"]),
                                 (workers, "tcp", ranks, "torchrun", "RANK and WORLD_SIZE"))
                self.assertEqual(got["clock_error_us"], 0)  # of one machine
                self.assertEqual(len(got["check"]), 2 if which == "forward" else 5)
                for one in got["check"]:
                    self.assertTrue(one["holds"], one)
                    self.assertEqual(one["rows"], tokens * (2 if one["name"] in ("key gradient", "value gradient") else 4))

    @unittest.skipIf(not WRITE_EXCHANGE_PLANS, "ctest says what writes the plans")
    def test_random_plans_with_exchanges(self):
        count = 20 if WHOLE else 4
        execute([WRITE_EXCHANGE_PLANS, self.folder, "random", 8, count])
        for number in range(count):
            file = self.folder / f"random-{number}.json"
            workers = json.loads(file.read_text())["problem"]["workers"]
            with self.subTest(file.name):
                p = self.processes()
                p.ranks(1 + number % workers, "run", file.name, *"--check --repeat 2 --no-chart --format json".split())
                for one in json.loads(self.good(p))["check"]:
                    self.assertTrue(one["holds"], one)
                    self.assertEqual(one["rows"], one["rows_in_all"])

    def test_large_messages(self):
        p = self.processes()
        p.ranks(3, *"run -w 6 -s zigzag --tokens 24K --heads 8 --head-dim 64 --dtype fp32 --mask window:512 --check --check-rows 20 "
                "--repeat 2 --format json --timeline t.json --no-chart".split())
        self.assertTrue(all(one["holds"] for one in json.loads(self.good(p))["check"]))
        timeline = json.loads((self.folder / "t.json").read_text())
        self.assertNotIn("incomplete", timeline)

    @unittest.skipIf(SANITIZED, "takes long")
    def test_a_check_may_take_longer_than_the_deadline(self):
        """Rank 1 looks at rows three times as long, and is at it for seconds when rank 0 has done."""
        p = self.processes()
        p.ranks(2, *"run -w 2 -s ring --tokens 6K --heads 1 --repeat 1 --check --check-rows 1000000 --deadline 3".split())
        self.assertIn("all 6,144", self.good(p))

    def test_flags_and_a_secret(self):
        p, port = self.processes(), free_port()
        for rank in (2, 0, 1):
            p.start(problem(f"-w 3 --tokens 60 --check --rank {rank} --ranks 3 --master localhost:{port}"),
                    {"RINGSCHED_SECRET": "of this test", "RANK": "7", "WORLD_SIZE": "9"})
        p.all.insert(0, p.all.pop(1))
        self.assertIn("3 workers in 3 processes over tcp (set by --rank and --ranks)", self.good(p))

    def test_one_process_is_alone(self):
        for more in ([], ["--transport", "tcp"]):
            p = self.processes()
            p.ranks(1, *problem("-w 3 --tokens 60 --check --format json"), *more)
            self.assertEqual(json.loads(self.good(p))["transport"], "local")

    def test_in_place_of_mpi_under_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun")
        from mpi_job import mpirun
        code, out, err = execute(mpirun(3, PROGRAM, *problem(f"-w 4 --tokens 99 --check --transport tcp --format json --master "
                                                             f"127.0.0.1:{free_port()}")))
        self.assertEqual(code, 0, err)
        self.assertEqual([json.loads(out)[key] for key in ("transport", "processes", "launcher")], ["tcp", 3, "mpirun"])

    def test_across_hosts(self):
        hosts = Hosts()
        if not hosts.there:
            self.skipTest("network namespaces need root and ip (Debian: iproute2)")
        self.addCleanup(hosts.close)
        for schedule in ("zigzag", "balanced"):
            p, port = self.processes(), free_port()
            for rank in range(4):
                p.start(problem(f"-s {schedule} -w 6 --tokens 200 --pass both --check --format json"),
                        {**torchrun_variables(rank, 4, port, "10.78.0.1"), "RINGSCHED_SECRET": "s"}, hosts.inside(rank // 2))
            got = json.loads(self.good(p))
            self.assertEqual(len(got["check"]), 5)
            self.assertTrue(all(one["holds"] for one in got["check"]), got["check"])
        code, _, err = execute([*hosts.inside(1), PROGRAM, *problem("-w 2 --tokens 60 --deadline 1 --rank 1 --ranks 2 --master "
                                                                    "10.78.0.9:29500")])  # nobody has that address
        self.assertEqual(code, FAILED)
        self.assertIn("process 0 was not found at 10.78.0.9:29500 within 1.00 s", err)

    def test_clocks_that_differ(self):
        apart = [shutil.which("unshare") or "unshare", "--time", "--monotonic", "3600", "--fork", "--kill-child"]
        try:
            if execute([*apart, "true"])[0] != 0:
                self.skipTest("no time namespaces: they need root and Linux 5.6")
        except FileNotFoundError:
            self.skipTest("no unshare")
        p, port = self.processes(), free_port()
        for rank, before in enumerate(([], apart, [])):
            p.start(problem("-s balanced -w 5 --tokens 200 --pass both --timeline t.json --format json"),
                    torchrun_variables(rank, 3, port), before)
        got = json.loads(self.good(p))
        self.assertGreater(got["clock_error_us"], 0)
        self.assertLess(got["clock_error_us"], 50e3)
        timeline = json.loads((self.folder / "t.json").read_text())
        start, took, needs, kind = (timeline["columns"].index(c) for c in ("start_ps", "duration_ps", "needs", "kind"))
        for row in timeline["tasks"]:
            self.assertGreaterEqual(min(row[start], row[took]), 0)
            if timeline["kinds"][row[kind]] == "receive":
                sent = timeline["tasks"][row[needs][0]][start]
                self.assertGreater(row[start] + row[took] + 2 * got["clock_error_us"] * 1e6 + 1e9, sent)
        self.assertLess(max(row[start] + row[took] for row in timeline["tasks"]), 60e12)


class Refusals(Runs):
    def ends(self, p, deadline, *words, codes=(BAD, FAILED)):
        """Each process ends in time, with one line of its own that has these words."""
        began = min(one.began for one in p.all)
        self.assertTrue(p.wait(), "not all have ended")
        for one in p.all:
            self.assertLess(one.ended - began, deadline + GRACE)
            self.assertIn(one.code, codes, one.stderr())
            self.assertEqual(one.stdout(), "")
            own = [line for line in one.said() if re.match(r"ringsched: (?!\d|all \d|process 0 refused )", line)]
            self.assertEqual(len(own), 1, one.stderr())
            for word in words:
                self.assertIn(word, own[0])

    def test_too_few_come(self):
        p = self.processes()
        p.ranks([0, 2], *problem("-w 4 --tokens 60 --deadline 1"), size=4)
        self.ends(p, 1, "processes 1, 3 did not connect to 127.0.0.1:", "within 1.00 s", codes=(FAILED,))

    def test_two_have_one_number(self):
        p, port = self.processes(), free_port()
        p.ranks([0, 1, 1], *problem("-w 4 --tokens 60 --deadline 60"), size=4, port=port)
        self.ends(p, 0, "two processes say that they are process 1: ", f"pid {p.all[1].pid}", f"pid {p.all[2].pid}", codes=(BAD,))

    def test_two_numbers_of_processes(self):
        p, port = self.processes(), free_port()
        p.ranks([0], *problem("-w 4 --tokens 60 --deadline 60"), size=2, port=port)
        p.ranks([1], *problem("-w 4 --tokens 60 --deadline 60"), size=3, port=port)
        self.ends(p, 0, "is one of 3, and process 0 one of 2", codes=(BAD,))

    def test_nobody_is_there(self):
        p = self.processes()
        p.ranks([1, 2], *problem("-w 4 --tokens 60 --deadline 1"), size=3)
        self.ends(p, 1, "process 0 was not found at 127.0.0.1:", "within 1.00 s: Connection refused", codes=(FAILED,))

    def test_no_such_host(self):
        p = self.processes()
        p.ranks([1], *problem("-w 4 --tokens 60 --deadline 1"), size=2, env={"MASTER_ADDR": "no-such-host.invalid"})
        self.ends(p, 1, "was not found at no-such-host.invalid:", "within 1.00 s: no-such-host.invalid: ", codes=(FAILED,))

    def test_the_port_is_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            p = self.processes()
            p.ranks([0], *problem("-w 4 --tokens 60 --deadline 60"), size=2, port=port)
            self.ends(p, 0, f"cannot listen at 127.0.0.1:{port}: Address already in use", codes=(FAILED,))

    def test_somebody_else_has_the_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            p = self.processes()
            p.ranks([1], *problem("-w 4 --tokens 60 --deadline 60"), size=2, port=taken.getsockname()[1])
            connection, _ = taken.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.ends(p, 0, "is not a ringsched process 0: it is not a ringsched message: 'HTTP/1.1 400", codes=(FAILED,))
            connection.close()

    def test_an_address_of_another_machine(self):
        p = self.processes()
        p.ranks([0], *problem("-w 4 --tokens 60 --deadline 60"), size=2, env={"MASTER_ADDR": "192.0.2.1"})
        self.ends(p, 0, "cannot listen at 192.0.2.1:", "Cannot assign requested address", codes=(FAILED,))

    def test_another_secret(self):
        p, port = self.processes(), free_port()
        for rank, secret in enumerate(("one", "other")):
            p.ranks([rank], *problem("-w 4 --tokens 60 --deadline 1"), size=2, port=port, env={"RINGSCHED_SECRET": secret})
        self.assertTrue(p.wait())
        self.assertEqual([one.code for one in p.all], [FAILED, BAD])
        self.assertIn("has another secret (RINGSCHED_SECRET) than this process", p.all[1].stderr())
        self.assertRegex(p.all[0].stderr(), r"process 1 did not connect .*; a process that claims to be process 1 was refused: .* before "
                                            r"it proved that it knows the secret")

    def test_a_secret_that_process_zero_has_not(self):
        p, port = self.processes(), free_port()
        p.ranks([0, 2], *problem("-w 4 --tokens 60 --deadline 60"), size=3, port=port)
        p.ranks([1], *problem("-w 4 --tokens 60 --deadline 60"), size=3, port=port, env={"RINGSCHED_SECRET": "s"})
        self.ends(p, 0, "process 1 (", "has a secret (RINGSCHED_SECRET), and process 0 has none", codes=(BAD,))

    def test_late(self):
        """Bad input of the one that is late, if the run is well; if the run has failed, it fails, too."""
        p, port = self.processes(), free_port()
        p.ranks(3, *LONG, "--deadline", "60", port=port)
        p.computing(0.5)
        p.ranks([1], *LONG, "--deadline", "60", size=3, port=port)
        self.assertTrue(p.wait([p.all[3]]))
        self.assertEqual((p.all[3].code, len(p.all[3].said())), (BAD, 1), p.all[3].stderr())
        self.assertIn("all 3 processes are there; does another run use 127.0.0.1:", p.all[3].stderr())
        self.assertFalse(any(one.over() for one in p.all[:3]))
        p.all[1].kill()
        self.assertTrue(p.wait([p.all[1]]))
        p.ranks([1], *LONG, "--deadline", "1", size=3, port=port)  # while the others say their last words, or later
        self.assertTrue(p.wait())
        self.assertEqual([p.all[n].code for n in (0, 2, 4)], [FAILED] * 3, p.all[4].stderr())
        self.assertRegex(p.all[4].stderr(), r"^ringsched: process 1: process 0 .*(is gone|was not found at ).*\n$")

    def test_few_open_files(self):
        """Whatever the limit is too low for, the reason is said, and once."""
        told = r"Too many open files|takes \d+ open files, and this process may have \d+; raise the limit \(ulimit -n\)$"
        p = self.processes()
        for files in range(8, 48):
            p.start(problem("-w 2 --tokens 60 --deadline 1"), torchrun_variables(0, 2, free_port()),
                    ["sh", "-c", 'ulimit -n $1; shift; exec "$@"', "sh", files])
        self.assertTrue(p.wait())
        limited = 0
        for one in p.all:
            [line] = one.stderr().splitlines()
            self.assertEqual((one.code, one.stdout()), (FAILED, ""), line)
            if "process 1 did not connect" not in line:
                self.assertRegex(line, told)
                limited += 1
        self.assertGreater(limited, 5)
        self.assertLess(limited, len(p.all))

    def test_half_of_what_torchrun_leaves(self):
        for env, told in (({"RANK": "1"}, "RANK is '1', but WORLD_SIZE (the number of processes) is not set"),
                          ({"WORLD_SIZE": "4"}, "WORLD_SIZE is '4', but RANK (the index of this process) is not set")):
            for command in (["run", *flags("-w 2 --tokens 60")], ["bench-links"], ["calibrate", "-o", "c.toml"]):
                code, out, err = execute([PROGRAM, *command], env=env, cwd=self.folder)
                self.assertEqual((code, out, err.count("\n")), (BAD, "", 1), err)
                self.assertIn(told, err)

    def test_the_same_written_otherwise(self):
        p, port = self.processes(), free_port()
        for rank, numbers in enumerate(("--seed 1K --repeat 2 --check-rows 1K", "--seed 1024 --repeat 02 --check-rows 1024")):
            p.ranks([rank], *problem(f"-w 4 --tokens 60 --check --deadline 60 {numbers}"), size=2, port=port)
        self.good(p)

    def test_wrong_flags_are_bad_input_on_each(self):
        """Also on those that hear meanwhile that others have given up."""
        for _ in range(5):
            p = self.processes()
            p.ranks(3, *problem("-w 6 --tokens nope --deadline 60"))
            self.ends(p, 0, "--tokens is 'nope'", codes=(BAD,))

    def test_processes_that_mean_different_things(self):
        for other, told in ((["--dtype", "fp32"], "on the dtype: 'bf16' in processes 0 and 2, 'fp32' in process 1"),
                            (["--mask", "full"], "on the problem: '60 tokens, 4 heads"),
                            (["--overlap", "none"], "on the plan's hash: '"),
                            (["--check"], "on --check: 'no' in processes 0 and 2, 'yes' in process 1"),
                            (["--check-finite"], "on --check-finite: 'no' in processes 0 and 2, 'yes' in process 1")):
            with self.subTest(other):
                p, port = self.processes(), free_port()
                for rank in range(3):
                    p.ranks([rank], *problem("-w 4 --tokens 60 --deadline 60"), *(other if rank == 1 else []), size=3, port=port)
                self.ends(p, 0, "the processes do not agree ", told, codes=(BAD,))

    def test_more_processes_than_workers(self):
        p = self.processes()
        p.ranks(4, *problem("-w 3 --tokens 60 --deadline 60"))
        self.ends(p, 0, "4 processes for 3 workers; use at most one process per worker", codes=(BAD,))

    def test_one_cannot_begin(self):
        (self.folder / "p.json").write_text("{}")
        p, port = self.processes(), free_port()
        p.ranks([0], *problem("-w 4 --tokens 60 --deadline 60"), size=2, port=port)
        p.ranks([1], "run", "p.json", "--deadline", "60", size=2, port=port)
        self.assertTrue(p.wait())
        self.assertEqual([one.code for one in p.all], [BAD, BAD])
        self.assertIn("process 1 gave up: p.json: ", p.all[0].stderr())

    def through_liar(self, liar, number, lie):
        """Two processes. What that one tells in round `number` is replaced, for process 0 as process 1 hears it. Rounds;
        whether all have ended for that."""
        port, p = free_port(), Processes(self.folder)
        proxy = LyingProxy(port, liar, number, lie)
        try:
            for rank, at in enumerate((port, proxy.port)):
                p.start(problem(f"-w 4 --tokens 64 --pass both --check --deadline 30 --rank {rank} --ranks 2 "
                                f"--master 127.0.0.1:{at}"), {})
            self.assertTrue(p.wait(), "not all have ended")
            refused = p.all[1].code != 0 and "do not agree" not in p.all[1].stderr()
            if refused:
                self.ends(p, 0, f"process {liar} sent ", " that cannot be read", codes=(FAILED,))
            return proxy.told, refused
        finally:
            p.close()
            proxy.close()

    def test_lies(self):
        """Where it matters what a process tells the others, other bytes end all of them, and it is named."""
        lies = (b"x", bytes(range(256)) * 3)
        # Refused: what the run is, addresses, times, results; when it begins. Nothing means that a check goes on.
        for liar, least, more in ((0, 5, ()), (1, 4, (b"",))):
            refused, number, rounds = set(), 0, 1
            while number < rounds + 1:  # as many as the longest run had, and one more
                for lie in (*lies, *more):
                    with self.subTest(liar=liar, number=number, lie=lie[:1]):
                        told, ended = self.through_liar(liar, number, lie)
                        rounds = max(rounds, told)
                        if ended:
                            refused.add(number)
                number += 1
            self.assertGreaterEqual(len(refused), least, refused)

    def test_results_that_cannot_be_written(self):
        p = self.processes()
        p.ranks(2, *problem("-w 4 --tokens 60 --timeline /dev/full/t.json --deadline 60"))
        self.ends(p, 0, "/dev/full", codes=(BAD,))


class Failures(Runs):
    def failed(self, p, since, deadline, ranks):
        """What these said, each its own line."""
        self.assertTrue(p.wait([p.all[r] for r in ranks]), "not all have ended")
        lines = {}
        for rank in ranks:
            one = p.all[rank]
            self.assertEqual(one.code, FAILED, one.stderr())
            self.assertLess(one.ended - since, deadline + GRACE)
            [lines[rank]] = [line for line in one.said() if line.startswith(f"ringsched: process {rank}: ")]
            self.assertRegex(lines[rank], r"pending: task \d+ \(worker \d, step \d+, [a-z_]+ of .*\), for [\d.]+ (us|ms|s)")
        return lines

    def left(self, p, *words):
        """Process 0 says once what became of all, and the timeline says that it is incomplete."""
        [summary] = [line for line in p.all[0].said() if re.match(r"ringsched: (all 3 processes have|3 processes: \d)", line)]
        for word in words:
            self.assertIn(word, summary)
        self.assertRegex(summary, r"t\.json is incomplete: \d+ of \d+ tasks had ended")
        timeline = json.loads((self.folder / "t.json").read_text())
        self.assertIn(timeline["incomplete"], p.all[0].stderr())
        return timeline

    def started(self, deadline):
        p = self.processes()
        p.ranks(3, *LONG, "--deadline", deadline, "--timeline", "t.json")
        p.computing(0.5)  # of which its inputs take up to 0.3, where processors are slow
        return p

    def test_a_process_is_killed(self):
        p, since = self.started(60), time.monotonic()
        p.all[1].kill()
        lines = self.failed(p, since, 0, (0, 2))
        for line in lines.values():
            self.assertRegex(line, r"process 1 (\(.*\) )?is gone: its connection (for messages )?(closed|broke)")
        timeline = self.left(p, "1 is gone (its connection ", "0, 2 have stopped")
        worker, took, start = (timeline["columns"].index(c) for c in ("worker", "duration_ps", "start_ps"))
        of = {row[worker] for row in timeline["tasks"] if row[took] > 0}
        self.assertTrue({0, 1, 4, 5} >= of and of & {4, 5}, of)  # of process 2, too, and not of process 1
        unfinished = set(timeline["unfinished"])
        for task, row in enumerate(timeline["tasks"]):
            if row[worker] in (2, 3):
                self.assertIn(task, unfinished)

    @unittest.skipIf(not WRITE_EXCHANGE_PLANS, "ctest says what writes the plans")
    def test_a_process_is_killed_that_others_await_in_an_exchange(self):
        execute([WRITE_EXCHANGE_PLANS, self.folder, "ulysses", 6, 3000 if SANITIZED else 24000, 6])
        for _ in range(3):
            p = self.processes()
            p.ranks(3, *"run ulysses.json --repeat 1 --no-chart --deadline 60 --timeline t.json".split())
            p.computing(0.5)
            stopped = time.monotonic()
            p.all[2].kill(signal.SIGSTOP)
            p.waiting([p.all[0], p.all[1]])
            since = time.monotonic()
            if since - stopped < 10:
                break
            for one in p.all:  # on a busy machine the others would notice its silence first
                one.kill()
        else:
            self.fail(f"too busy a machine: in each of three runs, the others took over 10 s until they waited ({since - stopped:.0f} s)")
        p.all[2].kill()
        for line in self.failed(p, since, 0, (0, 1)).values():
            self.assertRegex(line, r"process 2 (\(.*\) )?is gone: its connection (for messages )?(closed|broke)")
            self.assertRegex(line, r"step 1, exchange of rounded_partial result of chunk \d, waiting for worker 4 of process 2, worker 5 of process 2\)")
        self.left(p, "2 is gone (its connection ", "0, 1 have stopped")

    def test_process_zero_is_killed(self):
        p, since = self.started(60), time.monotonic()
        p.all[0].kill()
        for line in self.failed(p, since, 0, (1, 2)).values():
            self.assertRegex(line, r"process 0 (\(which keeps the store at .*\) )?is gone: its connection")

    def test_a_process_is_stopped(self):
        p, since = self.started(4), time.monotonic()
        p.all[2].kill(signal.SIGSTOP)
        self.failed(p, since, 4, (0, 1))
        self.left(p, "0, 1 have stopped", "2")
        p.all[2].kill(signal.SIGCONT)  # and it ends, too
        self.failed(p, time.monotonic(), 0, (2,))

    def test_process_zero_is_stopped(self):
        p, since = self.started(3), time.monotonic()
        p.all[0].kill(signal.SIGSTOP)
        self.failed(p, since, 3, (1, 2))
        p.all[0].kill(signal.SIGCONT)
        self.failed(p, time.monotonic(), 0, (0,))

    def test_a_process_is_told_to_end(self):
        p, since = self.started(60), time.monotonic()
        p.all[1].kill(signal.SIGTERM)
        lines = self.failed(p, since, 0, (0, 1, 2))
        self.assertIn("stopped by signal 15; pending", lines[1])
        for rank in (0, 2):
            self.assertIn("process 1 gave up: stopped by signal 15; pending", lines[rank])
        self.left(p, "all 3 processes have stopped")

    def test_measured_links_are_told_to_end(self):
        """Process 0 hears of its own end from the store, and says it once all the same."""
        p = self.processes()
        p.ranks(2, "bench-links", "-b", "1M", "-e", "128M", "-f", "2", "--deadline", "60")
        p.computing()
        p.all[0].kill(signal.SIGTERM)
        self.assertTrue(p.wait())
        for rank, why in enumerate(("stopped by signal 15", "process 0 gave up: stopped by signal 15")):
            self.assertEqual(p.all[rank].code, FAILED)
            [line] = p.all[rank].said()
            self.assertTrue(line.startswith((f"ringsched: process {rank}: {why} while ", f"ringsched: process {rank}: {why}, still ")), line)

    def test_deadlines_that_are_none(self):
        for command in (["run"], ["bench-links"], ["calibrate", "-o", "c.toml"]):
            for seconds in ("0", "1000001", "9223372036854775807"):
                code, out, err = execute([PROGRAM, *command, "--deadline", seconds], cwd=self.folder)
                self.assertEqual((code, out, err), (BAD, "", f"ringsched: --deadline is {seconds}; use 1 to 1000000\n"))

    def test_too_little_time(self):
        p = self.processes()
        p.ranks(3, *LONG, "--deadline", "3", "--timeline", "t.json")
        since = time.monotonic()
        for line in self.failed(p, since, 6, (0, 1, 2)).values():  # making the inputs takes its time
            self.assertIn("not finished after 3.00 s; pending", line)
        self.left(p, "all 3 processes have stopped")

    def slow_file(self):
        """A pipe that takes little, until somebody reads."""
        os.mkfifo(self.folder / "t.json")
        reads = os.open(self.folder / "t.json", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reads)
        fcntl.fcntl(reads, fcntl.F_SETPIPE_SZ, 4096)
        return reads

    def test_writing_may_take_longer_than_the_deadline(self):
        """The others need not wait for what process 0 writes, and that is given its time."""
        reads, p = self.slow_file(), self.processes()
        p.ranks(3, *problem("-w 6 --tokens 60 --repeat 1 --deadline 1 --timeline t.json"))
        self.assertTrue(p.wait(p.all[1:]))
        self.assertEqual([(one.code, one.stderr()) for one in p.all[1:]], [(0, "")] * 2)
        self.assertFalse(p.all[0].over())
        text = b""
        while not p.all[0].over():
            select.select([reads], [], [], 1)
            try:
                text += os.read(reads, 1 << 20)
            except BlockingIOError:
                pass
        self.assertEqual((p.all[0].code, p.all[0].stderr()), (0, ""))
        self.assertIn("\nmakespan  ", p.all[0].stdout())
        self.assertNotIn("incomplete", json.loads(text + os.read(reads, 1 << 20)))

    def test_a_timeline_that_takes_too_long(self):
        """Of a run that fails it is given some seconds; then process 0 says that it is missing, and ends."""
        self.slow_file()
        p = self.started(60)
        since = time.monotonic()
        p.all[1].kill(signal.SIGTERM)
        self.failed(p, since, 0, (0, 1, 2))
        self.assertRegex(p.all[0].stderr(), r"\nringsched: all 3 processes have stopped; t\.json is missing: writing it took too "
                                            r"long\n$")
        self.assertEqual([file.name for file in self.folder.iterdir()], ["t.json"])

    def test_a_number_that_is_none(self):
        p, since = self.processes(), time.monotonic()
        p.ranks(3, *problem("-w 3 --tokens 300 --inputs nan --check-finite --deadline 60"))
        self.assertTrue(p.wait())
        self.assertEqual({one.code for one in p.all}, {FAILED})
        self.assertTrue(any("produced a number that is not finite" in one.stderr() for one in p.all))

    def test_at_random_points(self):
        failed = soak(self.folder, runs=12 if WHOLE else 4, seed=1, say=lambda text: None)
        self.assertEqual(failed, [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
