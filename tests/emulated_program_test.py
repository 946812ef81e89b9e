"""Runs and calibrates on emulated GPUs (tests/support/emulated_cuda) with the program itself.

usage: tests/emulated_program_test.py RINGSCHED FOLDER_OF_THE_EMULATED_BACKEND
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BACKEND = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
SCHEDULES = ["ring", "striped", "zigzag", "balanced", "balanced-split"]
SMALL = ["--workers", "4", "--tokens", "150", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--repeat", "2"]


class Emulated(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def ringsched(self, *arguments, code=0, **emulated):
        """The program's output, or what it said where it is to fail."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(BACKEND)}
        environment.update({k if k.startswith("RINGSCHED") else f"RINGSCHED_EMULATED_{k}": str(v) for k, v in emulated.items()})
        done = subprocess.run([PROGRAM, *arguments], env=environment, cwd=self.folder, text=True, timeout=500,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, f"{arguments} {emulated}: {done.stderr}")
        return done.stderr if code else done.stdout

    def run_checked(self, *arguments, **emulated):
        out = json.loads(self.ringsched("run", "--backend", "cuda", "--check", "--format", "json", *SMALL, *arguments, **emulated))
        self.assertIn("emulated GPU (measures nothing)", out["where"])
        return out

    def test_every_schedule_forward_and_backward_by_streams_and_as_a_graph(self):
        """On 1, 2 or 4 GPUs, others each day; on each number of them with RINGSCHED_WHOLE=1."""
        today = datetime.date.today().toordinal()
        for number, schedule in enumerate(SCHEDULES):
            for kind in ("forward", "both"):
                flags = ["--schedule", schedule, "--pass", kind]
                for gpus in (1, 2, 4) if os.environ.get("RINGSCHED_WHOLE") == "1" else [(1, 2, 4)[(today + number + len(kind)) % 3]]:
                    self.run_checked(*flags, GPUS=gpus, SEED=number + gpus)
                self.run_checked(*flags, "--graph", SEED=number)

    def test_what_a_driver_or_cudnn_may_lack(self):
        both = ["--schedule", "balanced", "--pass", "both"]
        self.assertIn("NO_PARTITIONS", self.run_checked(*both, RINGSCHED_NO_PARTITIONS=1)["where"])
        self.run_checked(*both, RINGSCHED_OPEN_GATE=1)
        self.run_checked(*both, GPUS=2, PEERS=0)
        for library in ("absent", "some"):
            self.assertIn("by the kernel for any tile", self.run_checked(*both, LIBRARY=library)["kernels"])

    def test_files_say_that_nothing_was_measured(self):
        self.ringsched("run", "--backend", "cuda", *SMALL, "--timeline", "t.json", "--no-chart")
        timeline = json.loads((self.folder / "t.json").read_text())
        self.assertEqual((timeline["source"], timeline["machine"]), ("emulated", "emulated GPU"))
        self.ringsched("calibrate", "--backend", "cuda", "--workers", "2", "--heads", "2", "--kv-heads", "1",
                       "--max-tokens", "256", "--output", "p.toml")
        profile = (self.folder / "p.toml").read_text()
        self.assertIn("emulated GPU (measures nothing)", profile)
        self.figures_follow_the_emulated_clock(profile)
        self.ringsched("simulate", "--machine", "p.toml", "--workers", "2", "--tokens", "512", "--heads", "2",
                       "--kv-heads", "1", "--no-chart")

    # A kernel or a copy takes 2 us, and 0.1 ns for each byte that it reads or writes.
    def figures_follow_the_emulated_clock(self, profile):
        def message(size):
            return [size, size / (2e-6 + 0.2e-9 * size) / 1e9]

        def same(found, expected):
            self.assertEqual(len(found), len(expected), profile)
            for a, b in zip(found, expected):
                self.assertAlmostEqual(float(a) / b, 1, delta=2e-3, msg=profile)

        sizes = [4**n << 16 for n in range(6)]
        lists = re.findall(r"\[\[\d.*\]\]", profile)
        self.assertEqual(len(lists), 2, "alone, beside attention")
        for text in lists:
            same(sum(json.loads(text), []), sum(map(message, sizes), []))
        same(re.findall(r"\n(?:us|latency_us) = (\S+)", profile), [2, 2])
        same(re.findall(r"without them (\S+) us", profile), [2])
        same(re.findall(r'kind = "memory"\ngb_per_s = (\S+)', profile), [2 * message(sizes[-1])[1]])
        same(re.findall(r"takes (\S+) times as long", profile), [1])
        # What follows from the bytes that the kernels touch, and from what is counted as their work.
        same(re.findall(r"\ntflops = \[(\S+)\]", profile), [1.585, 0.7955, 1.221, 0.613])
        same(re.findall(r"TFLOP/s \[(\S+)\]", profile), [1.6, 0.8033, 2.065, 1.036])
        same(re.findall(r"\n(?:merge|reduce|prepare|output)_bytes = (\S+)", profile), [10, 9.065, 7.337, 0.9065 * 6])
        same(re.findall(r"moves (\S+) GB/s on the whole GPU", profile), [9.906])

    def test_errors_end_it_with_one_line(self):
        for fault, said in {"cudaMalloc#5=2": "out of memory", "later:cudaLaunchKernel#60=700": "illegal memory access"}.items():
            text = self.ringsched("run", "--backend", "cuda", *SMALL, code=3, FAULTS=fault)
            self.assertIn(said, text)
            self.assertEqual(text.count("\n"), 1, text)


if __name__ == "__main__":
    unittest.main()
