"""Writes a CUDA source as C++ for the emulated GPU: launches become calls, and reading a special register
becomes a function. Nothing else changes.

usage: kernels_as_host_code.py KERNELS.cu OUTPUT.cpp
"""

import re
import sys

# name<<<grid, block, shared, stream>>> ; the arguments that follow stay where they are.
LAUNCH = re.compile(r"(\w+(?:<[\w, ]*>)?)<<<(.*?)>>>", re.DOTALL)
REGISTER = re.compile(r'asm volatile\("mov\.u32 %0, %%(\w+);" : "=r"\((\w+)\)\);')


def as_host_code(text: str, name: str) -> str:
    text = LAUNCH.sub(r'emulated::Launch{"\1", [](auto... all) { \1(all...); }, \2}', text)
    text = REGISTER.sub(r'\2 = emulated::special_register("\1");', text)
    if "<<<" in text or "asm" in text:
        sys.exit(f"{name} has a launch or assembly that this script does not know")
    return f'#include "support/emulated_cuda/kernels/warp.hpp"\n#line 1 "{name}"\n{text}'


def main() -> None:
    source, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = as_host_code(file.read(), source)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
