#!/usr/bin/env python3
"""`ringsched calibrate`: what is left when a signal ends it, and what several processes measure.

usage: calibrate_test.py PROGRAM

Signals are sent when the progress line names what is being measured, so no test depends on time."""

import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "ringsched"
FAILED = 3


def until(reader, pattern):
    """What a terminal shows up to `pattern`."""
    seen = ""
    while not re.search(pattern, seen):
        try:
            more = os.read(reader, 4096)
        except OSError:  # Linux says so when the other end is closed
            more = b""
        if not more:
            raise AssertionError(f"{pattern} was never shown: {seen[-500:]!r}")
        seen += more.decode()
    return seen


class Calibrate(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.profile = self.folder / "mine.toml"

    def ended_by(self, number, shown, *flags):
        """Ends a calibration when it shows that text: its exit code, and what it then says."""
        reader, terminal = pty.openpty()
        try:
            process = subprocess.Popen([PROGRAM, "calibrate", "-o", self.profile, *flags], stderr=terminal,
                                       stdout=subprocess.PIPE, cwd=self.folder, text=True)
            os.close(terminal)
            until(reader, shown)
            process.send_signal(number)
            said = until(reader, r"mine\.toml[^\n]*\n")
            out, _ = process.communicate()
        finally:
            os.close(reader)
        self.assertEqual(out, "")
        return process.returncode, said

    def simulate(self, *flags):
        done = subprocess.run([PROGRAM, "simulate", "--machine", self.profile, *flags], capture_output=True, text=True)
        return done.returncode, done.stderr

    def test_what_was_measured_is_kept(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.profile.unlink(missing_ok=True)
            code, said = self.ended_by(number, "backward bf16 x 128 full", "--dtype", "bf16,fp16", "--max-tokens", "256")
            self.assertEqual(code, FAILED)
            self.assertIn(f"ringsched: stopped by signal {number.value} while measuring backward bf16 x 128 full", said)
            self.assertIn("mine.toml, interrupted; missing: backward bf16 x 128, forward fp16 x 128, backward fp16 x 128", said)
            self.assertIn("# interrupted; missing: backward bf16 x 128,", self.profile.read_text())
            self.assertEqual(self.simulate(), (0, ""))
            self.assertIn("measure it again with --dtype bf16 --pass both (", self.simulate("--pass", "both")[1])
            code, said = self.simulate("--dtype", "fp16")
            self.assertEqual(code, 2)
            self.assertIn("measure it again with --dtype bf16,fp16 (", said)

    def test_what_is_left_of_the_time_is_shown(self):
        code, said = self.ended_by(signal.SIGINT, r"\d+%  \d+ s left  going from task to task")
        self.assertEqual(code, FAILED)

    def test_too_little_is_not_written(self):
        self.profile.write_text("as it was")
        code, said = self.ended_by(signal.SIGINT, "copying")
        self.assertEqual(code, FAILED)
        self.assertIn("too little was measured for a profile", said)
        self.assertEqual(self.profile.read_text(), "as it was")

    def test_processes_are_nodes_of_the_profile(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        both = [subprocess.Popen([PROGRAM, "calibrate", "-o", self.profile, "--max-tokens", "64", "--timeout", "0.001",
                                  "--rank", str(rank), "--ranks", "2", "--master", f"127.0.0.1:{port}", "--deadline", "60"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
        said = [process.communicate() for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], said)
        self.assertIn("between processes, by tcp: ", said[0][0])
        self.assertEqual(said[1][0], "")
        text = self.profile.read_text()
        self.assertIn("\nnodes = 2\n", text)
        self.assertIn("\n[network]\nnics = 1\ngb_per_s = ", text)
        self.assertEqual(self.simulate("--workers", "8", "--pass", "both"), (0, ""))


if __name__ == "__main__":
    unittest.main()
