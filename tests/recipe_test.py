"""Runs the tests that depend on the set of schedules, in programs that have one more: the
schedule of CONTRIBUTING.md's recipe (tests/recipe.py, tests/recipe/CMakeLists.txt). The other
schedules' own cases are left out, because they were tested in the programs without it.

A third of them runs, another one each day; all of them with RINGSCHED_WHOLE=1, and those that name
the new schedule always.

The last check is that the author of a wrong schedule gets an error.

usage: recipe_test.py SCHEDULE PROGRAM PROGRAM_WITH_A_WRONG_SCHEDULE TEST_PROGRAM...
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
# These measure this machine or wait for deadlines, and name the schedules they run.
NO_MATTER = "RunProgram.Measures*:RunProgram.ExitsWith*"
ASKS_FOR_SCHEDULES = re.compile(r"\b(schedules|schedules_for|schedules_of_messages|all_schedules|schedule_names|predicted_runs)\(")


def suites():
    """Test suites in files that go through all schedules, and those that run the program."""
    for path in sorted(TESTS.rglob("*_test.cpp")):
        text = path.read_text()
        if ASKS_FOR_SCHEDULES.search(text) or path.parent.name == "cli":
            yield from re.findall(r"^TEST(?:_F|_P)?\((\w+),", text, re.M)


def mistake_is_told(schedule: str, wrong_program: str) -> bool:
    told = True
    for command in ("plan", "simulate"):
        run = subprocess.run([wrong_program, command, "-w", "4", "-s", schedule], capture_output=True, text=True)
        expected = (f"ringsched: schedule {schedule} is wrong: its plan does not verify (coverage): "
                    "the result of query chunk 3 lacks key chunk 0; see task ")
        if (run.returncode, run.stdout) != (2, "") or not run.stderr.startswith(expected):
            print(f"{command} with a wrong schedule: {run}\nexpected: {expected}")
            told = False
    return told


def parameter_is_read(program: str) -> bool:
    """The recipe's schedule with a parameter takes it, and says so."""
    def said(*command: str) -> str:
        run = subprocess.run([program, *command], capture_output=True, text=True)
        return run.stdout + run.stderr

    answers = {
        ("schedules", "hops"): "--schedule hops:hop=N",
        ("plan", "-w", "8", "-s", "hops:hop=3"): "hops:hop=3: 8 workers",
        ("plan", "-w", "6", "-s", "hops:hop=3"): "hops: hop=3 does not lead round all of 6 workers",
        ("plan", "-w", "6", "-s", "hops:hop=0"): "hops: parameter 'hop' cannot be '0'; use a whole number from 1 to 65535",
    }
    wrong = [command for command, expected in answers.items() if expected not in said(*command)]
    for command in wrong:
        print(f"{command}: {said(*command)}\nexpected: {answers[command]}")
    return not wrong


def main(schedule: str, program: str, wrong_program: str, *test_programs: str) -> int:
    listed = subprocess.run([program, "schedules", "--format", "json"], check=True, capture_output=True)
    names = [s["name"] for s in json.loads(listed.stdout)]
    if schedule not in names:
        print(f"{program} has no schedule {schedule}")
        return 1
    wanted = ":".join(f"{s}.*:*/{s}.*" for s in sorted(set(suites())))
    others = ":".join(f"*/{n.replace('-', '_')}*" for n in names if n != schedule)
    failed = not mistake_is_told(schedule, wrong_program) or not parameter_is_read(program)
    new = f"*/{schedule.replace('-', '_')}*"
    third = {"GTEST_TOTAL_SHARDS": "3", "GTEST_SHARD_INDEX": str(datetime.date.today().toordinal() % 3)}
    ran = 0
    parts = [(f"{wanted}-{NO_MATTER}:{others}:{new}", {} if os.environ.get("RINGSCHED_WHOLE") else third), (new, {})]
    for test_program in test_programs:
        for tests, shard in parts:
            command = [test_program, "--gtest_brief=1", f"--gtest_filter={tests}"]
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **shard})
            print(run.stdout, end="")
            found = re.search(r"(\d+) tests? from", run.stdout)
            ran += int(found[1]) if found else 0
            failed |= run.returncode != 0
    print(f"{ran} tests ran")
    return int(failed or ran < 100)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
