"""Checks scripts/gpu-check as far as a machine without a GPU can: its messages, what it packs, and how it handles
programs that fail, hang or print nonsense.

usage: tests/gpu_check_test.py BUILD_FOLDER [--emulated=FOLDER]   also on that module's emulated GPU
RINGSCHED_WHOLE=1: all stages there, which takes minutes.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts/gpu-check"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
EMULATED = next((sys.argv.pop(i).split("=")[1] for i, a in enumerate(sys.argv) if a.startswith("--emulated=")), None)

# In place of the program, on a GPU that does all as predicted. SPOIL is what it does before.
PROGRAM = r"""#!/bin/sh
all=" $* "
echo "$RINGSCHED_NO_PARTITIONS$RINGSCHED_OPEN_GATE$all gpu=$CUDA_VISIBLE_DEVICES rank=$RANK/$WORLD_SIZE" >> "$CALLS"
kernels="2 attends by cuDNN" rates="484, 591"
eval "$SPOIL"
case "$1" in
schedules) echo '[{"name": "ring"}, {"name": "balanced"}, {"name": "ring-decode"}]' ;;
calibrate)
  while [ "$1" != -o ]; do shift; done
  case "$all" in *" --workers 8 "*) rates="60, 70" ;; esac
  echo "# cuDNN alone: forward causal bf16 x 128: tokens [2048, 4096], TFLOP/s [$rates]" > "$2"
  ;;
run) echo '{"where": "NVIDIA H200", "kernels": "'$kernels'", "makespan_us": '${TOOK:-10}', "idle_fraction": 0.5,
  "predicted": {"makespan_us": 10, "idle_fraction": 0.5}}' ;;
esac
"""


def run(*command, env=None, timeout=250):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                          timeout=timeout, check=False)


# In place of a Python with torch. SPOIL_TORCH is what it does before.
TORCH = r"""#!/bin/sh
eval "$SPOIL_TORCH"
case "$1" in
-c) echo "2.15.0 ${SEES:-1}" ;;
*) echo "$* gpu=$CUDA_VISIBLE_DEVICES rank=$RANK/$WORLD_SIZE plans by $RINGSCHED" >> "$CALLS"
   echo "ring causal bf16: largest error" ;;
esac
"""


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out.md"

    def stages(self):
        return dict(re.findall(r"^\| (.*?) \| (good|FAILED.*?|skipped.*?) \| [\d.]+ s \|$", self.out.read_text(), re.M))


class TheProgramItself(InAFolder):
    def require_no_gpu(self, done):
        if done.returncode != 3:
            self.skipTest("there is a GPU")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, "GPU|driver")

    def test_says_that_there_is_no_gpu_and_writes_nothing(self):
        self.require_no_gpu(run(SCRIPT, "--build", BUILD, "--output", self.out))
        self.assertFalse(self.out.exists())

    def test_what_it_packs_starts_elsewhere_and_has_the_libraries_of_one_folder(self):
        here, packed = self.folder / "here", self.folder / "packed"
        here.mkdir()
        names = {"libcudnn.so.9", "libcudnn_engines_precompiled.so.9", "libcublasLt.so.13", "libnvrtc.so.13",
                 "libnvrtc-builtins.so.13.0"}
        for name in names | {"libcudnn.so", "libcudnn.so.9.19.0", "libnvrtc.alt.so.13"}:
            (here / name).write_text("here")
        env = dict(os.environ, LD_LIBRARY_PATH=str(here), CUDA_HOME="/nowhere")
        done = run(SCRIPT, "--build", BUILD, "--pack", packed, env=env)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("libcudart.so.13", done.stderr)  # is not in that folder
        got = {p.name for p in (packed / "lib").iterdir() if p.read_bytes() == b"here"}
        self.assertEqual(got, names)
        bare = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(packed / "lib")}
        self.assertEqual(run(packed / "bin/ringsched", "--version", env=bare).returncode, 0)
        self.assertEqual(run(packed / "ringsched", "--version", env={"PATH": os.environ["PATH"]}).returncode, 0)
        tests = run(packed / "bin/cuda_tests", "--gtest_filter=CudaPlan.*", env=bare)
        self.assertEqual(tests.returncode, 0, tests.stdout)
        self.require_no_gpu(run(packed / "gpu-check", "--output", self.out, env=bare))

    @unittest.skipUnless(EMULATED, "no emulated GPU is given")
    def test_runs_on_the_emulated_gpu(self):
        whole = os.environ.get("RINGSCHED_WHOLE") == "1"
        path = f"{EMULATED}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        nccl = (pathlib.Path(EMULATED) / "libringsched_nccl.so").is_file()
        gpus = {"RINGSCHED_EMULATED_GPUS": "2", "CUDA_VISIBLE_DEVICES": "0,1"} if nccl else {}
        done = run(SCRIPT, "--build", BUILD, "--output", self.out, "--tokens", 64, "--heads", 8, "--minutes", 30, "--only",
                   "" if whole else "machine|one worker|8 workers|balanced 8|nccl, balanced", timeout=1900,
                   env={**os.environ, "LD_LIBRARY_PATH": path, **gpus})
        text, stages = self.out.read_text(), self.stages()
        self.assertIn("emulated", text.splitlines()[0], done.stderr)
        self.assertEqual([s for s, result in stages.items() if result.startswith("FAILED")], [], text)
        self.assertEqual("nccl, balanced on 2 GPUs" in stages, nccl)
        self.assertIn("calibrate 1" if whole else "balanced 8 as a graph, checked", stages)
        self.assertEqual("| balanced 8 both | " in text, whole)  # measured beside predicted


class WithAScriptForTheProgram(InAFolder):
    def setUp(self):
        super().setUp()
        self.build, self.calls = self.folder / "build", self.folder / "calls"
        self.make("cli/ringsched", PROGRAM)
        self.make("tests/cuda_tests", '#!/bin/sh\necho "[  PASSED  ] ${PASSED:-3} tests."\necho "[  SKIPPED ] a.b"\n')
        self.make("bin/compute-sanitizer", '#!/bin/sh\necho "$RINGSCHED_OPEN_GATE looked"\n')
        self.make("bin/nvidia-smi", "#!/bin/sh\nfor i in $GPUS; do echo \"GPU $i: NVIDIA H200 (UUID: GPU-$i)\"; done\n")
        self.make("bin/python", TORCH)
        self.make("runtime/libringsched_cuda.so", "")

    def make(self, name, text):
        path = self.build / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def check(self, *flags, spoil="", **variables):
        """Its exit code, the stages by name, and what it wrote."""
        self.calls.write_text("")
        env = {**os.environ, "SPOIL": spoil, "CALLS": str(self.calls), "GPUS": "0",
               "PATH": f"{self.build}/bin:{os.environ['PATH']}", "TORCH_PYTHON": f"{self.build}/bin/python", **variables}
        if "CUDA_VISIBLE_DEVICES" not in variables:
            env.pop("CUDA_VISIBLE_DEVICES", None)
        done = run(SCRIPT, "--build", self.build, "--output", self.out, *flags, env=env)
        self.assertEqual(done.stderr, "")
        return done.returncode, self.stages(), self.out.read_text()

    def test_goes_through_all_of_it_and_writes_one_file(self):
        code, stages, text = self.check()
        self.assertEqual(code, 0, text)
        self.assertEqual({n: s for n, s in stages.items() if s != "good"},
                         dict.fromkeys(("nccl", "torch on several GPUs"), "skipped: it needs two GPUs"))
        self.assertEqual(list(stages)[-1], "tests of ring")
        for part in ("one of 8 parts has 11.8% of the rate of the whole GPU", "published 591 on an H200 (100%)",
                     "| balanced 8 both | 0.01 ms | 0.01 ms | +0.0% |", "1 looked\n",
                     "\n# cuDNN alone: forward causal bf16 x 128: tokens [2048, 4096], TFLOP/s [60, 70]\n"):
            self.assertIn(part, text)
        self.assertNotRegex(self.calls.read_text(), "32768.* --check |decode")
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"build", "calls", "out.md"})

    def test_nccl_has_all_gpus_and_all_else_one(self):
        code, stages, text = self.check("--only", "nccl|one worker", GPUS="0 1 2", CUDA_VISIBLE_DEVICES="5,4,3,2,1")
        self.assertEqual(code, 0, text)
        self.assertIn("nccl, balanced on 4 GPUs", stages)
        calls = self.calls.read_text().splitlines()
        together = sorted(c.split("gpu=")[1] for c in calls if " bench-links " in c)
        self.assertEqual(together, [f"5,4,3,2 rank={r}/4" for r in range(4)])
        self.assertTrue(all(" gpu=5 " in c for c in calls if "rank=/" in c), calls)
        code, stages, _ = self.check("--only", "nccl", GPUS="0 1", spoil='[ "$RANK" = 1 ] && exit 3')
        self.assertEqual((code, stages["nccl, ring on 2 GPUs"]), (1, "FAILED (3)"))

    def test_torch_has_one_gpu_and_then_all(self):
        code, stages, text = self.check("--only", "torch", GPUS="0 1 2", CUDA_VISIBLE_DEVICES="5,4")
        self.assertEqual((code, stages["torch, one GPU"], stages["torch on 2 GPUs"]), (0, "good", "good"), text)
        self.assertIn("ring causal bf16: largest error", text)
        calls = [c for c in self.calls.read_text().splitlines() if "torch-gpu-check" in c]
        self.assertTrue(all(c.endswith(f"plans by {self.build}/cli/ringsched") for c in calls), calls)
        self.assertEqual(sorted(c.split("gpu=")[1].split(" plans")[0] for c in calls),
                         ["5 rank=/", "5,4 rank=0/2", "5,4 rank=1/2"])
        code, stages, text = self.check("--only", "torch", GPUS="0 1", SPOIL_TORCH='[ "$RANK" = 1 ] && exit 1')
        self.assertEqual((code, stages["torch, one GPU"], stages["torch on 2 GPUs"]), (1, "good", "FAILED (1)"), text)

    def test_torch_is_skipped_with_a_reason(self):
        for variables, said in [(dict(SEES="0"), "torch 2.15.0 sees no GPU"),
                                (dict(SPOIL_TORCH="exit 1"), f"{self.build}/bin/python has no torch; "),
                                (dict(TORCH_PYTHON="/nowhere"), "/nowhere has no torch; TORCH_PYTHON names one that has")]:
            code, stages, text = self.check("--only", "torch", **variables)
            self.assertEqual(code, 0, text)
            self.assertIn(f"skipped: {said}", stages["torch"])
            self.assertNotIn("torch, one GPU", stages)

    def test_sets_a_variable_that_helps_and_no_other(self):
        for workers, variable in ("1", "RINGSCHED_OPEN_GATE"), ("8", "RINGSCHED_NO_PARTITIONS"):
            spoil = f'case "$all" in *" -w {workers} "*) [ "${variable}" ] || exit 3; esac'
            code, stages, text = self.check("--only", "work|calibrate 8", spoil=spoil)
            self.assertEqual((code, stages["calibrate 8"]), (1, "good"))
            self.assertIn(f"{variable}=1, which is set from here on", text)
            self.assertIn("\n1 calibrate ", self.calls.read_text())
        _, _, text = self.check("--only", "work|calibrate 8", spoil='case "$all" in *" -w 8 "*) exit 3; esac')
        self.assertNotIn("is set from here on", text)
        self.assertIn("\n calibrate ", self.calls.read_text())

    def test_is_not_stopped_by_nonsense_or_a_program_that_hangs(self):
        hangs = 'case "$all" in *" -w 8 "*--check*) exec sleep 60;; *"--repeat 7"*) echo stray; esac'
        code, stages, text = self.check("--minutes", "0.25", "--only", "^8 workers on one GPU$|tests|calibrate|forward",
                                        spoil=hangs)
        self.assertEqual(code, 1)
        self.assertTrue(stages["8 workers on one GPU"].startswith("FAILED (took too long"), text)
        self.assertEqual(stages["tests of ring"], "skipped: no time left")

    def test_says_what_is_not_as_it_should_be(self):
        for variables, said in [(dict(PASSED="1"), "tests: 1 passed, 1 skipped a.b"), (dict(TOOK="11"), "+10.0% | "),
                                (dict(spoil="rates='200, 300'"), "300 TFLOP/s, published 591"),
                                (dict(spoil='kernels="2 by the kernel for any tile (no such library)"'), "2048 tokens"),
                                (dict(spoil='case "$all" in *"--repeat 7"*) echo stray; esac'), "JSONDecodeError")]:
            code, _, text = self.check(**variables)
            self.assertEqual(code, 1, said)
            self.assertIn(said, text)
            self.assertIn("NOT all is well", text)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
