"""Checks scripts/gpu-check as far as a machine without a GPU can: what it says there, what it packs,
and that a stage that fails, hangs or cannot be had is told from one that is good.

usage: tests/gpu_check_test.py BUILD_FOLDER
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/gpu-check"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()


def loaded():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def run(*command, env=None):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=env, timeout=250)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def require_no_gpu(self, done):
        if done.returncode != 3:
            self.skipTest("there is a GPU")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, "GPU|driver")

    def test_says_that_there_is_no_gpu_and_writes_nothing(self):
        out = self.folder / "out"
        self.require_no_gpu(run(SCRIPT, "--build", BUILD, "--output", out, "--minutes", "0.01"))
        self.assertFalse(out.exists())

    def test_what_it_packs_starts_elsewhere(self):
        packed = self.folder / "packed"
        done = run(SCRIPT, "--build", BUILD, "--pack", packed)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(sum(p.stat().st_size for p in packed.rglob("*")), 64 * 2**20)
        bare = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(packed / "lib")}
        self.assertEqual(run(packed / "bin/ringsched", "--version", env=bare).returncode, 0)
        tests = run(packed / "bin/cuda_tests", "--gtest_filter=CudaPlan.*", env=bare)
        self.assertEqual(tests.returncode, 0, tests.stdout)
        self.require_no_gpu(run(packed / "gpu-check", "--minutes", "0.01", env=bare))

    def test_tells_stages_apart(self):
        gpu_check = loaded()
        check = gpu_check.Check(gpu_check.Built(BUILD), self.folder, 1)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(check.run("echo", "echo", "hello"), "hello\n")
            self.assertFalse(check.bad)
            self.assertIsNone(check.run("fails", "sh", "-c", "echo why >&2; exit 7"))
            self.assertTrue(check.bad)
            self.assertIsNone(check.run("hangs", "sh", "-c", "echo so far; exec sleep 60", most=0.5))
            self.assertIsNone(check.run("absent", "echo", needs=None))
            for name, script in [("wrong", "exit $RANK"), ("impossible", "exit 3"), ("hung", "exec sleep 60")]:
                check.bad = False
                check.run_several(name, 3, "sh", "-c", script, most=0.5)
                self.assertEqual(check.bad, name == "wrong")
            check.bad = True
            self.assertIsNone(check.run("gone", "/nowhere/at/all"))
            check.ends = 0
            self.assertIsNone(check.run("late", "echo"))
            check.must(False, "a number")
            gpu_check.written(check, [(8, "forward", "ring", 2000, 1000, 1.0, 0.5, 0.4),
                                      (8, "both", "ring", 1010, 1000, 0.01, 0.41, 0.4)], "a GPU")
        self.assertEqual([s[1].split(" ")[0] for s in check.stages],
                         ["good", "FAILED", "FAILED", "skipped:", "FAILED", "not", "not", "FAILED", "skipped:"])
        self.assertIn("why\n", (self.folder / "fails.log").read_text())
        self.assertIn("so far\n", (self.folder / "hangs.log").read_text())
        text = (self.folder / "summary.md").read_text()
        self.assertIn("skipped: no time left", text)
        self.assertIn("NOT AS IT SHOULD BE", text)
        self.assertEqual(text.count("OFF"), 1)
        self.assertIn("| 8 | forward | ring | 2.00 ms | 1.00 ms | +100.0 % |", text)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
