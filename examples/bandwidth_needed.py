#!/usr/bin/env python3
"""How much link bandwidth does a schedule need before more of it stops paying?

Asks `ringsched simulate --what-if bandwidth=...` and prints the makespan for each, as a bar.

usage: bandwidth_needed.py RINGSCHED [flags of simulate]
       bandwidth_needed.py build/release/cli/ringsched -m dgx-a100x2-ib100 -w 16 -s zigzag
"""
import json
import subprocess
import sys

FACTORS = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32]


def main() -> None:
    program, *flags = sys.argv[1:]
    questions = [word for f in FACTORS for word in ("--what-if", f"bandwidth={f:g}x")]
    command = [program, "simulate", *flags, *questions, "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip())
    answers = json.loads(run.stdout)["what_if"]
    longest = max(a["makespan_us"] for a in answers)
    for answer in answers:
        bar = "█" * round(40 * answer["makespan_us"] / longest)
        print(f"{answer['change']:>16}  {answer['makespan_us'] / 1000:10.3f} ms  {bar}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
