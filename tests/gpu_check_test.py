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
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts/gpu-check"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()

# In place of the program, on a GPU that does all as predicted. SPOIL is what it does before.
PROGRAM = r"""#!/bin/sh
all=" $* "
echo "$RINGSCHED_NO_PARTITIONS$RINGSCHED_OPEN_GATE$all" \
  "gpu=$CUDA_VISIBLE_DEVICES rank=$RANK/$WORLD_SIZE local=$LOCAL_RANK host=$NCCL_HOSTID ctas=$NCCL_MAX_CTAS" >> "$CALLS"
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


NVIDIA_SMI = r"""#!/bin/sh
[ "$1" = -L ] || exit 0
for i in $GPUS; do
  echo "GPU $i: NVIDIA H200 (UUID: GPU-$i$i-f00d)"
  [ -z "$PARTS" ] || echo "  MIG 1g.18gb     Device  0: (UUID: MIG-$i$i-cafe)"
done
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
        size = sum(p.stat().st_size for p in packed.rglob("*") if p.is_file())
        nccl = packed / "lib/libnccl.so.2"
        self.assertLess(size - (nccl.stat().st_size if nccl.is_file() else 0), 64 * 2**20)
        self.assertIn(f" {size / 2**20:.0f} MiB;", done.stdout)
        self.assertEqual((packed / "lib/libringsched_nccl.so").is_file(), nccl.is_file() or "libnccl" in done.stdout)
        for one in ("libcudnn*.so.9", "libcublasLt.so.13", "libcudart.so.13", "libnvrtc.so.13"):
            self.assertIn(one, done.stdout)
            self.assertEqual(list((packed / "lib").glob(one)), [])
        bare = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(packed / "lib")}
        self.assertEqual(run(packed / "bin/ringsched", "--version", env=bare).returncode, 0)
        tests = run(packed / "bin/cuda_tests", "--gtest_filter=CudaPlan.*", env=bare)
        self.assertEqual(tests.returncode, 0, tests.stdout)
        self.require_no_gpu(run(packed / "gpu-check", "--minutes", "0.01", env=bare))

    def test_packs_what_is_loaded_by_name(self):
        here, packed = self.folder / "here", self.folder / "packed"
        here.mkdir()
        names = {"libcudnn.so.9", "libcudnn_engines_precompiled.so.9", "libcublasLt.so.13", "libcudart.so.13",
                 "libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}
        for name in names | {"libcudnn.so", "libcudnn.so.9.19.0", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0.88"}:
            (here / name).write_text("here")
        env = dict(os.environ, LD_LIBRARY_PATH=str(here))
        done = run(SCRIPT, "--build", BUILD, "--pack", packed, "--with-libraries", env=env)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        got = {p.name for p in (packed / "lib").iterdir() if p.name.startswith(("libcu", "libnvrtc"))}
        self.assertEqual(got, names)  # and not another version's parts from another folder
        self.assertNotIn("libcu", done.stdout)
        self.assertIn("a driver for CUDA 13.0", done.stdout)
        done = run(SCRIPT, "--build", BUILD, "--with-libraries")
        self.assertEqual(done.returncode, 2)
        self.assertIn("goes with --pack", done.stderr)

    def test_says_which_libraries_it_did_not_find(self):
        gpu_check = loaded()
        gpu_check.LOADED = {"libnone.so.13": (r"libnone\.so\.13", "none such (libnone.so.13)")}
        for with_libraries in False, True:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                try:
                    gpu_check.pack(gpu_check.Built(BUILD), self.folder / "packed", with_libraries)
                    ended = None
                except SystemExit as e:
                    ended = e.code
            self.assertEqual(ended, 1 if with_libraries else None)
            self.assertIn("none such (libnone.so.13)" + ", not found here" * with_libraries, said.getvalue())

    def test_takes_the_first_gpu_that_is_to_be_seen(self):
        loaded()
        environment = sys.modules["gpu_stages"].environment
        for asked, one in [("3,1", "3"), (" GPU-ab , GPU-cd", "GPU-ab"), ("", ""),
                           ("MIG-ab/1/0,MIG-ab/2/0", "MIG-ab/1/0")]:
            with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=asked):
                self.assertEqual(environment()["CUDA_VISIBLE_DEVICES"], one)
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            self.assertEqual(environment()["CUDA_VISIBLE_DEVICES"], "0")

    def test_counts_gpus_as_cuda_does(self):
        loaded()
        make_program(self.folder / "bin/nvidia-smi", NVIDIA_SMI)
        for gpus, parts, asked, seen in [
                ("0 1 2", "", None, ["0", "1", "2"]), ("0 1 2", "", "2, 0", ["2", "0"]), ("0 1 2", "", "1,7,2", ["1"]),
                ("0 1", "", "-1,0", []), ("0 1", "", "", []), ("", "", None, []), ("", "", "0,1", []),
                ("0 1 2", "", "GPU-22,GPU-00-f00d", ["GPU-22", "GPU-00-f00d"]),
                ("0 1", "", "GPU-11,GPU-77", ["GPU-11"]), ("0 1", "yes", None, ["0"]),
                ("0 1", "yes", "MIG-00-cafe,MIG-11-cafe", [])]:
            variables = dict(GPUS=gpus, PARTS=parts, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
            with self.subTest(gpus=gpus, asked=asked), unittest.mock.patch.dict(os.environ, variables):
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                if asked is not None:
                    os.environ["CUDA_VISIBLE_DEVICES"] = asked
                self.assertEqual(sys.modules["gpu_stages"].visible_gpus(), seen)

    def test_tells_what_nccl_cannot_from_what_is_wrong(self):
        check = loaded().Check(self.folder, time.monotonic() + 300)
        cases = [("good", "exit 0", None, "good"),
                 ("refused", "echo 'Duplicate GPU detected : rank 1' >&2; exit 3", None,
                  "not possible here: Duplicate GPU"),
                 ("misused", "echo 'joining: invalid usage (run with ...'; exit 3", None,
                  "not possible here: invalid usage"),
                 ("late", "echo 'sending by NCCL took more than 20 s'; exit 3", None,
                  "not possible here: took too long"),
                 ("hung", "echo 'not done in time, still running'; exit 3", None,
                  "not possible here: took too long"),
                 ("alone", "echo 'not done in time, still looking for the other processes'; exit 3", None,
                  "FAILED (3, 3, 3)"),
                 ("silent", "exit 3", None, "FAILED (3, 3, 3)"),
                 ("wrong", "echo 'invalid usage'; [ $RANK = 0 ] || exit 3; exit 1", None, "FAILED (1, 3, 3)"),
                 ("misled", "echo 'invalid usage'; exit 2", None, "FAILED (2, 2, 2)"),
                 ("partly", "echo 'invalid usage'; [ $RANK = 0 ] || exit 3", None, "FAILED (0, 3, 3)"),
                 ("crashed", "echo 'Duplicate GPU'; [ $RANK != 1 ] || kill -SEGV $$; exit 3", None,
                  "FAILED (3, -11, 3)"),
                 ("endless", "echo 'not finished after 20 s'; [ $RANK = 2 ] && exec sleep 60; exit 3", None,
                  "FAILED (3, 3, stopped: took too long)"),
                 ("apart", "echo 'Duplicate GPU'; exit 3", ["0", "1", "2"], "FAILED (3, 3, 3)"),
                 ("apart and late", "echo 'not finished after 20 s'; exit 3", ["0", "1", "2"], "FAILED (3, 3, 3)")]
        for name, script, gpus, result in cases:
            check.bad = False
            with self.subTest(name), contextlib.redirect_stdout(io.StringIO()):
                check.run_several(name, 3, "sh", "-c", script, most=3 if name == "endless" else None, gpus=gpus,
                                  log="one")
                self.assertEqual(check.stages[-1][:2], (name, result))
                self.assertEqual(check.bad, result.startswith("FAILED"))
        check.bad, check.ends = False, time.monotonic() + 6
        with contextlib.redirect_stdout(io.StringIO()):
            check.run_several("unfinished", 3, "sh", "-c", "exec sleep 60")
        self.assertEqual(check.stages[-1][1], "not done: no time left")
        self.assertFalse(check.bad)

    def test_tells_stages_apart(self):
        check = loaded().Check(self.folder, time.monotonic() + 60)
        check.gpu = "a GPU"
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(check.run("echo", "echo", "hello"), "hello\n")
            self.assertFalse(check.bad)
            self.assertIsNone(check.run("fails", "sh", "-c", "echo why >&2; exit 7"))
            self.assertTrue(check.bad)
            self.assertIsNone(check.run("hangs", "sh", "-c", "echo so far; exec sleep 60", most=2))
            self.assertEqual((check.said, check.late), ("so far\n", True))
            self.assertIsNone(check.run("ends itself", "sh", "-c", "echo not finished after 2 s >&2; exit 3"))
            self.assertTrue(check.late)
            self.assertIsNone(check.run("absent", "echo", needs=None))
            self.assertFalse(check.late)
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
                         ["good", "FAILED", "FAILED", "FAILED", "skipped:", "FAILED", "skipped:", "FAILED"])
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
        make_program(self.build / "bin/nvidia-smi", NVIDIA_SMI)
        (self.build / "runtime").mkdir()
        (self.build / "runtime/libringsched_nccl.so").touch()
        (self.build / "runtime/libringsched_cuda.so").symlink_to(BUILD / "runtime/libringsched_cuda.so")

    def check(self, *flags, spoil="", **variables):
        """Its exit code, the stages by name, and the summary."""
        self.calls = self.folder / "calls"
        self.calls.write_text("")
        env = dict(os.environ, SPOIL=spoil, CALLS=str(self.calls), GPUS="0",
                   PATH=f"{self.build}/bin:{os.environ['PATH']}")
        env.pop("CUDA_VISIBLE_DEVICES", None)
        env.update(variables)
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
        self.assertEqual({name: s for name, s in stages.items() if s != "good"},
                         {"nccl on several GPUs": "skipped: only one GPU is to be seen"})
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

    def test_tries_nccl_on_all_gpus_and_all_else_on_one(self):
        code, stages, text = self.check(GPUS="0 1 2 3 4 5 6", CUDA_VISIBLE_DEVICES="5,GPU-44-f00d,3,2,1")
        self.assertEqual(code, 0, text)
        names = list(stages)
        self.assertLess(names.index("nccl, balanced on 4 GPUs"), names.index("nccl, links of 4 GPUs"))
        self.assertLess(names.index("nccl, links of 4 GPUs"), names.index("nccl, ring in 3 processes on one GPU"))
        self.assertNotIn("nccl on several GPUs", stages)
        calls = self.calls.read_text().splitlines()
        together = [c for c in calls if "gpu=5,GPU-44-f00d,3,2 " in c]
        ranks = [f"rank={r}/4 local={r} host= ctas=" for r in range(4)]
        self.assertEqual(sorted(c.split("d,3,2 ")[1] for c in together), sorted(3 * ranks))
        for schedule in "ring", "balanced":
            both = [c for c in together if f" run --backend cuda -s {schedule} -w 4 --pass both --check " in c]
            self.assertEqual(len(both), 4, together)
        self.assertEqual(sum(" bench-links --transport nccl " in c for c in together), 4)
        self.assertTrue(all("gpu=5 " in c for c in calls if c not in together), calls)
        self.assertEqual(sum("rank=2/3 local=0 host=host2 ctas=1" in c for c in calls), 2)
        self.assertFalse([c for c in calls if " -w 1 " in c and "nccl" in c])

    def test_does_not_forgive_nccl_on_gpus_of_their_own(self):
        refuses = ('case "$CUDA_VISIBLE_DEVICES$RANK" in 0,1*) echo invalid usage >&2; exit 3 ;; '
                   '0?) echo took more than; exit 3; esac')
        code, stages, text = self.check("--only", "nccl", GPUS="0 1", spoil=refuses)
        self.assertEqual(code, 1, text)
        self.assertEqual(stages["nccl, ring on 2 GPUs"], "FAILED (3, 3)")
        self.assertEqual(stages["nccl, links of 2 GPUs"], "FAILED (3, 3)")
        self.assertEqual(stages["nccl, ring in 3 processes on one GPU"], "not possible here: took too long")
        self.assertEqual(stages["nccl, balanced in 3 processes on one GPU"], "skipped: one before it took too long")

    def test_leaves_nccl_out_where_its_library_is_not(self):
        module = BUILD / "runtime/libringsched_nccl.so"
        if not module.is_file():
            self.skipTest("the nccl module is not built")
        there = self.build / "runtime/libringsched_nccl.so"
        there.write_bytes(module.read_bytes().replace(b"libnccl.so.2\0", b"libnone.so.2\0"))
        code, stages, text = self.check("--only", "nccl", GPUS="0 1")
        self.assertEqual(code, 0, text)
        nccl = {s for name, s in stages.items() if name.startswith("nccl")}
        self.assertEqual(nccl, {"skipped: libnone.so.2 is not there"})
        there.unlink()
        _, stages, _ = self.check("--only", "nccl", GPUS="0 1")
        nccl = {s for name, s in stages.items() if name.startswith("nccl")}
        self.assertEqual(nccl, {"skipped: what it needs is not there"})

    def test_opens_the_gate_where_one_worker_takes_too_long(self):
        hangs = ('case "$RINGSCHED_OPEN_GATE$all" in " run "*"-w 1 -t 8192 "*) '
                 'echo "ringsched: not done in time, still running" >&2; exit 3; esac')
        code, stages, text = self.check("--only", "^calibrate 8|compute-sanitizer", spoil=hangs)
        self.assertEqual(code, 1)
        self.assertEqual((stages["one worker"], stages["one worker, gate open"]), ("FAILED (3)", "good"))
        self.assertIn("RINGSCHED_OPEN_GATE=1: that is set from here on", text)
        self.assertIn("\n1 calibrate ", self.calls.read_text())
        self.assertIn("2 attends by cuDNN", text)

    def test_does_not_open_the_gate_for_another_failure(self):
        for spoil, tried in [("invalid", False), ("not finished after 45 s", True)]:
            code, stages, text = self.check("--only", "^calibrate 8", spoil='case "$all" in *" run "*"-w 1 -t 8192 "*) '
                                            f'echo {spoil} >&2; exit 3; esac')
            self.assertEqual(code, 1)
            self.assertEqual("one worker, gate open" in stages, tried)
            self.assertNotIn("that is set", text)
            self.assertNotIn("\n1 calibrate ", self.calls.read_text())

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
