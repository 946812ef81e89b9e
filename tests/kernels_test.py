"""Limits what kernels.cu compiles to: registers (as blocks that fit on a multiprocessor), no spills, no local
memory and no double precision. It compiles the PTX of the build, as the driver does for an sm_100.

usage: tests/kernels_test.py PTXAS FOLDER_OF_PTX
"""

import pathlib
import re
import subprocess
import sys
import unittest

PTXAS, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
del sys.argv[1:]

COMPILED = {"sm_80": "compute_80", "sm_90": "compute_90", "sm_100": "compute_90"}
THREADS = 256  # of a block of kernels.cu
# Blocks of each kernel that the 65536 registers of a multiprocessor must be enough for. The name has the threads
# of a row and the numbers of it that each thread holds.
BLOCKS = {
    "FillInputs 16 0": 8, "CheckFinite 16 0": 8, "Merge 16 0": 8, "FinishForward 16 0": 8,
    "Prepare 16 0": 6, "PrepareBackward 16 0": 6, "Add 16 0": 5,
    "OwnForward 8 8": 4, "OwnForward 8 16": 3, "OwnForward 8 32": 2,
    "OwnQueryGradient 8 8": 3, "OwnQueryGradient 8 16": 2, "OwnQueryGradient 8 32": 1,
    "OwnKeyValueGradient 8 8": 3, "OwnKeyValueGradient 8 16": 2, "OwnKeyValueGradient 8 32": 1,
    "copy_words": 8, "nothing": 8, "probe": 8,
}
FUNCTION = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                      r"(\d+) bytes spill loads.*?Used (\d+) registers", re.S)


def name_of(mangled):
    row = re.search(r"each_rowINS\d_5GroupILi(\d+)ELi(\d+)EEENS\d_\d+([A-Za-z]+?)EEEv", mangled)
    if row:
        return f"{row[3]} {row[1]} {row[2]}"
    return next((n for n in BLOCKS if f"{len(n)}{n}E" in mangled), mangled)


def blocks_with(registers):
    """A warp gets registers in pieces of 256, so a thread in pieces of 8."""
    return min(8, 65536 // (THREADS * -(-registers // 8) * 8))


class Kernels(unittest.TestCase):
    def test_registers_and_memory(self):
        for sm, virtual in COMPILED.items():
            done = subprocess.run([PTXAS, "-v", f"-arch={sm}", FOLDER / f"kernels.{virtual}.ptx", "-o", "/dev/null"],
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = {name_of(f[0]): tuple(map(int, f[1:])) for f in FUNCTION.findall(done.stderr)}
            print(f"{sm}: {len(found)} kernels, at most {max(f[3] for f in found.values())} registers")
            self.assertEqual(set(found), set(BLOCKS), "kernels come and go: say in BLOCKS how many blocks each needs")
            for name, (frame, stored, loaded, registers) in found.items():
                with self.subTest(sm=sm, kernel=name, registers=registers):
                    self.assertGreaterEqual(blocks_with(registers), BLOCKS[name], "blocks of a multiprocessor")
                    self.assertEqual((frame, stored, loaded), (0, 0, 0), "bytes of local memory, spilled, loaded again")

    def test_no_double_precision_and_no_local_memory(self):
        for virtual in sorted(set(COMPILED.values())):
            lines = (FOLDER / f"kernels.{virtual}.ptx").read_text().splitlines()
            self.assertEqual(sum(".entry " in line for line in lines), len(BLOCKS))
            self.assertEqual([line.strip() for line in lines if re.search(r"\.f64\b|\.local\b", line)][:5], [])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
