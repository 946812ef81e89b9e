"""Recounts, from every row that `ringsched validate` prints as JSON, what its summaries say: how many
published values lie in their intervals, and how wide these are. The rows of the CSV must be the same.

usage: validation_coverage_test.py path/to/ringsched
RINGSCHED_VALIDATION=FILE: the JSON of all published results, with the page beside it (FILE.md); otherwise the program runs for them.
"""

import csv
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else None
GIVEN = pathlib.Path(os.environ["RINGSCHED_VALIDATION"]) if "RINGSCHED_VALIDATION" in os.environ else None
VALIDATION = pathlib.Path(__file__).resolve().parent.parent / "validation"

FILE = """
[[group]]
name = "times"
by = "us"
quantity = "ms"
machine = "dgx-a100"
noise = {noise}
problem = {{ workers = 4, heads = 8 }}
results = [
  {{ tokens = 8192, schedule = "ring", published = {published} }},
  {{ tokens = 8192, schedule = "zigzag", published = 1000 }},
]
[[group]]
name = "rates"
by = "them"
quantity = "iterations_per_s"
same_machine = true
problem = {{ workers = 4, heads = 8 }}
results = [{{ tokens = 16384, schedule = "ring", published = 0.001 }}]
[[group]]
name = "kernels of others"
by = "them"
quantity = "ms"
order_only = true
same_machine = true
problem = {{ workers = 4, heads = 8 }}
results = [{{ tokens = 16384, schedule = "ring", published = 0.001 }}]
"""


def validate(*flags, text=None):
    return subprocess.run([PROGRAM, "validate", *flags, *(["--file", "-"] if text else [])], input=text,
                          capture_output=True, text=True, check=True, timeout=600).stdout


def recounted(groups):
    rows = [r for g in groups if not g["order_only"] for r in g["results"] if not r["impossible"]]
    sure = [r for r in rows if r["interval_80"] is not None]
    widths = [r["half_width"] for r in sure]
    return {
        "results": len(rows),
        "intervals": len(sure),
        "inside_80": sum(r["interval_80"][0] <= r["published"] <= r["interval_80"][1] for r in sure),
        "too_fast": sum(r["time_ratio"] < 1 for r in rows),
        "narrow": sum(w < 0.12 for w in widths),
        "median_half_width": statistics.median(widths) if widths else 0,
    }


class Coverage(unittest.TestCase):
    def hold(self, said, groups, what):
        for key, value in recounted(groups).items():
            self.assertAlmostEqual(said[key], value, places=9, msg=f"{key} of {what}")

    def check(self, report):
        self.hold(report["summary"], report["groups"], "all")
        for source in report["sources"]:
            self.hold(source, [g for g in report["groups"] if g["by"] == source["source"]], source["source"])
        for group in report["groups"]:
            self.hold(group["summary"], [group], group["name"])
            for r in group["results"]:
                low, high = r["interval_80"]
                self.assertLessEqual(low, r["predicted"] * (1 + 1e-9), group["name"])
                self.assertGreaterEqual(high, r["predicted"] * (1 - 1e-9), group["name"])
                self.assertAlmostEqual(r["difference"], r["predicted"] - r["published"], places=6)

    def test_published_results(self):
        report = json.loads(GIVEN.read_text() if GIVEN else validate("--format", "json"))
        self.assertGreater(report["summary"]["intervals"], 1000)
        self.check(report)

    def test_page_of_published_results(self):
        page = GIVEN.with_suffix(".md").read_text() if GIVEN else validate("--format", "markdown")
        self.assertTrue(page == (VALIDATION.parent / "docs" / "validation-published.md").read_text(),
                        "ringsched validate --format markdown > docs/validation-published.md")

    def test_rows_of_the_csv_and_the_first_lines(self):
        some = (VALIDATION / "burstengine.toml").read_text()
        report = json.loads(validate("--format", "json", text=some))
        rows = list(csv.DictReader(io.StringIO(validate("--format", "csv", text=some))))
        flat = [(g, r) for g in report["groups"] for r in g["results"]]
        self.assertEqual(len(rows), len(flat))
        inside = 0
        for row, (g, r) in zip(rows, flat):
            self.assertEqual((row["group"], row["unit"]), (g["name"], g["unit"]))
            for key in ("published", "predicted", "difference"):
                self.assertEqual(float(row[key]), r[key])
            self.assertEqual([float(row["interval_low"]), float(row["interval_high"])], r["interval_80"])
            inside += row["inside"] == "yes" and row["counts"] == "yes"
        self.assertEqual(inside, report["summary"]["inside_80"])
        self.assertIn(f"{100 * inside / report['summary']['intervals']:.1f}% of the measurements lie in the predicted 80% intervals",
                      validate(text=some))

    def test_each_source_counts_once(self):
        text = FILE.format(published=1, noise=0)
        sources = json.loads(validate("--format", "json", text=text))["sources"]
        self.assertEqual([s["source"] for s in sources], ["us", "them"])
        share = lambda x: f"{100 * x:.1f}%" if x < 10 else f"{100 * x:,.0f}%"
        expected = ["2", *(share(statistics.median(s[key] for s in sources)) for key in ("median_error", "mean_error")),
                    *(share(statistics.mean(s[part] / s[whole] for s in sources)) for part, whole in (("too_fast", "results"), ("inside_80", "intervals"))),
                    share(statistics.median(s["median_half_width"] for s in sources))]
        line, = [line for line in validate(text=text).splitlines() if "each source once" in line]
        self.assertEqual(line.split("once")[1].split(), expected)

    def test_a_value_at_the_end_of_its_interval_is_inside(self):
        ring = json.loads(validate("--format", "json", text=FILE.format(published=1, noise=0)))["groups"][0]["results"][0]
        low, high = ring["interval_80"]
        for published, inside in [(low, 1), (high, 1), (low * (1 - 1e-9), 0), (high * (1 + 1e-9), 0)]:
            report = json.loads(validate("--format", "json", text=FILE.format(published=repr(published), noise=0)))
            self.check(report)
            self.assertEqual(report["summary"]["inside_80"], inside, published)
            self.assertEqual(report["summary"]["results"], 3)
        noisy = json.loads(validate("--format", "json", text=FILE.format(published=1, noise=0.3)))
        self.check(noisy)
        self.assertGreater(noisy["groups"][0]["results"][0]["half_width"], 0.3)


if __name__ == "__main__":
    unittest.main()
