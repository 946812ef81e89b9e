"""Runs over NCCL in several processes, with emulated GPUs and an emulated NCCL (tests/support/emulated_nccl): correct
numbers, each process reports errors of any call, and all end in time if one of them fails.

usage: tests/emulated_nccl_test.py RINGSCHED FOLDER_OF_THE_MODULES

RINGSCHED_SEEDS=N: every schedule with N seeds (default 1).
"""

import json
import os
import signal
import sys
import time
import unittest

from mpi_job import Case
from multi_process_job import Processes, free_port, torchrun_variables

MODULES = sys.argv.pop(1)
SEEDS = int(os.environ.get("RINGSCHED_SEEDS", "1"))
SCHEDULES = ["ring", "striped", "zigzag", "balanced", "balanced-split"]
SMALL = ["--tokens", "150", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--no-chart"]
GRACE = 15  # seconds after a deadline, beside other tests
# A call each, and one that NCCL fails at only later. Nobody needs what is missing from here to end well.
FAULTS = ["ncclGetUniqueId#1=2", "ncclCommInitRankConfig#1=2", "ncclGroupStart#4=3", "ncclSend#3=3", "ncclRecv#3=3",
          "ncclGroupEnd#4=2", "later:ncclGroupEnd#4=6", "ncclCommRegister#1=4", "ncclCommGetAsyncError#2=3"]


class EmulatedNccl(Case):
    def begin(self, ranks, *command, seed=1, faults=()):
        """A process for each rank; `faults` are of the ranks that have them."""
        p, port = Processes(self.folder), free_port()
        self.addCleanup(p.close)
        for rank in range(ranks):
            own = {"RINGSCHED_EMULATED_FAULTS": faults[rank]} if rank < len(faults) else {}
            p.start(command, {**torchrun_variables(rank, ranks, port), "LOCAL_RANK": str(rank), "LD_LIBRARY_PATH": MODULES,
                              "RINGSCHED_EMULATED_GPUS": str(ranks), "RINGSCHED_EMULATED_SEED": str(100 * seed + rank), **own})
        return p

    def run_of(self, schedule, ranks, *more, deadline=60, **how):
        return self.begin(ranks, "run", "--backend", "cuda", "--transport", "nccl", "-s", schedule, "-w", ranks, *SMALL,
                          "--deadline", deadline, *more, **how)

    def good(self, p):
        self.assertTrue(p.wait(), "not all have ended")
        for rank, one in enumerate(p.all):
            self.assertEqual((one.code, one.stderr()), (0, ""), rank)
        return p.all[0].stdout()

    def failed(self, p, ranks, seconds, since=None):
        """What each of these says, which is a line of its own; none hangs, and nothing that they do is a finding."""
        since = time.monotonic() if since is None else since
        self.assertTrue(p.wait([p.all[r] for r in ranks], seconds=seconds + 2 * GRACE), "not all have ended")
        said = {}
        for rank in ranks:
            one = p.all[rank]
            self.assertEqual(one.code, 3, one.stderr())
            self.assertLess(one.ended - since, seconds + GRACE)
            [said[rank]] = [line for line in one.said() if line.startswith(f"ringsched: process {rank}: ")]
        return said

    def test_every_schedule_computes_what_it_should(self):
        for seed in range(1, SEEDS + 1):
            for number, schedule in enumerate(SCHEDULES):
                for ranks in (2, 3, 4):
                    with self.subTest(schedule=schedule, ranks=ranks, seed=seed):
                        out = json.loads(self.good(self.run_of(schedule, ranks, "--pass", "both", "--check", "--repeat", "2",
                                                               "--format", "json", seed=10 * seed + number)))
                        self.assertIn("emulated GPU (measures nothing)", out["where"])

    def test_more_workers_than_processes_are_refused(self):
        p = self.begin(2, "run", "--backend", "cuda", "--transport", "nccl", "-w", "4", *SMALL)
        self.assertTrue(p.wait())
        for one in p.all:
            self.assertEqual(one.code, 2)
            self.assertIn("4 workers in 2 processes: NCCL needs one worker and one GPU per process", one.stderr())

    def test_links(self):
        for ranks in (1, 3):
            out = json.loads(self.good(self.begin(ranks, "bench-links", "--transport", "nccl", "-b", "4K", "-e", "1M", "-f", "256",
                                                  "-n", "2", "-w", "1", "--format", "json")))
            self.assertEqual(out["gpu"], "emulated GPU (measures nothing)")
            for kind in ("sendrecv", "all_gather", "alltoall", "reduce_scatter"):
                self.assertEqual([point["wrong"] for point in out[kind]], [0, 0], kind)

    def test_a_timeline_says_that_nothing_was_measured(self):
        self.good(self.run_of("zigzag", 2, "--timeline", "t.json"))
        timeline = json.loads((self.folder / "t.json").read_text())
        self.assertEqual((timeline["source"], timeline["machine"]), ("emulated", "emulated GPU"))

    def test_an_error_of_any_call_ends_all(self):
        for seed, fault in enumerate(FAULTS * SEEDS):
            for rank in range(1 if "UniqueId" in fault else 2):
                with self.subTest(fault=fault, rank=rank, seed=seed):
                    p = self.run_of("balanced", 3, seed=seed, faults=[""] * rank + [fault])
                    said = self.failed(p, range(3), 60 if "Init" in fault else 20)
                    self.assertRegex(said[rank], "NCCL")
                    for other in {0, 1, 2} - {rank}:
                        self.assertRegex(said[other], f"process {rank} .*|NCCL: .*is gone")

    def test_two_processes_on_one_gpu(self):
        p, port = Processes(self.folder), free_port()
        self.addCleanup(p.close)
        for rank in range(2):
            p.start(["run", "--backend", "cuda", "--transport", "nccl", "-w", "2", *SMALL],
                    {**torchrun_variables(rank, 2, port), "LOCAL_RANK": "0", "LD_LIBRARY_PATH": MODULES})
        for line in self.failed(p, range(2), 20).values():
            self.assertIn("Duplicate GPU", line)

    def in_the_middle(self, number, deadline):
        """Process 1 of three gets a signal while all run."""
        p = self.run_of("ring", 3, "--repeat", "10000", deadline=deadline, seed=number)
        p.computing(0.5)
        p.all[1].kill(number)
        return p, time.monotonic()

    def test_a_process_is_killed(self):
        p, since = self.in_the_middle(signal.SIGKILL, 60)
        for line in self.failed(p, (0, 2), 0, since).values():
            self.assertRegex(line, "process 1 .*is gone|NCCL: .*rank 1 is gone|process [02] gave up: ")

    def test_a_process_is_stopped(self):
        p, since = self.in_the_middle(signal.SIGSTOP, 4)
        self.failed(p, (0, 2), 4, since)
        p.all[1].kill(signal.SIGCONT)
        self.failed(p, (1,), 0)

    def test_a_process_is_told_to_end(self):
        p, since = self.in_the_middle(signal.SIGTERM, 60)
        said = self.failed(p, range(3), 0, since)
        self.assertIn("stopped by signal 15", said[1])


if __name__ == "__main__":
    unittest.main()
