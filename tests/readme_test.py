"""Reruns the commands that README.md shows and compares what they print; holds other texts against
what they are about.

usage: readme_test.py path/to/ringsched
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else None


def shown_commands(text):
    """(command, output) for each line `$ command` inside a fenced block."""
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        command, output = None, []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command, "\n".join(output).strip()
                command, output = line[2:], []
            elif command is not None:
                output.append(line)
        if command is not None:
            yield command, "\n".join(output).strip()


class Readme(unittest.TestCase):
    def test_commands_print_what_it_shows(self):
        commands = list(shown_commands((ROOT / "README.md").read_text()))
        self.assertGreaterEqual(len(commands), 3)
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", pathlib.Path(folder) / "examples")
            path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
            for command, output in commands:
                run = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True,
                                     env={**os.environ, "PATH": path}, timeout=60)
                self.assertIn(run.returncode, (0, 1), f"{command}: {run.stderr}")
                self.assertEqual(run.stdout.strip(), output, command)

    def test_the_library_example_is_the_one_that_is_compiled(self):
        code = (ROOT / "tests/package/main.cpp").read_text()
        self.assertIn(f"```cpp\n{code}```\n", (ROOT / "README.md").read_text())

    def test_the_command_for_golden_files_reaches_all_of_them(self):
        command = r"RINGSCHED_REFRESH=1 .*--gtest_filter='(.*)'"
        pattern = re.search(command, (ROOT / "CONTRIBUTING.md").read_text())[1]
        tests = [test for path in (ROOT / "tests").rglob("*_test.cpp")
                 for test in re.split(r"^(?=TEST)", path.read_text(), flags=re.M)[1:]
                 if "expect_golden(" in test]
        self.assertGreater(len(tests), 3)
        for test in tests:
            name = ".".join(re.match(r"TEST\w*\((\w+), (\w+)\)", test).groups())
            self.assertTrue(fnmatch.fnmatchcase(name, pattern), f"{name} is not in {pattern}")

    def test_links_lead_somewhere(self):
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
            prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)#]+)", prose):
                if "://" not in link:
                    self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")


if __name__ == "__main__":
    unittest.main()
