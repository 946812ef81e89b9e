"""The stages of scripts/gpu-check: commands with a limit and a log each, and a summary of what came
of them, which is written anew after every stage."""

import datetime
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
PACKED = (HERE / "bin/ringsched").is_file()
ROOT = HERE if PACKED else HERE.parent
MAKESPAN, IDLE = 0.05, 0.03  # so far off a prediction may be
ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_CUMEM_ENABLE": "0",
           "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "1"}


def environment():
    """With the places where CUDA's and cuDNN's libraries may be."""
    places = [str(ROOT / "lib")] if PACKED else []
    places += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in sys.path:
        places += map(str, sorted(pathlib.Path(folder or ".").glob("nvidia/*/lib")))
    places += [f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/lib64"]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(p for p in places if os.path.isdir(p)))


def end(process):
    """With what it has started. One that hangs in a driver may not end even then: it is not waited for long."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass


def started(command, **how):
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp, **how)


def output_of(command, most, **how):
    """What it printed, and its exit code or why there is none."""
    try:
        process = started(command, stdout=subprocess.PIPE, **how)
    except OSError as e:
        return "", str(e)
    try:
        text, _ = process.communicate(timeout=most)
        return text.decode(errors="replace"), process.returncode
    except subprocess.TimeoutExpired as e:
        end(process)
        try:
            text, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            text = e.stdout or b""
        return text.decode(errors="replace"), "stopped: took too long"
    except BaseException:
        end(process)
        raise


class Check:
    def __init__(self, folder, ends, archive=None):
        """Until `ends` by the monotonic clock."""
        self.folder, self.archive, self.ends = folder, archive, ends
        self.only = re.compile("")  # in the names of stages
        self.gpu, self.tasks, self.said, self.failed = "", "", "", False
        self.stages, self.notes, self.rows, self.bad = [], [], [], False
        self.variables = {}  # of the environment of every stage
        count = len(list(folder.glob("summary*.md")))  # of earlier calls
        self.summary = folder / (f"summary-{count + 1}.md" if count else "summary.md")

    def left(self):
        return self.ends - time.monotonic()

    def chosen(self, name, needs=True):
        if not self.only.search(name):
            return False
        if not needs or self.left() < 5:
            self.skip(name, "what it needs is not there" if not needs else "no time left")
            return False
        print(f"{name} ...", flush=True)
        return True

    def log(self, name):
        return self.folder / f"{re.sub('[^A-Za-z0-9.-]+', '-', name)}.log"

    def run(self, name, *command, most=60, needs=True, log=None, variables=None):
        """Runs a command with its own log. What it printed, or None if that came to nothing; `said` has it
        either way."""
        self.said, self.failed = "", False
        if not self.chosen(name, needs):
            return None
        log = self.log(log or name)
        began = time.monotonic()
        also = dict(self.variables, **(variables or {}))
        with open(log, "a") as out:
            out.write(f"$ {' '.join([*(f'{k}={v}' for k, v in also.items()), *map(str, command)])}\n")
            out.flush()
            self.said, code = output_of(command, min(most, self.left()), stderr=out, cwd=self.folder,
                                        env=dict(environment(), **also))
            out.write(f"{self.said}exit code {code}\n\n")
        self.failed = code != 0
        self.stage(name, f"FAILED ({code})" if self.failed else "good", time.monotonic() - began, log.name)
        return None if self.failed else self.said

    def run_several(self, name, count, *command, most=30, log=None):
        """Runs a command in several processes on one GPU, each of which NCCL takes to be on a host of its
        own. NCCL's makers do not support that, so that it cannot be done is no failure; wrong numbers are."""
        if not self.chosen(name):
            return
        log = self.log(log or name)
        began = time.monotonic()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        ranks, codes = [], []
        with open(log, "a") as out:
            out.write(f"$ {' '.join(map(str, command))}  # {count} times\n")
            out.flush()
            try:
                for r in range(count):
                    ranks.append(started(command, cwd=self.folder, stdout=out, stderr=out, env=dict(
                        environment(), RANK=str(r), WORLD_SIZE=str(count), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=str(port), NCCL_HOSTID=f"host{r}", **ONE_GPU, **self.variables)))
                ends = began + min(most, self.left())
                for rank in ranks:
                    try:
                        codes.append(rank.wait(max(0.1, ends - time.monotonic())))
                    except subprocess.TimeoutExpired:
                        codes.append("took too long")
            finally:
                for rank in ranks:
                    end(rank)
            out.write(f"exit codes {codes}\n\n")
        result = ("good" if not any(codes) else "FAILED (1)" if 1 in codes or 2 in codes else
                  f"not possible here ({', '.join(map(str, codes))})")
        self.stage(name, result, time.monotonic() - began, log.name)

    def attempt(self, name, body, *given):
        """What goes wrong in this program itself does not keep the next stage from running either."""
        try:
            return body(self, *given)
        except Exception as e:  # pylint: disable=broad-except
            with open(self.folder / "gpu-check.log", "a") as out:
                traceback.print_exc(file=out)
            self.stage(name, f"FAILED ({e!r})", 0, "gpu-check.log")
            return None
        finally:
            self.written()

    def stage(self, name, result, seconds, log):
        self.bad |= result.startswith("FAILED")
        self.stages.append((name, result, f"{seconds:.1f} s", log))
        print(f"{name}: {result}, {seconds:.1f} s", flush=True)
        self.written()

    def skip(self, name, why):
        self.stages.append((name, f"skipped: {why}", "", ""))
        print(f"{name}: skipped, {why}", flush=True)

    def note(self, text):
        self.notes.append("- " + text)

    def must(self, good, text):
        self.bad |= not good
        self.note(f"{'good' if good else '**NOT AS IT SHOULD BE**'}: {text}")

    def compared(self, workers, which, schedule, measured, predicted):
        """Makespans in us, and idle fractions."""
        us, idle = measured["makespan_us"], measured["idle_fraction"]
        predicted_us, predicted_idle = predicted["makespan_us"], predicted["idle_fraction"]
        off = us / predicted_us - 1
        good = abs(off) <= MAKESPAN and abs(idle - predicted_idle) <= IDLE
        self.bad |= not good
        self.rows.append(f"| {workers} | {which} | {schedule} | {us / 1e3:.2f} ms | {predicted_us / 1e3:.2f} ms | "
                         f"{100 * off:+.1f} % | {100 * idle:.1f} % | {100 * predicted_idle:.1f} % | "
                         f"{'' if good else 'OFF'} |")

    def written(self):
        out = [f"# GPU check, {datetime.date.today()}: {self.gpu}", "",
               f"Made by `scripts/gpu-check`. {self.tasks}", "",
               "| stage | | | log |", "| --- | --- | ---: | --- |"]
        out += ["| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in s) + " |" for s in self.stages]
        if self.notes:
            out += ["", *self.notes]
        if self.rows:
            out += ["", "| workers | pass | schedule | measured | predicted | | idle | predicted | |",
                    "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |", *self.rows]
        self.summary.write_text("\n".join(out) + "\n")
        if self.archive:  # never half of one
            aside = self.archive.with_name(self.archive.name + ".part")
            with tarfile.open(aside, "w:gz", compresslevel=1) as tar:
                tar.add(self.folder, self.folder.name)
            aside.replace(self.archive)
