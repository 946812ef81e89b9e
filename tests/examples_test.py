#!/usr/bin/env python3
"""The example programs write plan files that fit docs/plan.schema.json and, given the program
`ringsched` as an argument, that get the verdict they claim from `ringsched verify`."""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else None

# script, arguments, whether it computes what it should
EXAMPLES = (
    [("ring_plan.py", [str(w)], True) for w in (1, 2, 3, 4, 7)]
    + [("lightseq_odd.py", [str(w)], False) for w in (3, 5, 9)]
    + [("lightseq_odd.py", [str(w), "--correct"], True) for w in (3, 5, 9)]
)


def check_verdict(text, correct, what):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        run = subprocess.run([PROGRAM, "verify", file.name], capture_output=True, text=True)
    expected = 0 if correct else 1
    assert run.returncode == expected, f"{what}: exit status {run.returncode}\n{run.stdout}{run.stderr}"


def check_bandwidth_needed():
    script = str(ROOT / "examples/bandwidth_needed.py")
    flags = ["-m", "dgx-a100x2-ib100", "-w", "16", "-s", "zigzag"]
    run = subprocess.run([sys.executable, script, PROGRAM, *flags], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    times = [float(line.split()[1]) for line in run.stdout.splitlines()]
    assert len(times) == 9 and times == sorted(times, reverse=True), run.stdout
    wrong = subprocess.run([sys.executable, script, PROGRAM, "-m", "no"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "unknown machine 'no'" in wrong.stderr, wrong.stderr


def main():
    if PROGRAM:
        check_bandwidth_needed()
    schema = json.loads((ROOT / "docs/plan.schema.json").read_text())
    validator = None
    if jsonschema:
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
    for script, arguments, correct in EXAMPLES:
        what = " ".join([script, *arguments])
        run = subprocess.run([sys.executable, str(ROOT / "examples" / script), *arguments],
                             capture_output=True, text=True, check=True)
        plan = json.loads(run.stdout)
        if validator:
            validator.validate(plan)
        if PROGRAM:
            check_verdict(run.stdout, correct, what)
    if validator:
        for seed in sorted((ROOT / "tests/fuzz/corpus/plan_file").glob("*.json")):
            validator.validate(json.loads(seed.read_text()))
        for broken in ({"do": "attend"}, {"do": "send", "in": ["KV0"], "from": 1},
                       {"do": "receive", "from": None}, {"do": "merge", "in": [1, "K1"]},
                       {"do": "send", "in": ["KV0.0"]}, {"do": "send", "in": ["KV0"], "heads": [1, 0]},
                       {"do": "output", "in": [0], "complete": True},
                       {"do": "exchange", "in": ["Q0"]}, {"do": "exchange", "in": [], "rows": [0, 1]},
                       {"do": "exchange", "in": ["Q0"], "rows": [0, 0]}, {"do": "round", "in": []},
                       {"do": "merge", "in": [0, 1], "complete": [True, True]}):
            plan["tasks"] = [broken]
            assert not validator.is_valid(plan), broken
        new = {"do": "attend", "in": ["Q0.1", "KV0"], "heads": [0, 1], "complete": False}
        plan.update(tasks=[new], given=[{"tensor": "query", "worker": 0, "heads": [1, 1]}])
        validator.validate(plan)
        old = {**plan, "version": 1, "tasks": []}  # which has none of this
        assert not validator.is_valid(old)
        del old["given"]
        assert validator.is_valid(old)
        for field in ("heads", "complete"):
            old["tasks"] = [{"do": "attend", "in": ["Q0", "KV0"], field: new[field]}]
            assert not validator.is_valid(old), field
        for task in ({"do": "exchange", "in": ["Q0"], "rows": [0, 1]}, {"do": "round", "in": [0]},
                     {"do": "receive", "from": None, "worker": 0, "tensor": "rounded_partial", "rows": [0, 1]}):
            validator.validate({**old, "version": 2, "tasks": [task]})
            assert not validator.is_valid({**old, "tasks": [task]}), task
    print(f"{len(EXAMPLES)} example plans; "
          f"{'checked' if validator else 'not checked (no jsonschema)'} against the schema, "
          f"{'verified' if PROGRAM else 'not verified (no program given)'}")


main()
