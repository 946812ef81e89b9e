"""Runs examples/python.ipynb as a notebook would, and compares each cell's outputs with those in the file.

usage: notebook_test.py   With RINGSCHED_REFRESH=1 it writes the outputs into the file instead.
"""

import ast
import contextlib
import io
import json
import os
import sys
import unittest
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "python.ipynb"
SHOWN_AS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def run(source: str, names: dict) -> list[dict]:
    """The outputs of a cell: what it prints, and what its last line amounts to."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {kind: lines(getattr(value, name)()) for kind, name in SHOWN_AS.items() if hasattr(value, name)}
        data["text/plain"] = lines(repr(value))
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


class Notebook(unittest.TestCase):
    maxDiff = 2000

    def test_cells_show_what_the_file_says(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        names: dict = {}
        cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        self.assertGreater(len(cells), 5)
        for number, cell in enumerate(cells, 1):
            outputs = run("".join(cell["source"]), names)
            for output in outputs:
                if "execution_count" in output:
                    output["execution_count"] = number
            if os.environ.get("RINGSCHED_REFRESH"):
                cell["outputs"], cell["execution_count"] = outputs, number
                continue
            with self.subTest(cell="".join(cell["source"])):
                self.assertEqual(outputs, cell["outputs"])
        if os.environ.get("RINGSCHED_REFRESH"):
            NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
