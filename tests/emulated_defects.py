"""Plants defects in the cuda backend and in the nccl module, one at a time, and counts those that the tests on emulated GPUs find.

Each file of tests/support/emulated_cuda/defects/ is a patch after a line that describes the defect. The script
patches, builds and tests a copy of the sources, and keeps it for the next time. Not a part of CI: it takes
about a minute for each defect.

usage: tests/emulated_defects.py [--work FOLDER] [--least N] [--skip-clean] [NAME...]
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFECTS = ROOT / "tests/support/emulated_cuda/defects"
TESTS = "Gpu.*:*OnAGpu.*:EmulatedGpu.*"
QUICK = "Gpu.*:EmulatedGpu.*:*OnAGpu.*/balanced"
TARGETS = ["emulated_backend", "emulated_nccl_module", "cuda_tests", "ringsched_cli"]
OF_NCCL = "runtime/transports/nccl/"  # what is wrong there, the test emulated_nccl has to see


def copy_sources(to):
    """All that git knows; files that have not changed keep their times."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if not (ROOT / name).is_file():
            continue
        text, target = (ROOT / name).read_bytes(), to / name
        if not target.is_file() or target.read_bytes() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            target.chmod((ROOT / name).stat().st_mode)


def build(work):
    return subprocess.run(["cmake", "--build", work / "build", "--target", *TARGETS], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def what_fails_on(gpus, tests, work, folder):
    environment = {**os.environ, "RINGSCHED_EMULATED_GPUS": str(gpus), "RINGSCHED_EMULATED_SEED": str(gpus),
                   "LD_LIBRARY_PATH": str(folder)}
    try:
        done = subprocess.run([work / "build/tests/cuda_tests", "--gtest_brief=1", "--gtest_fail_fast",
                               f"--gtest_filter={tests}"], env=environment, text=True, timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return f"{gpus} GPU: it does not end"
    if done.returncode == 0 and (tests == "*" or "SKIPPED" not in done.stdout):
        return ""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("emulated CUDA") or "Failure" in line]
    at = lines.index(said[0]) if said else len(lines) - 1
    return f"{gpus} GPU: " + " ".join(lines[at:at + 3])[:200] + f" (exit code {done.returncode})"


def what_fails_in_the_program(tests, work, folder):
    done = subprocess.run([sys.executable, work / "source/tests/emulated_program_test.py", "-f", *tests,
                           work / "build/cli/ringsched", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = [line for line in done.stdout.splitlines() if "Error: " in line or "emulated CUDA" in line]
    return "" if done.returncode == 0 else f"the program: {' '.join(said)[:200]} (exit code {done.returncode})"


def what_fails_with_nccl(work, folder):
    try:
        done = subprocess.run([sys.executable, work / "source/tests/emulated_nccl_test.py", work / "build/cli/ringsched", folder,
                               "-f"], text=True, timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return "nccl: it does not end"
    said = [line for line in done.stdout.splitlines() if line.startswith(("FAIL: ", "ERROR: ", "AssertionError: "))]
    return "" if done.returncode == 0 else f"nccl: {' '.join(said)[:250]} (exit code {done.returncode})"


def what_fails(work, patch):
    """The first thing that the tests say; empty: they pass.

    Some tests of the backend see most defects, so all of them come later. What is wrong in the nccl module is for
    the test of that."""
    where = (work, work / "build/tests/support/emulated_cuda")
    if OF_NCCL in patch.read_text():
        return what_fails_with_nccl(*where)
    return (what_fails_on(2, QUICK, *where)
            or what_fails_in_the_program(["Emulated.test_files_say_that_nothing_was_measured"], *where)
            or what_fails_on(1, "*", *where) or what_fails_in_the_program([], *where)
            or what_fails_on(2, TESTS, *where) or what_fails_on(4, TESTS, *where))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/defects")
    parser.add_argument("--least", type=int, default=0, help="exit with 1 where fewer are seen")
    parser.add_argument("--skip-clean", action="store_true", help="do not run the tests without any defect first")
    parser.add_argument("names", nargs="*", help="only these")
    o = parser.parse_args()
    work = o.work.resolve()
    copy_sources(work / "source")
    subprocess.run(["cmake", "-G", "Ninja", "-S", work / "source", "-B", work / "build", "-D", "RINGSCHED_CUDA=OFF",
                    "-D", "RINGSCHED_BENCH=OFF", "-D", "CMAKE_BUILD_TYPE=Release"], check=True, stdout=subprocess.DEVNULL)
    done = build(work)
    if done.returncode != 0:
        sys.exit(done.stdout)
    patches = [p for p in sorted(DEFECTS.glob("*.patch")) if not o.names or p.stem in o.names]
    for one_of_each_kind in {OF_NCCL in p.read_text(): p for p in patches}.values():
        if wrong := not o.skip_clean and what_fails(work, one_of_each_kind):
            sys.exit(f"without any defect: {wrong}")
    seen, missed = [], []
    for patch in patches:
        subprocess.run(["patch", "-p1", "-s", "-i", patch], cwd=work / "source", check=True)
        done = build(work)
        wrong = what_fails(work, patch) if done.returncode == 0 else None
        subprocess.run(["patch", "-p1", "-s", "-R", "-i", patch], cwd=work / "source", check=True)
        if wrong is None:
            sys.exit(f"{patch.stem} does not compile:\n{done.stdout}")
        (seen if wrong else missed).append(patch.stem)
        print(f"{'seen  ' if wrong else 'MISSED'} {patch.stem}: {wrong or patch.read_text().splitlines()[0]}", flush=True)
    print(f"{len(seen)} of {len(patches)} defects are seen" + (f"; not {', '.join(missed)}" if missed else ""))
    sys.exit(1 if len(seen) < o.least else 0)


if __name__ == "__main__":
    main()
