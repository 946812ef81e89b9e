"""The stages of scripts/gpu-check: commands with a limit and a log each, and a summary of what came
of them, which is written anew after every stage."""

import datetime
import itertools
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
VISIBLE = "CUDA_VISIBLE_DEVICES"
STOPPED = "stopped: took too long"  # by us
SPARE = 15  # seconds that processes have beside their own deadline: 10 to start, 5 to end
# What NCCL says of several processes on one GPU, and ringsched where its deadline ended what ran on GPUs.
REFUSED = re.compile("invalid usage|Duplicate GPU")
TOO_LONG = re.compile("not finished after|took more than|not done in time, still (?!looking for|waiting for the plans)")


def impossible(codes, said):
    """Of processes that NCCL is to have on one GPU: why it cannot, if all ended by themselves for that. Empty:
    they did well, or something else is wrong."""
    if set(codes) != {3}:
        return ""
    refused = REFUSED.search(said)
    return refused[0] if refused else "took too long" if TOO_LONG.search(said) else ""


def visible_gpus():
    """What CUDA_VISIBLE_DEVICES may say of the GPUs that are to be seen. As to CUDA, the first that is not
    there ends the list. Parts of a GPU (MIG) are not for NCCL: of these, none or one."""
    listed, _ = output_of(["nvidia-smi", "-L"], 20, stderr=subprocess.DEVNULL)
    there = re.findall(r"^GPU (\d+): .*\(UUID: (.*?)\)", listed, re.M)
    asked = os.environ.get(VISIBLE, ",".join(number for number, _ in there)).split(",")
    gpus = list(itertools.takewhile(
        lambda one: any(one == number or one.startswith("GPU-") and uuid.startswith(one) for number, uuid in there),
        map(str.strip, asked)))
    return gpus[:1] if re.search(r"^\s+MIG ", listed, re.M) else gpus


def environment():
    """With one GPU, the first that is to be seen, and the places where CUDA's and cuDNN's libraries may be."""
    places = [str(ROOT / "lib")] if PACKED else []
    places += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    for folder in sys.path:
        places += map(str, sorted(pathlib.Path(folder or ".").glob("nvidia/*/lib")))
    places += [f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/lib64"]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(p for p in places if os.path.isdir(p)),
                **{VISIBLE: os.environ.get(VISIBLE, "0").split(",")[0].strip()})


def lacking(module):
    """The library that the module needs and that is not there, if that is why it cannot be loaded."""
    text, _ = output_of([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", module], 30,
                        env=environment(), stderr=subprocess.STDOUT)
    found = re.search(r"OSError: (\S+): cannot open shared object file", text)
    return found[1] if found else ""


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
        return text.decode(errors="replace"), STOPPED
    except BaseException:
        end(process)
        raise


def since(log, at):
    """What stands in a log from there on."""
    return log.read_bytes()[at:].decode(errors="replace")


class Check:
    def __init__(self, folder, ends, archive=None):
        """Until `ends` by the monotonic clock."""
        self.folder, self.archive, self.ends = folder, archive, ends
        self.only = re.compile("")  # in the names of stages
        self.gpu, self.tasks, self.said, self.failed, self.late = "", "", "", False, False
        self.stages, self.notes, self.rows, self.bad = [], [], [], False
        self.variables = {}  # of the environment of every stage
        count = len(list(folder.glob("summary*.md")))  # of earlier calls
        self.summary = folder / (f"summary-{count + 1}.md" if count else "summary.md")

    def left(self):
        return self.ends - time.monotonic()

    def chosen(self, name, needs=True, lacks="what it needs is not there"):
        if not self.only.search(name):
            return False
        if not needs or self.left() < 5:
            self.skip(name, lacks if not needs else "no time left")
            return False
        print(f"{name} ...", flush=True)
        return True

    def log(self, name):
        return self.folder / f"{re.sub('[^A-Za-z0-9.-]+', '-', name)}.log"

    def run(self, name, *command, most=60, log=None, variables=None, **needed):
        """Runs a command with its own log. What it printed, or None if that came to nothing; `said` has it
        either way, and `late` is whether it took too long, by this limit or its own."""
        self.said, self.failed, self.late = "", False, False
        if not self.chosen(name, **needed):
            return None
        log = self.log(log or name)
        began = time.monotonic()
        also = dict(self.variables, **(variables or {}))
        with open(log, "a") as out:
            out.write(f"$ {' '.join([*(f'{k}={v}' for k, v in also.items()), *map(str, command)])}\n")
            out.flush()
            at = out.tell()
            self.said, code = output_of(command, min(most, self.left()), stderr=out, cwd=self.folder,
                                        env=dict(environment(), **also))
            out.write(f"{self.said}exit code {code}\n\n")
        self.failed = code != 0
        self.late = code == STOPPED or code == 3 and bool(TOO_LONG.search(since(log, at)))
        self.stage(name, f"FAILED ({code})" if self.failed else "good", time.monotonic() - began, log.name)
        return None if self.failed else self.said

    def run_several(self, name, count, *command, deadline=20, most=None, gpus=None, log=None, **needed):
        """Runs a command in several processes, each on one of the `gpus`, where all must be well. Without
        these all are on one GPU, and NCCL takes each to be on a host of its own. Its makers do not support
        that: that it cannot be done, or hangs until the deadline, is no failure; anything else is. `late` is
        as after run()."""
        self.late = False
        if not self.chosen(name, **needed):
            return
        log = self.log(log or name)
        began = time.monotonic()
        command = [*command, "--deadline", deadline]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        ranks, codes = [], []
        most, left = most or deadline + SPARE, self.left()
        with open(log, "a") as out:
            on = ",".join(gpus or [environment()[VISIBLE]])
            out.write(f"$ {' '.join(map(str, command))}  # {count} times, on GPU {on}\n")
            out.flush()
            at = out.tell()
            try:
                for r in range(count):
                    place = ({VISIBLE: ",".join(gpus), "LOCAL_RANK": str(r)} if gpus else
                             dict(ONE_GPU, LOCAL_RANK="0", NCCL_HOSTID=f"host{r}"))
                    ranks.append(started(command, cwd=self.folder, stdout=out, stderr=out, env=dict(
                        environment(), RANK=str(r), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=str(port), **dict(place, **self.variables))))
                ends = began + min(most, left)
                for rank in ranks:
                    try:
                        codes.append(rank.wait(max(0.1, ends - time.monotonic())))
                    except subprocess.TimeoutExpired:
                        codes.append(STOPPED)
            finally:
                for rank in ranks:
                    end(rank)
            out.write(f"exit codes {codes}\n\n")
        said = since(log, at)
        self.late = STOPPED in codes or 3 in codes and bool(TOO_LONG.search(said))
        why = "" if gpus else impossible(codes, said)
        result = ("good" if not any(codes) else f"not possible here: {why}" if why else
                  "not done: no time left" if left < most and set(codes) <= {0, STOPPED} else
                  f"FAILED ({', '.join(map(str, codes))})")
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
