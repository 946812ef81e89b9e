"""The nccl module: its messages without a GPU, and runs on one GPU, by one process and by several that pretend to
NCCL to be different hosts. NCCL does not support that: a test is skipped if NCCL refuses, or hangs until the
deadline, and for no other reason.

usage: nccl_test.py path/to/ringsched
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from mpi_job import PROGRAM, Case, execute
from multi_process_job import Processes, free_port, torchrun_variables

DEADLINE = 30
SPARE = 15  # seconds that processes have beside their own deadline: 10 to start, 5 to end
# Several processes on one GPU: NCCL takes each to be on a host of its own.
ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_CUMEM_ENABLE": "0",
           "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "1"}
# What NCCL says of that, and ringsched where its deadline ended what ran on GPUs.
REFUSED = re.compile("invalid usage|Duplicate GPU")
TOO_LONG = re.compile("not finished after|took more than|stopped after \\d+ s \\(--deadline\\) while (?!looking for|waiting for the plans)")


def impossible(codes, said):
    """Why NCCL cannot have several processes on one GPU, if all ended by themselves for that. Empty: they did
    well, or something else is wrong."""
    if set(codes) != {3}:
        return ""
    refused = REFUSED.search(said)
    return refused[0] if refused else "took too long" if TOO_LONG.search(said) else ""


BENCH = [PROGRAM, "bench-links", "--transport", "nccl", "-b", "4K", "-e", "256K", "-f", "8", "-n", "3", "-w", "1", "--format",
         "json"]


class Nccl(Case):
    def needs_gpu(self):
        code, _, err = execute(BENCH)
        if code == 3 and "no GPU: " in err:
            self.skipTest(err.strip())

    def right(self, text, processes):
        got = json.loads(text)
        self.assertEqual((got["transport"], got["processes"]), ("nccl", processes))
        for kind in ("sendrecv", "all_gather", "alltoall", "reduce_scatter"):
            self.assertGreaterEqual(len(got[kind]), 2)
            for point in got[kind]:
                self.assertEqual(point["wrong"], 0, (kind, point))

    def test_a_library_that_is_too_old(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        source, library = self.folder / "old.c", self.folder / "old.so"
        source.write_text("int ncclGetVersion(int* v) { *v = 21805; return 0; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        code, out, err = execute(BENCH, env={"LD_PRELOAD": str(library)})
        self.assertEqual((code, out, err.count("\n")), (3, "", 1), err)
        self.assertRegex(err, r"^ringsched: NCCL 2\.18\.5 is older than 2\.\d+\.\d+, which this was built against$")

    def test_no_gpu_is_said_in_one_line(self):
        code, out, err = execute(BENCH, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((code, out, err.count("\n")), (3, "", 1), err)
        self.assertIn("no GPU: ", err)

    def test_one_process_on_a_gpu(self):
        self.needs_gpu()
        code, out, err = execute(BENCH)
        self.assertEqual(code, 0, err)
        self.right(out, 1)

    def test_several_processes_on_one_gpu(self):
        self.needs_gpu()
        self.right(self.three_on_one_gpu(BENCH[1:]), 3)

    def test_every_schedule_in_several_processes_on_one_gpu(self):
        self.needs_gpu()
        _, listed, _ = execute([PROGRAM, "schedules", "--format", "json"])
        for schedule in [s["name"] for s in json.loads(listed) if s["layout"] != "decode"]:
            if schedule in ("ulysses", "all-gather", "usp"):  # have exchanges, which GPUs do not run
                continue
            self.three_on_one_gpu(["run", "--backend", "cuda", "-s", schedule, "-w", "3", "-t", "1536", "--pass", "both",
                                   "--check", "--repeat", "1", "--format", "json"])

    def three_on_one_gpu(self, arguments):
        p, port = Processes(self.folder), free_port()
        self.addCleanup(p.close)
        for rank in range(3):
            p.start(arguments + ["--deadline", str(DEADLINE)],
                    {**torchrun_variables(rank, 3, port), **ONE_GPU, "NCCL_HOSTID": f"host{rank}", "LOCAL_RANK": "0"})
        ended = p.wait(seconds=DEADLINE + SPARE)
        said = "".join(one.stderr() for one in p.all)
        self.assertTrue(ended, f"not all have ended by themselves: {said}")  # whatever NCCL does
        why = impossible([one.code for one in p.all], said)
        if why:
            self.skipTest(f"several processes on one GPU, which NCCL does not support: {why}: {said}")
        self.assertEqual([one.code for one in p.all], [0, 0, 0], said)
        return p.all[0].stdout()


if __name__ == "__main__":
    unittest.main(verbosity=1)
