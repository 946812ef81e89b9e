"""Reads the Kineto traces with HolisticTraceAnalysis, and compares its results with those of the
timeline file, counted here in whole picoseconds.

usage: hta_test.py RINGSCHED
"""

import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

# HTA would otherwise move the ends of kernels inwards to whole microseconds.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.trace_analysis import TraceAnalysis  # noqa: E402

PROGRAM = ""
PS_PER_US = 1_000_000
CASES = (
    (4, "dgx-a100", ("-t", "64k")),
    (8, "dgx-a100", ("-t", "9k", "--pass", "both")),
    # HTA stops at these if times are written with decimals that are not exact in binary.
    (8, "dgx-a100", ("-t", "100003")),
    (8, "dgx-a100", ("-t", "256k")),
    (3, "pcie-a5000x8", ("-t", "20001", "--mask", "full")),
    (16, "dgx-a100x2-ib100", ("-t", "32k", "--overlap", "none")),
    (4, "ideal", ("-t", "4k", "--pass", "both")),
    (1, "hgx-h100", ("-t", "4k")),
)


def united(spans: list) -> list:
    out: list = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        elif end > start:
            out.append([start, end])
    return out


def length(spans: list) -> int:
    return sum(end - start for start, end in spans)


def common(a: list, b: list) -> int:
    return sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)


def run(*command: str) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout


class Hta(unittest.TestCase):
    def setUp(self) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)

    def analysed(self, schedule, workers, machine, rest) -> tuple:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        timeline, traces = Path(folder.name, "t.json"), Path(folder.name, "traces")
        flags = ["-s", schedule, "-w", str(workers), "-m", machine, *rest]
        run(PROGRAM, "simulate", *flags, "--timeline", str(timeline))
        report = json.loads(run(PROGRAM, "simulate", *flags, "--format", "json"))
        run(PROGRAM, "render", str(timeline), "--kineto", str(traces))
        return json.loads(timeline.read_text()), report, TraceAnalysis(trace_dir=str(traces))

    def test_finds_what_the_timeline_says(self) -> None:
        for schedule in json.loads(run(PROGRAM, "schedules", "--format", "json")):
            for case in CASES:
                if schedule["layout"] == "decode" and "--pass" in case[2]:
                    continue  # decoding has no backward pass
                with self.subTest(schedule=schedule["name"], case=case):
                    timeline, report, hta = self.analysed(schedule["name"], *case)
                    self.check(timeline, report, hta, case[0])

    def check(self, timeline, report, hta, workers) -> None:
        kinds, columns = timeline["kinds"], timeline["columns"]
        tasks = [dict(zip(columns, row)) for row in timeline["tasks"]]
        breakdown = hta.get_temporal_breakdown(visualize=False).set_index("rank")
        overlap = hta.get_comm_comp_overlap(visualize=False).set_index("rank")
        self.assertEqual(sorted(breakdown.index), list(range(workers)))
        idle_shares, posted_sum, overlapped_sum = [], 0, 0
        for rank in range(workers):
            computing, posted = [], []
            for t in tasks:
                if t["worker"] == rank and t["duration_ps"] > 0:
                    transfer = kinds[t["kind"]] in ("send", "receive", "exchange")
                    span = (t["start_ps"], t["start_ps"] + t["duration_ps"])
                    (posted if transfer else computing).append(span)
            kernels = len(computing) + len(posted)
            computing, posted = united(computing), united(posted)
            busy = united(computing + posted)
            span = busy[-1][1] - busy[0][0]
            # Each edge of a busy time is rounded by at most 1/2048 us.
            most_us = (kernels + 1) / 1024
            theirs = breakdown.loc[rank]
            for name, ps in (
                ("kernel_time(us)", span),
                ("idle_time(us)", span - length(busy)),
                ("compute_time(us)", length(computing)),
                ("non_compute_time(us)", length(busy) - length(computing)),
            ):
                self.assertAlmostEqual(theirs[name], ps / PS_PER_US, delta=most_us, msg=name)
            idle_shares.append(1 - length(busy) / span)
            overlapped = common(posted, computing)
            posted_sum += length(posted)
            overlapped_sum += overlapped
            pctg = overlap.loc[rank, "comp_comm_overlap_pctg"]
            if posted:
                delta = 0.0051 + 200 * most_us * PS_PER_US / length(posted)
                self.assertAlmostEqual(pctg, 100 * overlapped / length(posted), delta=delta)
            else:
                self.assertTrue(math.isnan(pctg))
        # Our own report, which HTA's figures are thus compared with.
        self.assertAlmostEqual(report["hta_idle_fraction"], sum(idle_shares) / workers, places=6)
        if posted_sum:
            self.assertAlmostEqual(report["hta_overlap_fraction"], overlapped_sum / posted_sum,
                                   places=6)

    def test_other_analyses_accept_it(self) -> None:
        timeline, _, hta = self.analysed("ring", 4, "dgx-a100", ("-t", "64k"))
        types, kernels = hta.get_gpu_kernel_breakdown(visualize=False)
        self.assertLessEqual({"COMPUTATION", "COMPUTATION overlapping COMMUNICATION"}, set(types["kernel_type"]))
        self.assertIn("attend", set(kernels["name"]))
        self.assertIn("ncclDevKernel_SendRecv", set(kernels["name"]))
        idle, _ = hta.get_idle_time_breakdown(ranks=[0], visualize=False)
        self.assertEqual(set(idle["rank"]), {0})
        self.assertEqual({m["distributedInfo"]["world_size"] for m in hta.t.meta_data.values()}, {4})


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=1)
