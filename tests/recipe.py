"""Follows CONTRIBUTING.md's "Add a schedule": takes its code blocks and puts them where
the text says. tests/recipe_test.py and scripts/check-recipe then test whether that is enough.

usage: recipe.py TREE [FOLDER]   reads TREE, writes the changed files to FOLDER (default: TREE itself)
"""

import pathlib
import re
import sys
import textwrap

HERE = "New schedules above this line."


def steps(page: str):
    """(path, code) of each numbered step that has a code block."""
    section = re.search(r"^## Add a schedule\n(.*?)(?=^## )", page, re.M | re.S)
    assert section, "CONTRIBUTING.md has no section 'Add a schedule'"
    for step in re.findall(r"^\d+\. .*?(?=^\d+\. |\Z)", section[1], re.M | re.S):
        block = re.search(r"^ *```cpp\n(.*?)^ *```$", step, re.M | re.S)
        if block:
            path = re.search(r"`([\w/]+\.cpp)`", step[:block.start()])
            assert path, f"which file is meant? {step}"
            yield path[1], textwrap.dedent(block[1])


def changed(tree: pathlib.Path) -> dict:
    """The files that the recipe adds or changes, by path. A step that was taken already changes nothing."""
    files = {}
    for path, code in steps((tree / "CONTRIBUTING.md").read_text()):
        there = (tree / path).read_text() if (tree / path).exists() else code
        text = files.get(path, there)
        if code.strip() not in text:
            lines = text.splitlines(keepends=True)
            at = [i for i, line in enumerate(lines) if HERE in line]
            assert len(at) == 1, f"{path} does not say once: {HERE}"
            indent = re.match(" *", lines[at[0]])[0]
            lines.insert(at[0], textwrap.indent(code, indent))
            text = "".join(lines)
        files[path] = text
    return files


if __name__ == "__main__":
    tree = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else tree
    for path, text in changed(tree).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        print(folder / path)
