#!/usr/bin/env python3
"""The profile that ringsched.torch.calibrate writes predicts the times it was made of."""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
from types import SimpleNamespace

from torch_support import COMMAND, make_plan

from ringsched.torch import calibrate as c
from ringsched.torch._errors import Error
from ringsched.torch._measure import EXCHANGES, MESSAGES, PASS_ELEMENTS, TOKENS


def point(seconds, processor=0.0):
    return SimpleNamespace(seconds=seconds, processor=processor, walls=[seconds] * 3, settled=True)


def attend_seconds(which, mask, dim, tokens):
    """Of two heads: any times that differ."""
    rate = (40e9 if which == "forward" else 30e9) * (0.8 if mask == "causal" else 1) * dim / 64
    pairs = tokens ** 2 if mask == "full" else tokens * (tokens + 1) / 2
    return (10 if which == "backward" else 4) * dim * 2 * pairs / rate + 1e-4


def made_up(options, slowdown=1.25):
    found = {("attend", which, mask, dtype, dim, n): point(attend_seconds(which, mask, dim, n))
             for which in options.passes for mask in ("full", "causal") for dtype in options.dtypes
             for dim in options.head_dims for n in TOKENS if n <= options.max_tokens}
    found |= {("together",): point(slowdown), ("alone",): point(1.0), ("small merge",): point(20e-6),
              ("merge",): point(0.005), ("reduce",): point(0.002), ("prepare",): point(0.003),
              ("shift",): point(0.02, 0.08)}
    found |= {("message", n): point(2 * (50e-6 + n / 2e9)) for n in MESSAGES}
    return found | {(kind, n): point(80e-6 + n / 1e9) for kind in ("all-to-all", "all-gather") for n in EXCHANGES}


def simulated(text, plan):
    """{kind: durations in seconds} of the predicted tasks."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("machine.toml", "plan.json", "timeline.json")]
        for path, content in zip(paths, (text, plan)):
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
        subprocess.run([COMMAND, "simulate", paths[1], "--machine", paths[0], "--timeline", paths[2], "--no-chart"], check=True,
                       capture_output=True)
        with open(paths[2], encoding="utf-8") as f:
            timeline = json.load(f)
    out = {}
    for row in timeline["tasks"]:
        out.setdefault(timeline["kinds"][row[0]], []).append(row[8] / 1e12)
    return out


class Profile(unittest.TestCase):
    options = SimpleNamespace(dtypes=["fp32"], head_dims=[64], passes=["forward", "backward"], heads=2, max_tokens=2048, cores=2,
                              processes=2)

    def test_a_worker_alone_takes_what_a_tile_took(self):
        """With the other core idle there is no slowdown."""
        text = c._profile(made_up(self.options), self.options, "made-up")
        for mask in ("full", "causal"):
            for tokens in (128, 512, 2048):
                plan = make_plan(1, "ring", tokens=tokens, heads=2, kv_heads=2, head_dim=64, mask=mask)
                found = simulated(text, plan)
                for kind, which in (("attend", "forward"), ("attend_backward", "backward")):
                    expected = (attend_seconds(which, mask, 64, tokens) - 20e-6) / 1.25 + 20e-6
                    self.assertAlmostEqual(found[kind][0] / expected, 1, delta=2e-3, msg=(kind, mask, tokens))

    def test_two_workers_at_once_take_what_was_measured(self):
        text = c._profile(made_up(self.options), self.options, "made-up")
        of_its_own = make_plan(2, "ring", tokens=1024, heads=2, kv_heads=2, head_dim=64, mask="documents:512,512")
        found = simulated(text, of_its_own)  # which sends nothing
        self.assertNotIn("send", found)
        for kind, which in (("attend", "forward"), ("attend_backward", "backward")):
            for seconds in found[kind]:
                self.assertAlmostEqual(seconds / attend_seconds(which, "causal", 64, 512), 1, delta=5e-3)  # launches slow down, too
        found = simulated(text, make_plan(2, "ring", tokens=1024, heads=2, kv_heads=2, head_dim=64, mask="full", passes="forward"))
        elements = 512 * 2 * 64
        merge = 20e-6 + (0.005 - 20e-6) * elements / PASS_ELEMENTS
        for seconds in found["merge"]:
            self.assertLess(abs(seconds / merge - 1), 0.26)  # between one alone and two at once
        size = 2 * elements * 4
        for seconds in found["receive"]:
            self.assertGreater(seconds, 50e-6 + size / 2e9 * 0.99)

    def test_links_are_what_all_processes_send_at_once(self):
        profile = tomllib.loads(c._profile(made_up(self.options), self.options, "made-up"))
        self.assertEqual(profile["fabric"]["gb_per_s"], 3.355)  # 2 x 32 MiB in 20 ms
        self.assertEqual(profile["communication"]["cores"], 2)  # 80 ms of processor time for two messages of 20 ms
        self.assertEqual(profile["collective"][0]["busbw"][-1], [1 << 24, 0.4976])  # half of 16 MiB in 80 us + 16.8 ms

    def test_a_longer_message_never_arrives_sooner(self):
        found = made_up(self.options)
        found["message", MESSAGES[1]] = point(1.0)
        found["all-gather", EXCHANGES[0]] = point(1.0)
        simulated(c._profile(found, self.options, "made-up"), make_plan(2, "all-gather", tokens=512, head_dim=64))

    def test_this_machine(self):
        text = c.calibrate(dtypes=["fp32"], head_dims=[16], passes=["forward"], max_tokens=128, seconds=0)
        self.assertEqual(text.count("[[kernel]]"), 2)
        self.assertEqual(text.count("[[collective]]"), 2)
        self.assertEqual(text.count("\nsource = "), text.count("\n["), text)
        found = simulated(text, make_plan(2, "zigzag", tokens=256, head_dim=16, passes="forward"))
        self.assertGreater(min(found["attend"]), 0)

    def test_what_it_refuses(self):
        for wrong, said in (({"dtypes": ["fp8"]}, "dtype is 'fp8'; use bf16, fp16, fp32"),
                            ({"passes": ["both"]}, "pass is 'both'; use forward, backward"),
                            ({"heads": 0}, "heads is 0; use at least 1"),
                            ({"max_tokens": 64}, "max_tokens is 64; use at least 128")):
            with self.assertRaisesRegex(Error, said):
                c.calibrate(**wrong)


if __name__ == "__main__":
    sys.exit(unittest.main())
