"""Two network namespaces as two hosts, with different names and clocks, joined by a link of known
speed: runs across it are correct, end when it is cut, and take as long as predicted. Needs root.

usage: netns_test.py path/to/ringsched
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from mpi_job import MPIRUN, PROGRAM, Case, execute, flags, said, still_there

NAME = f"rs{os.getpid()}"  # of what is made here; interfaces may have 15 letters
HOSTS = ("10.77.0.1", "10.77.0.2")
# What 1 Mbit/s of Ethernet carries: 1448 bytes of 1514, in GB/s.
GB_PER_MBIT = 1e6 / 8 * 1448 / 1514 / 1e9

PROFILE = """name = "link"
summary = "two hosts of one core each, joined by a link"
base = "laptop"

[devices]
nodes = 2
per_node = 1
workers_each = 64
concurrency = 1
source = "of the test: two network namespaces of one machine"

[network]
nics = 1
gb_per_s = {gb_per_s}
latency_us = 200
source = "of the test: as tc has it"
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def in_host(i, *command):
    return ["ip", "netns", "exec", f"{NAME}{'ab'[i]}", *map(str, command)]


class Hosts(Case):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces need root")
        for program in ("ip", "tc", "unshare"):
            if not shutil.which(program):
                raise unittest.SkipTest(f"no {program} (Debian: iproute2, util-linux)")
        cls.addClassCleanup(cls.take_down)
        try:
            for host in "ab":
                ip("netns", "add", NAME + host)
            ip("link", "add", NAME + "va", "netns", NAME + "a", "type", "veth", "peer", "name", NAME + "vb", "netns",
               NAME + "b")
            for host, address in zip("ab", HOSTS):
                ip("-n", NAME + host, "link", "set", "lo", "up")
                ip("-n", NAME + host, "addr", "add", address + "/24", "dev", f"{NAME}v{host}")
            cls.join()
            cls.shape(1000)
            subprocess.run(cls.own_clock("true"), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as wrong:
            raise unittest.SkipTest(f"{' '.join(wrong.cmd)}: {wrong.stderr.strip()}") from None

    @classmethod
    def take_down(cls):
        for host in "ab":
            subprocess.run(["ip", "netns", "del", NAME + host], capture_output=True)

    @staticmethod
    def join():
        for host in "ab":
            ip("-n", NAME + host, "link", "set", f"{NAME}v{host}", "up")

    @staticmethod
    def shape(mbit):
        for host in "ab":
            subprocess.run(["tc", "-n", NAME + host, "qdisc", "replace", "dev", f"{NAME}v{host}", "root", "tbf", "rate",
                            f"{mbit}mbit", "burst", "128kb", "latency", "200ms"], check=True, capture_output=True,
                           text=True)

    @staticmethod
    def own_clock(command):
        return ["unshare", "--uts", "--time", "--monotonic", "3600", "sh", "-c", command]

    def tearDown(self):
        self.join()

    def across(self, each, *command):
        """Of so many processes on each host. Instead of ssh, Open MPI is given a way into the other namespace."""
        agent = self.folder / "agent"
        agent.write_text("#!/bin/sh\nshift\nexec " + " ".join(in_host(1)) +
                         " unshare --uts --time --monotonic 3600 sh -c \"hostname ringsched-b; $*\"\n")
        agent.chmod(0o755)
        net = HOSTS[0].rsplit(".", 1)[0] + ".0/24"
        mca = {"plm_rsh_agent": agent, "btl": "self,tcp", "pml": "ob1", "btl_tcp_if_include": net,
               "oob_tcp_if_include": net}
        return in_host(0, "unshare", "--uts", "sh", "-c", 'hostname ringsched-a; exec "$@"', "sh", MPIRUN,
                       *[word for k, v in mca.items() for word in ("--mca", k, v)], "--bind-to", "none",
                       "--host", ",".join(f"{host}:{each}" for host in HOSTS), "-n", 2 * each, *command)

    def test_numbers_and_times_are_right_across_hosts(self):
        for each, schedule in ((1, "ring"), (1, "zigzag"), (2, "balanced"), (2, "balanced-split")):
            with self.subTest(schedule=schedule, each=each):
                got = self.good(self.across(each, PROGRAM, "run", "-s", schedule, "-w", "5", *flags(
                    "--tokens 200 --pass both --check --format json --timeline t.json")))
                self.assertEqual(len(got["check"]), 5)
                self.assertTrue(all(one["holds"] for one in got["check"]), got["check"])
                timeline = json.loads((self.folder / "t.json").read_text())
                start, duration = (timeline["columns"].index(c) for c in ("start_ps", "duration_ps"))
                needs, kind = (timeline["columns"].index(c) for c in ("needs", "kind"))
                for row in timeline["tasks"]:
                    self.assertGreaterEqual(row[duration], 0)
                    if timeline["kinds"][row[kind]] == "receive":  # by clocks an hour apart, to some milliseconds
                        sent = timeline["tasks"][row[needs][0]][start]
                        self.assertGreater(row[start] + row[duration] + 5e9, sent)
                self.assertLess(max(row[start] + row[duration] for row in timeline["tasks"]), 60e12)

    def test_a_link_that_is_cut(self):
        deadline = 8
        problem = "--tokens 64K --heads 1 --kv-heads 1 --head-dim 64 --dtype fp32 --mask full --schedule ring".split()
        job = self.job(self.across(1, *self.wrapped(PROGRAM, "run", "-w", "8", *problem, "--repeat", "1", "--no-chart",
                                                    "--timeline", "t.json", "--deadline", deadline)))
        self.addCleanup(self.end_daemons)
        ranks = job.ranks(2)
        job.until_running(ranks, 4)
        ip("-n", NAME + "a", "link", "set", NAME + "va", "down")
        since = time.time()
        job.until(lambda: len(job.noted("exit")) == 2, "both had ended")
        ends = job.noted("exit")
        self.assertEqual({rank: code for rank, (code, _) in ends.items()}, {0: 3, 1: 3}, job.stderr())
        self.assertLess(max(at for _, at in ends.values()) - since, deadline + 5)
        self.assertEqual(still_there(self.folder), [])
        self.assertIn("not finished after 8.00 s", json.loads((self.folder / "t.json").read_text())["incomplete"])
        # What the other said cannot get through.
        line, left = job.until(lambda: said(job.stderr()), "a message")
        self.assertIn("t.json is incomplete", left)
        self.assertIn("ringsched: process 0: not finished after 8.00 s; pending: ", line)
        self.assertRegex(line, r"worker 0, step \d+, (receive of .* from worker 7 of process 1|send of .* to worker 1)\)")

    def end_daemons(self):
        """mpirun waits for a daemon that it cannot reach."""
        for host in "ab":
            pids = subprocess.run(["ip", "netns", "pids", NAME + host], capture_output=True, text=True).stdout.split()
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_it_takes_as_long_as_predicted(self):
        rates = (50, 200, 1000)
        # Much to move for little to compute: each worker's keys are 4 MiB, and go round.
        problem = "--tokens 1K --heads 32 --kv-heads 32 --head-dim 64 --dtype fp32 -w 4".split()
        local = self.good([PROGRAM, "run", *problem, "--no-chart", "--format", "json"])
        if local["makespan_us"] > 400e3:
            self.skipTest(f"kernels so slow that it is them that are measured: {local['makespan_us'] / 1e3:.0f} ms")
        rows = []
        for schedule in ("ring", "balanced"):
            exposed = []
            for mbit in rates:
                self.shape(mbit)
                profile = self.folder / f"link{mbit}.toml"
                profile.write_text(PROFILE.format(gb_per_s=mbit * GB_PER_MBIT))
                got = self.good(self.across(1, PROGRAM, "run", "-s", schedule, *problem, "--repeat", "3", "--no-chart",
                                            "--format", "json", "--machine", profile))
                p = got["predicted"]
                rows.append((schedule, mbit, got["makespan_us"], p["makespan_us"], got["exposed_communication_us"],
                             p["exposed_communication_us"]))
                exposed.append(got["exposed_communication_us"])
                code, out, err = execute([PROGRAM, "simulate", "-s", schedule, *problem, "--machine", profile, "--format",
                                          "json"])
                self.assertEqual(code, 0, err)
                self.assertAlmostEqual(json.loads(out)["makespan_us"], p["makespan_us"])
            with self.subTest(schedule=schedule):
                self.assertEqual(exposed, sorted(exposed, reverse=True), "more bandwidth, less to wait for")
        print("\nschedule    Mbit/s   makespan, predicted      exposed, predicted  (ms)", file=sys.stderr)
        for schedule, mbit, *times in rows:
            print(f"{schedule:<10} {mbit:>7}" + "".join(f"{t / 1e3:>12.1f}" for t in times), file=sys.stderr)
        for schedule, mbit, makespan, predicted, _, _ in rows:
            if mbit > 200:
                continue  # not bound by communication: there the kernels' figures count, which are of another machine
            with self.subTest(schedule=schedule, mbit=mbit):
                self.assertAlmostEqual(makespan, predicted, delta=0.25 * predicted + 20e3)


if __name__ == "__main__":
    unittest.main(verbosity=1)
