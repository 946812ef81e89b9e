"""Runs started by a real srun: a Slurm on this machine that looks like two nodes, and ends with the test.
Skipped, in one line and with exit code 77, if Slurm or munge is not installed.

usage: srun_test.py path/to/ringsched
"""

import json
import os
import re
import sys
import tempfile
import threading
import time
import unittest

from mpi_job import PATIENCE, PROGRAM, Case, flags
from multi_process_job import free_port
from slurm_cluster import NEEDED, Cluster, missing

SKIPPED = 77
BAD = 2
LONG = ("run -w 6 --tokens 128K --heads 1 --kv-heads 1 --head-dim 64 --dtype fp32 --mask full --schedule ring --repeat 1 "
        "--no-chart --deadline 60").split()
CHECKED = "run --workers 6 --schedule zigzag --tokens 4K --check --format json".split()


def setUpModule():
    global slurm, folder
    folder = tempfile.TemporaryDirectory(prefix="rs", ignore_cleanup_errors=True)
    slurm = Cluster(folder.name)


def tearDownModule():
    slurm.close()
    folder.cleanup()


class Srun(Case):
    maxDiff = None

    def run_on_nodes_of_one_address(self, *arguments, **env):
        """The two nodes have one address. Open MPI 4.1.4 then often crashes in MPI_Finalize, after the run, when it frees
        a connection twice; it does not when mpirun starts the same processes. Such a run is tried again."""
        for _ in range(8):
            done = self.run_by(*arguments, **env)
            if "mca_btl_tcp_finalize" not in done.stderr:
                break
        return done

    def run_by(self, *arguments, **env):
        """Task 0 is on the first node, which has the name of this machine, so only the port is to be said."""
        return slurm.srun(*arguments, MASTER_PORT=str(free_port()), **env)

    def right(self, done, transport, launched_by):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        got = json.loads(done.stdout)
        self.assertEqual([got[key] for key in ("transport", "processes", "workers", "launcher", "launched_by")],
                         [transport, 3, 6, "srun", launched_by])
        self.assertEqual(len(got["check"]), 2)
        for one in got["check"]:
            self.assertTrue(one["holds"], one)

    def said(self, done):
        """By each process, one line; process 0 may also say what became of all."""
        lines = re.findall(r"^ringsched: process (\d): (.*)$", done.stderr, re.MULTILINE)
        by_process = dict(lines)
        self.assertEqual((sorted(by_process), len(lines)), (["0", "1", "2"], 3), done.stderr)
        return by_process.values()

    def needs(self, kind):
        if kind not in slurm.srun("--mpi=list").stdout + slurm.srun("--mpi=list").stderr:
            self.skipTest(f"this Slurm has no {kind}")

    def test_they_meet_by_tcp(self):
        for nodes in (1, 2):
            with self.subTest(nodes=nodes):
                self.right(self.run_by("-N", nodes, "-n", 3, PROGRAM, *CHECKED), "tcp", "SLURM_PROCID and SLURM_STEP_NUM_TASKS")

    def test_they_meet_by_mpi(self):
        self.needs("pmix")
        for nodes, links in ((1, "self,vader"), (2, "self,tcp")):  # memory that two nodes share is news to vader
            with self.subTest(nodes=nodes):
                run = self.run_by if nodes == 1 else self.run_on_nodes_of_one_address
                self.right(run("--mpi=pmix", "-N", nodes, "-n", 3, PROGRAM, *CHECKED, OMPI_MCA_btl=links), "mpi",
                           "SLURM_PROCID and SLURM_STEP_NUM_TASKS")

    def test_open_mpi_does_not_speak_pmi2(self):
        self.needs("pmi2")
        self.right(self.run_by("--mpi=pmi2", "-N", 2, "-n", 3, PROGRAM, *CHECKED), "tcp", "PMI_RANK and PMI_SIZE")

    def test_mpi_that_finds_nobody_is_refused(self):
        for kind in ("none", "pmi2"):
            done = self.run_by(f"--mpi={kind}", "-n", 3, PROGRAM, *CHECKED, "--transport", "mpi")
            self.assertEqual((done.returncode, done.stdout), (BAD, ""))
            lines = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
            self.assertEqual(len(lines), 3, done.stderr)
            for line in lines:
                self.assertTrue(line.startswith("ringsched: srun started 3 processes, but MPI finds only this one; "), line)

    def test_wrong_flags_are_said_once_by_each(self):
        for words, told in (("-w 6 --tokens nope", "--tokens is 'nope'"), ("-w 2 --tokens 60", "3 processes for 2 workers; ")):
            done = self.run_by("-N", 2, "-n", 3, PROGRAM, "run", *flags(words), "--deadline", 60)
            self.assertEqual((done.returncode, done.stdout), (BAD, ""), done.stderr)
            for line in self.said(done):
                self.assertIn(told, line)

    def killed(self, *options):
        """What srun says when one process of three is killed."""
        outcome = []
        run = threading.Thread(target=lambda: outcome.append(self.run_by(*options, "-n", 3, PROGRAM, *LONG)))
        run.start()
        pids, ends = [], time.monotonic() + PATIENCE
        while not pids and run.is_alive() and time.monotonic() < ends:
            time.sleep(0.05)
            pids = [pid for pid in slurm.tasks("SLURM_PROCID=1") if self.computes(pid)]
        for pid in pids:
            os.kill(pid, 9)
        run.join()
        self.assertEqual(len(pids), 1)
        self.assertNotEqual(outcome[0].returncode, 0)
        self.assertEqual(outcome[0].stdout, "")
        left = time.monotonic() + 5
        while slurm.tasks("SLURM_PROCID=0") + slurm.tasks("SLURM_PROCID=2") and time.monotonic() < left:
            time.sleep(0.05)
        self.assertEqual(slurm.tasks("SLURM_PROCID=0") + slurm.tasks("SLURM_PROCID=2"), [])
        return outcome[0]

    def computes(self, pid):
        """Whether it is the program, and has the threads of its workers."""
        try:
            return os.path.samefile(f"/proc/{pid}/exe", PROGRAM) and len(os.listdir(f"/proc/{pid}/task")) >= 6
        except OSError:
            return False

    def test_one_is_killed(self):
        done = self.killed("-N", 2)
        for rank in (0, 2):
            self.assertRegex(done.stderr, rf"ringsched: process {rank}: process 1 (\(.*\) )?is gone: ")

    def test_one_is_killed_over_mpi(self):
        self.needs("pmix")
        self.assertIn("srun: error: ", self.killed("--mpi=pmix").stderr)

    def test_a_script_of_sbatch_is_alone(self):
        script = slurm.folder / "script"
        script.write_text(f"#!/bin/sh\nexec {PROGRAM} run {' '.join(flags('-w 2 --tokens 60 --format json'))}\n")
        done = slurm.command("sbatch", "--wait", "-n", 3, "-o", slurm.folder / "said", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads((slurm.folder / "said").read_text())
        self.assertEqual([got.get(key) for key in ("transport", "processes", "launcher")], ["local", 1, None])


if __name__ == "__main__":
    if missing():
        print(f"skipped: no {', '.join(missing())} of {', '.join(NEEDED)} (Debian: slurmctld slurmd slurm-client munge)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=1)
