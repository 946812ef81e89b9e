"""Reruns the commands that README.md and the pages of docs/ show, and compares what they print. Checks
other texts against what they describe.

usage: readme_test.py path/to/ringsched
RINGSCHED_REFRESH=1 writes what the commands print into the pages instead; RINGSCHED_PAGES=README.md does only that page.
RINGSCHED_VALIDATION=FILE: what `ringsched validate` printed is beside it (FILE.txt).
RINGSCHED_MORE_SCHEDULES=1: for a program with more schedules; leaves out `ringsched validate`, which names the schedules that it compares.
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
MORE_SCHEDULES = "RINGSCHED_MORE_SCHEDULES" in os.environ
REFRESH = os.environ.get("RINGSCHED_REFRESH") == "1"


# A block of commands: ```, or ```measured where numbers differ from run to run.
BLOCK = re.compile(r"^```(measured)?\n(\$ .*?)^```$", re.M | re.S)


def pages():
    """Each page that shows commands with what they print; shown_examples_test.py has that of the examples."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.name != "examples.md" and page.match(os.environ.get("RINGSCHED_PAGES", "*")) and BLOCK.search(page.read_text()):
            yield page


def shown_commands(block):
    """[command, output] for each line `$ command`."""
    shown = []
    for line in block.splitlines():
        if line.startswith("$ "):
            shown.append([line[2:], []])
        else:
            shown[-1][1].append(line)
    return [(command, "\n".join(output).strip("\n")) for command, output in shown]


def without_numbers(text):
    """What stays the same when a measurement is repeated: the words."""
    return re.sub(r"[\d.e+-]*\d|[█▓░·]+", "N", re.sub(r"\b(ns|us|ms|s)\b", "T", re.sub(r" +", " ", text)))


class Pages(unittest.TestCase):
    validated = None  # what `ringsched validate` prints: two pages show parts, and it takes long

    def printed(self, command, folder):
        start, _, rest = command.partition(" | ")
        if start != "ringsched validate":
            return self.output(command, folder)
        given = os.environ.get("RINGSCHED_VALIDATION")
        if given and not Pages.validated:
            Pages.validated = pathlib.Path(given).with_suffix(".txt").read_text()
        Pages.validated = Pages.validated or self.output(start, folder)
        return self.output(rest, folder, Pages.validated)

    def output(self, command, folder, given=""):
        path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
        run = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, input=given,
                             env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}, timeout=600)
        self.assertIn(run.returncode, (0, 1), f"{command}: {run.stderr}")
        return run.stdout.strip("\n")

    def check(self, page, folder):
        def rerun(block):
            out = []
            for command, shown in shown_commands(block[2]):
                if MORE_SCHEDULES and command.startswith("ringsched validate"):
                    continue
                printed = self.printed(command, folder)
                if not REFRESH:
                    same = without_numbers if block[1] else str.strip
                    self.assertEqual(same(printed), same(shown), f"{page.name}: {command}")
                out.append(f"$ {command}\n{printed}".strip("\n") + "\n")
            return f"```{block[1] or ''}\n" + "\n".join(out) + "```"

        text = BLOCK.sub(rerun, page.read_text())
        if REFRESH:
            page.write_text(text)

    def test_commands_print_what_they_show(self):
        shown = list(pages())
        self.assertIn(ROOT / "README.md", shown)
        self.assertGreaterEqual(len(shown), 1 if "RINGSCHED_PAGES" in os.environ else 4)
        for page in shown:
            with self.subTest(page.name), tempfile.TemporaryDirectory() as folder:
                os.symlink(ROOT / "examples", pathlib.Path(folder) / "examples")
                self.check(page, folder)

    def test_the_readme_is_short_and_begins_with_two_commands(self):
        text = (ROOT / "README.md").read_text()
        self.assertLess(len(text.split()), 900)
        first = re.search(r"^```\n(.*?)^```$", text, re.M | re.S)[1].split("\n")
        self.assertEqual([line.split()[0] for line in first[:2]], ["scripts/demo", "scripts/test"])

    def test_the_library_example_is_the_one_that_is_compiled(self):
        code = (ROOT / "tests/package/main.cpp").read_text()
        self.assertIn(f"```cpp\n{code}```\n", (ROOT / "docs/library.md").read_text())

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
