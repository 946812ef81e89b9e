#!/usr/bin/env python3
"""scripts/torch-gpu-check, which wants GPUs, does all of it on a CPU over gloo: so only what is the GPU's own is untried."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import torch.distributed as dist

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/torch-gpu-check"
SMALL = ["--tokens", "256", "--checked-tokens", "192", "--heads", "4"]


def check(workers, *flags):
    """Exit codes, and what the first process printed."""
    # The store is here, as torchrun keeps one, so that no other program can take its port before process 0 listens.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = []
    for rank in range(workers):
        env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
               "CUDA_VISIBLE_DEVICES": ""}
        processes.append(subprocess.Popen([sys.executable, SCRIPT, *SMALL, *flags], env=env, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
    said = [p.communicate() for p in processes]
    return [p.returncode for p in processes], "".join(said[0])


class TorchGpuCheck(unittest.TestCase):
    def test_all_is_well_on_a_cpu(self):
        for workers, plans in ((1, 12), (2, 13)):
            codes, said = check(workers, "--device", "cpu")
            self.assertEqual(codes, [0] * workers, said)
            self.assertEqual(len(re.findall("largest error output", said)), plans, said)
            self.assertEqual(len(re.findall(r"forward [\d.]+ ms .*, backward [\d.]+ ms", said)), 2, said)
            self.assertNotIn("TOO MUCH", said)

    def test_too_large_an_error_fails(self):
        codes, said = check(2, "--device", "cpu", "--allowed", "1e-9")
        self.assertEqual(codes, [1, 1], said)
        self.assertEqual(said.count("TOO MUCH"), 13, said)

    def test_without_a_gpu_it_says_so(self):
        codes, said = check(1)
        self.assertEqual(codes, [3], said)
        self.assertRegex(said, r"^torch \S+ sees 0 GPUs; process 0 has none\n$")


if __name__ == "__main__":
    unittest.main()
