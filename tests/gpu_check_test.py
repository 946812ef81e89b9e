"""Checks scripts/gpu-check as far as a machine without a GPU can: what it says there, what it packs,
and what it makes of programs that fail, hang, talk nonsense or are in need of another way.

usage: tests/gpu_check_test.py BUILD_FOLDER
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/gpu-check"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()

# In place of the program, on a GPU that does all as predicted. SPOIL is what it does before.
PROGRAM = r"""#!/bin/sh
all=" $* "
echo "$RINGSCHED_NO_PARTITIONS$RINGSCHED_OPEN_GATE$all" >> "$CALLS"
kernels="2 attends by cuDNN" rates="484, 591"
eval "$SPOIL"
case "$1" in
schedules) echo '[{"name": "ring"}, {"name": "balanced"}]' ;;
calibrate)
  while [ "$1" != -o ]; do shift; done
  parts=132
  case "$all" in *" --workers 8 "*) parts=16 ;; esac
  [ "$parts $rates" = "16 484, 591" ] && rates="60, 70"
  cat > "$2" <<END
# clocks seen 1980 MHz; made: 8 partitions in 0.01 s
# cuDNN alone: forward causal bf16 x 128: tokens [2048, 4096], TFLOP/s [$rates]
summary = "NVIDIA H200, some workers on $parts multiprocessors"
[[kernel]]
pass = "forward"
mask = "causal"
dtypes = ["bf16"]
tokens = [2048, 4096]
tflops = [480, 590]
END
  ;;
run) echo '{"where": "NVIDIA H200", "kernels": "'$kernels'", "makespan_us": 10, "idle_fraction": 0.5,
  "predicted": {"makespan_us": 10, "idle_fraction": 0.5}}' ;;
esac
"""


def loaded():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


def run(*command, env=None):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=env, timeout=250)


def make_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class GpuCheck(InAFolder):
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
        check = loaded().Check(self.folder, time.monotonic() + 60)
        check.gpu = "a GPU"
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(check.run("echo", "echo", "hello"), "hello\n")
            self.assertFalse(check.bad)
            self.assertIsNone(check.run("fails", "sh", "-c", "echo why >&2; exit 7"))
            self.assertTrue(check.bad)
            self.assertIsNone(check.run("hangs", "sh", "-c", "echo so far; exec sleep 60", most=2))
            self.assertEqual(check.said, "so far\n")
            self.assertIsNone(check.run("absent", "echo", needs=None))
            for name, script in [("wrong", "exit $RANK"), ("impossible", "exit 3"), ("hung", "exec sleep 60")]:
                check.bad = False
                check.run_several(name, 3, "sh", "-c", script, most=5)
                self.assertEqual(check.bad, name == "wrong")
            check.bad = True
            self.assertIsNone(check.run("gone", "/nowhere/at/all"))
            check.ends = 0
            self.assertIsNone(check.run("late", "echo"))
            self.assertIsNone(check.attempt("broken", lambda _: {}["a key"]))
            check.must(False, "a number")
            check.compared(8, "forward", "ring", {"makespan_us": 2000, "idle_fraction": 0.5},
                           {"makespan_us": 1000, "idle_fraction": 0.4})
            check.compared(8, "both", "ring", {"makespan_us": 1010, "idle_fraction": 0.41},
                           {"makespan_us": 1000, "idle_fraction": 0.4})
            check.written()
        self.assertEqual([s[1].split(" ")[0] for s in check.stages],
                         ["good", "FAILED", "FAILED", "skipped:", "FAILED", "not", "not", "FAILED", "skipped:",
                          "FAILED"])
        self.assertIn("why\n", (self.folder / "fails.log").read_text())
        self.assertIn("so far\n", (self.folder / "hangs.log").read_text())
        self.assertIn("a key", (self.folder / "gpu-check.log").read_text())
        text = (self.folder / "summary.md").read_text()
        self.assertIn("skipped: no time left", text)
        self.assertIn("NOT AS IT SHOULD BE", text)
        self.assertEqual(text.count("OFF"), 1)
        self.assertIn("| 8 | forward | ring | 2.00 ms | 1.00 ms | +100.0 % |", text)

    def test_ends_what_a_hung_program_has_started(self):
        text, code = loaded().output_of(["sh", "-c", "sleep 600 & echo $!; wait"], 2)
        self.assertEqual(code, "stopped: took too long")
        for _ in range(200):  # on a busy machine even that takes its time
            try:
                state = pathlib.Path(f"/proc/{int(text)}/stat").read_text().split()[2]
            except (FileNotFoundError, ProcessLookupError):
                return
            if state in "ZX":
                return
            time.sleep(0.1)
        self.fail(f"it goes on: {state}")


class WithoutAGpu(InAFolder):
    """The whole of the script, with a shell script for the program."""

    def setUp(self):
        super().setUp()
        self.build, self.out = self.folder / "build", self.folder / "out"
        make_program(self.build / "cli/ringsched", PROGRAM)
        make_program(self.build / "tests/cuda_tests", '#!/bin/sh\necho "[  PASSED  ] ${PASSED:-3} tests."\n'
                     'echo "[  SKIPPED ] a.b"\n')
        make_program(self.build / "bin/compute-sanitizer", '#!/bin/sh\necho "$0 $RINGSCHED_OPEN_GATE"\n')
        (self.build / "runtime").mkdir()
        (self.build / "runtime/libringsched_nccl.so").touch()
        (self.build / "runtime/libringsched_cuda.so").symlink_to(BUILD / "runtime/libringsched_cuda.so")

    def check(self, *flags, spoil="", **variables):
        """Its exit code, the stages by name, and the summary."""
        self.calls = self.folder / "calls"
        self.calls.write_text("")
        env = dict(os.environ, SPOIL=spoil, CALLS=str(self.calls), PATH=f"{self.build}/bin:{os.environ['PATH']}",
                   **variables)
        done = run(SCRIPT, "--build", self.build, "--output", self.out, *flags, env=env)
        self.assertEqual(done.stderr, "")
        text = max(self.out.glob("summary*.md"), key=lambda p: p.stat().st_mtime_ns).read_text()
        stages = dict(re.findall(r"^\| (.*?) \| (good|FAILED.*?|skipped.*?|not.*?) \|", text, re.M))
        return done.returncode, stages, text

    def test_goes_through_all_of_it(self):
        archive = self.folder / "results.tar.gz"
        code, stages, text = self.check("--archive", archive)
        self.assertEqual(code, 0, text)
        names = list(stages)
        self.assertLess(names.index("tests"), names.index("balanced 8 both, checked"))
        self.assertLess(names.index("balanced 8 as a graph"), names.index("calibrate 8"))
        self.assertEqual(names[-1], "tests of the other schedules")
        self.assertTrue(all(s == "good" or s.startswith("skipped: what it needs") for s in stages.values()), stages)
        self.assertIn("one of 8 parts has 11.8 % of the rate of the whole GPU, and 12.1 %", text)
        self.assertIn("calibrate 8: clocks seen 1980 MHz; made: 8 partitions", text)
        self.assertIn("published 591 on an H200 (100 %)", text)
        self.assertIn("99.8 % of the rate of cuDNN alone", text)
        self.assertIn("| 4 | both | balanced | 0.01 ms |", text)
        self.assertIn("compute-sanitizer 1\n", (self.out / "compute-sanitizer.log").read_text())
        calls = self.calls.read_text()
        self.assertNotRegex(calls, "32768.* --check ")
        self.assertIn("-t 32768", calls)
        with tarfile.open(archive) as tar:
            self.assertEqual({pathlib.Path(n).name for n in tar.getnames()} - {"out"},
                             {p.name for p in self.out.iterdir()})

    def test_does_not_take_skipped_tests_for_good_ones(self):
        code, stages, text = self.check("--only", "^tests$", PASSED="1")
        self.assertEqual((code, stages["tests"]), (1, "good"))
        self.assertIn("tests: 1 passed, 1 skipped a.b", text)

    def test_goes_on_with_what_is_asked_for(self):
        self.assertEqual(self.check("--only", "^calibrate [18]$|^balanced 8 forward")[0], 0)
        code, stages, text = self.check("--only", "^calibrate [18]$|^ring 8 forward")
        self.assertEqual(code, 0, text)
        self.assertIn("ring 8 forward", stages)
        self.assertNotIn("balanced 8 forward", stages)
        self.assertNotIn("calibrate", self.calls.read_text())
        self.assertTrue((self.out / "summary.md").is_file())

    def test_is_not_stopped_by_nonsense(self):
        code, stages, _ = self.check(spoil='rates=; case "$all" in *"--repeat 7"*) echo stray; esac')
        self.assertEqual(code, 1)
        self.assertTrue(stages["parts against the whole"].startswith("FAILED"), stages)
        self.assertTrue(stages["balanced 8 forward"].startswith("FAILED"), stages)
        self.assertIn("JSONDecodeError", (self.out / "gpu-check.log").read_text())
        self.assertEqual(stages["tests of the other schedules"], "good")

    def test_takes_small_tasks_without_cudnn(self):
        code, stages, text = self.check(
            spoil='kernels="0 attends by cuDNN, 2 by the kernel for any tile (no such library)"')
        self.assertEqual(code, 1)
        self.assertIn("no such library", text)
        self.assertIn("2048 tokens", text)
        self.assertTrue(stages["calibrate as published"].startswith("skipped"))
        calls = self.calls.read_text().split("one worker")[-1]
        self.assertNotIn("-t 32768", calls)
        self.assertIn("-t 2048", calls)

    def test_leaves_partitions_alone_where_they_fail(self):
        fails = 'case "$all" in *" -w 8 "*|*" --workers 8 "*) [ "$RINGSCHED_NO_PARTITIONS" ] || exit 3; esac'
        code, stages, text = self.check(spoil=fails)
        self.assertEqual(code, 1)
        self.assertIn("RINGSCHED_NO_PARTITIONS=1", text)
        self.assertEqual([s for s, result in stages.items() if result.startswith("FAILED")],
                         ["balanced 8 both, checked", "balanced 8 by streams", "balanced 8 as a graph"][:2])
        self.assertEqual(stages["calibrate 8"], "good")
        self.assertTrue((self.out / "gpu-8-shared.toml").is_file())

    def test_goes_on_after_a_first_run_that_hangs(self):
        gpu_check = loaded()
        gpu_check.FIRST = 2
        make_program(self.build / "cli/ringsched", "#!/bin/sh\necho so far\nsleep 60\n")
        gpu, said = gpu_check.gpu_there(gpu_check.Built(self.build))
        self.assertEqual(gpu, "a GPU on which nothing runs")
        self.assertRegex(said, "so far\nexit code stopped: took too long")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
