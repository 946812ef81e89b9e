"""Replays priced plans in SimGrid and compares makespans: a referee that shares no code with ours.

usage: referee_test.py RINGSCHED SIMGRID_REPLAY [MOST_WORKERS]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = REPLAY = ""
MOST_WORKERS = 6
# Equal to nine digits up to 32 workers. With more flows of not quite equal size through one link, who
# ends first hangs on the last bit, and max-min sharing makes much of it: a change of 1e-8 in a link's
# rate then moves the makespan of 64 workers by up to some thousandths.
# Round figures; nothing that only our model has (SMs, shared devices). Kernels and messages take
# about as long as each other.
COMMON = """
[memory]
gb_per_s = 1000
source = "test"
[[kernel]]
pass = "forward"
mask = "full"
dtypes = ["bf16"]
head_dim = 128
tokens = [1]
tflops = [100]
source = "test"
[[kernel]]
pass = "backward"
mask = "full"
dtypes = ["bf16"]
head_dim = 128
tokens = [1]
tflops = [80]
source = "test"
"""
MACHINES = {
    "mesh": 'per_node = 64\n{s}\n[fabric]\nkind = "mesh"\ngb_per_s = 10\nlatency_us = 3\n{s}',
    "switch": 'per_node = 64\n{s}\n[fabric]\nkind = "switch"\ngb_per_s = 10\nlatency_us = 3\n{s}',
    "narrow core": 'per_node = 64\n{s}\n[fabric]\nkind = "switch"\ngb_per_s = 10\nlatency_us = 3\n'
    "core_gb_per_s = 25\n{s}",
    "pcie": 'per_node = 64\n{s}\n[fabric]\nkind = "pcie"\ngb_per_s = 10\nlatency_us = 3\n'
    "per_switch = 4\nuplink_gb_per_s = 12\nhost_gb_per_s = 30\n{s}",
    "nodes": 'per_node = 4\nnodes = 16\n{s}\n[fabric]\nkind = "switch"\ngb_per_s = 10\n'
    "latency_us = 3\n{s}\n[network]\nnics = 2\ngb_per_s = 4\nlatency_us = 8\n"
    "oversubscription = 2\n{s}",
}


def run(*command: str) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout


class Referee(unittest.TestCase):
    def test_simgrid_finds_the_same_makespans(self) -> None:
        schedules = [s["name"] for s in json.loads(run(PROGRAM, "schedules", "--format", "json"))
                     if s["layout"] != "decode"]  # has no backward pass
        workers = [w for w in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if w <= MOST_WORKERS]
        worst, count = 0.0, 0
        with tempfile.TemporaryDirectory() as folder:
            for name, text in MACHINES.items():
                profile = Path(folder) / "machine.toml"
                head = f'name = "{name}"\nsummary = "test"\n[devices]\n'
                profile.write_text(head + text.replace("{s}", 'source = "test"') + COMMON)
                for schedule in schedules:
                    for w in workers:
                        for rest in (["--pass", "forward"], ["--pass", "both", "--mask", "full"],
                                     ["--overlap", "unbounded"], ["--overlap", "none"]):
                            if schedule == "ulysses" and w > 32:
                                continue  # no worker without a head
                            flags = ["-m", str(profile), "-s", schedule, "-w", str(w),
                                     "-t", str(1000 * w + 7), "--exchanges", "direct", *rest]
                            ours = json.loads(run(PROGRAM, "simulate", *flags, "--format", "json"))
                            plan = run(PROGRAM, "export", *flags, "--format", "workload")
                            replayed = subprocess.run([REPLAY], input=plan, check=True,
                                                      capture_output=True).stdout
                            theirs = 1e6 * float(replayed.split()[1])
                            apart = abs(ours["makespan_us"] / theirs - 1)
                            worst, count = max(worst, apart), count + 1
                            self.assertLess(apart, 1e-2 if w > 32 else 1e-6, f"{name} {' '.join(flags)}")
        print(f"{count} plans, at most {worst:.1e} apart")


if __name__ == "__main__":
    PROGRAM, REPLAY = sys.argv[1], sys.argv[2]
    if len(sys.argv) > 3:
        MOST_WORKERS = int(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
