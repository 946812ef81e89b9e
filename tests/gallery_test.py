"""Draws the gallery again and compares it with docs/; reads every SVG with a standard XML parser.

usage: gallery_test.py path/to/ringsched
RINGSCHED_VALIDATION=FILE: see scripts/gallery. RINGSCHED_MORE_SCHEDULES=1: for a program with more schedules, where later schedules have other colours.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = pathlib.Path(sys.argv.pop()).resolve() if len(sys.argv) > 1 else None
SVG = "{http://www.w3.org/2000/svg}"
BY_ALL_SCHEDULES = ("predicted-published.svg",)
BY_GRAPHVIZ = "task-graph.svg"  # not the same bytes in all its versions
KNOWN = {SVG + tag for tag in ("svg title defs pattern circle marker path rect text".split())}


class Gallery(unittest.TestCase):
    def test_is_what_the_program_draws(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "scripts/gallery", folder], check=True, timeout=600,
                           env={**os.environ, "RINGSCHED": str(PROGRAM)})
            drawn = {p.relative_to(folder): p.read_bytes() for p in pathlib.Path(folder).rglob("*.*")}
        kept = {p.relative_to(ROOT / "docs"): p.read_bytes()
                for p in [ROOT / "docs/gallery.md", *(ROOT / "docs/gallery").iterdir()]}
        self.assertEqual(sorted(drawn), sorted(kept))
        for name, picture in drawn.items():
            if name.name == BY_GRAPHVIZ or (name.name in BY_ALL_SCHEDULES and "RINGSCHED_MORE_SCHEDULES" in os.environ):
                continue
            self.assertTrue(picture == kept[name], f"{name} differs: scripts/gallery draws it anew")

    def test_every_picture_is_well_formed(self):
        pictures = sorted((ROOT / "docs/gallery").glob("*.svg"))
        self.assertGreater(len(pictures), 10)
        for path in pictures:
            with self.subTest(path.name):
                root = ET.parse(path).getroot()
                if path.name == BY_GRAPHVIZ:
                    continue
                width, height = (float(root.get(side).removesuffix("pt")) for side in ("width", "height"))
                self.assertTrue(root.findtext(SVG + "title"))
                for e in root.iter():
                    self.assertIn(e.tag, KNOWN)
                for rect in root.findall(SVG + "rect"):
                    x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
                    self.assertGreaterEqual(x, 0)
                    self.assertGreaterEqual(y, 0)
                    self.assertLessEqual(x + float(rect.get("width")), width + 0.02)
                    self.assertLessEqual(y + float(rect.get("height")), height + 0.02)


if __name__ == "__main__":
    unittest.main()
