"""Runs every example that docs/examples.md shows, and compares what it prints with the page.

usage: shown_examples_test.py PROGRAM [--cpp FOLDER]   FOLDER: where examples/cpp was built
Python examples need the package ringsched in PYTHONPATH; without it, or without FOLDER, those are left out, and a line
says so. RINGSCHED_REFRESH=1 writes what is printed into the page.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/examples.md"
BLOCK = re.compile(r"^```\n\$ ([^\n]*)\n(.*?)^```$", re.M | re.S)


def main() -> None:
    program = pathlib.Path(sys.argv[1]).resolve()
    cpp = str(pathlib.Path(sys.argv[3]).resolve()) if sys.argv[2:3] == ["--cpp"] else ""
    has_package = importlib.util.find_spec("ringsched") is not None
    text = PAGE.read_text(encoding="utf-8")
    wrong, ran, left_out = [], 0, []

    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", pathlib.Path(folder, "examples"))
        tools = pathlib.Path(folder, "tools")
        tools.mkdir()
        (tools / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (tools / "python3").chmod(0o755)
        path = os.pathsep.join([str(tools), str(program.parent), os.environ["PATH"]])

        def rerun(block: re.Match) -> str:
            nonlocal ran
            command, shown = block.groups()
            source = command.split()[1] if command.startswith("python3 ") else ""
            if command.startswith("examples/cpp/build/") and not cpp or (
                    source and "import ringsched" in (ROOT / source).read_text(encoding="utf-8") and not has_package):
                left_out.append(command)
                return block[0]
            run = subprocess.run(["bash", "-c", command.replace("examples/cpp/build", cpp)], cwd=folder, text=True,
                                 capture_output=True, env={**os.environ, "PATH": path}, timeout=120)
            ran += 1
            if run.returncode != 0 or run.stderr:
                sys.exit(f"$ {command}\nexits with {run.returncode}: {run.stderr}")
            if run.stdout != shown:
                wrong.append(f"$ {command}\nprints\n{run.stdout}\nand the page shows\n{shown}")
            for name in re.findall(r"^(\S+\.(?:svg|html))\b", run.stdout, re.M):
                if not pathlib.Path(folder, name).read_text(encoding="utf-8").rstrip().endswith((">", "</svg>")):
                    wrong.append(f"$ {command}\nwrote no picture in {name}")
            return f"```\n$ {command}\n{run.stdout}```"

        renewed = BLOCK.sub(rerun, text)

    if os.environ.get("RINGSCHED_REFRESH"):
        PAGE.write_text(renewed, encoding="utf-8")
    elif wrong:
        sys.exit("\n".join(wrong) + f"\nRINGSCHED_REFRESH=1 writes {PAGE} anew")
    for page in (PAGE, ROOT / "examples/README.md"):
        for file in sorted([*ROOT.glob("examples/*.*"), *ROOT.glob("examples/cpp/*.cpp")]):
            if file.suffix in (".py", ".cpp", ".ipynb") and file.name not in page.read_text(encoding="utf-8"):
                sys.exit(f"{page.relative_to(ROOT)} does not name {file.name}")
    assert ran, "nothing was run"
    print(f"{ran} examples print what docs/examples.md shows")
    for command in left_out:
        print(f"left out: {command}")


main()
