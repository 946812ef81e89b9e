"""What the tests of runs over MPI share: starting a job, and the results of its processes."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
MPIRUN = shutil.which("mpirun")
SANITIZED = any(name in pathlib.Path(PROGRAM).read_bytes() for name in (b"__asan_init", b"__tsan_init")) if PROGRAM else False
WHOLE = os.environ.get("RINGSCHED_WHOLE") == "1"  # scripts/nightly; .ci/run takes samples
WRITE_EXCHANGE_PLANS = os.environ.get("RINGSCHED_WRITE_EXCHANGE_PLANS", "")  # ctest says where it is
PATIENCE = 120  # seconds for a job that is to end by itself, on a machine that is busy

# What a launcher has left here must not reach a job of ours; containers run as root.
FOREIGN = ("OMPI_", "PMIX_", "PMI_", "SLURM_")
ENVIRONMENT = {k: v for k, v in os.environ.items()
               if not k.startswith(FOREIGN) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
ENVIRONMENT.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_btl_base_warn_component_unused="0")

# Stands between mpirun and the program: notes the number of the process and what it ended with,
# which mpirun keeps to itself. Signals to the group are for the program.
WRAPPER = r"""
import os, signal, subprocess, sys, threading, time
folder, rank = sys.argv[1], os.environ["OMPI_COMM_WORLD_RANK"]
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: None)  # a handler, unlike SIG_IGN, is not inherited
command = sys.argv[2:]
child = subprocess.Popen(command, stderr=subprocess.PIPE)
def forward():  # mpirun may mix the lines of several ranks
    with open(f"{folder}/{rank}.stderr", "wb", buffering=0) as file:
        for line in child.stderr:
            file.write(line)
            os.write(2, line)
forwards = threading.Thread(target=forward)
forwards.start()
def note(what, number):
    with open(f"{folder}/{rank}.{what}.new", "w") as file:
        file.write(f"{number} {time.time()}")
    os.rename(file.name, f"{folder}/{rank}.{what}")
note("pid", child.pid)
code = child.wait()
forwards.join()
note("exit", code)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def flags(text):
    """Flags of a small problem that are the same everywhere, and those of `text`."""
    words = ["--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--no-chart", *text.split()]
    return words if "--repeat" in words else [*words, "--repeat", "1"]


def mpirun(processes, *command, options=()):
    return [MPIRUN, "--oversubscribe", "--bind-to", "none", *options, "-n", str(processes), *map(str, command)]


def execute(command, **more):
    """Of a command that ends by itself: exit code, standard output and error."""
    # Open MPI keeps files in TMPDIR, and jobs that start and end there together get in each other's way.
    with tempfile.TemporaryDirectory(prefix="rs", ignore_cleanup_errors=True) as own:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE,
                              env={**ENVIRONMENT, "TMPDIR": own, **more.pop("env", {})}, start_new_session=True, **more)
    return done.returncode, done.stdout, done.stderr


def said(stderr):
    """What the program itself said, without what mpirun adds."""
    return [line for line in stderr.splitlines() if line.startswith("ringsched: ")]


def still_there(folder):
    """Processes of the program that were started in this folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.path.samefile(entry / "exe", PROGRAM) and os.path.samefile(entry / "cwd", folder):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class Process:
    """One of the program, as /proc shows it."""

    def __init__(self, pid):
        self.pid = pid

    def kill(self, number):
        os.kill(self.pid, number)

    def seconds(self):
        """Of processor time; none if it has ended."""
        try:
            cells = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return None
        return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")

    def threads(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/task"))
        except OSError:
            return 0


class Job:
    """A command under way in a folder of its own, with what it prints in files."""

    def __init__(self, folder, command, env=None):
        self.folder = pathlib.Path(folder)
        self.own = tempfile.TemporaryDirectory(prefix="rs", ignore_cleanup_errors=True)
        self.out, self.err = open(self.folder / "out", "w+"), open(self.folder / "err", "w+")
        self.process = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=self.out, stderr=self.err,
                                        stdin=subprocess.DEVNULL, env={**ENVIRONMENT, "TMPDIR": self.own.name, **(env or {})},
                                        start_new_session=True)

    def until(self, condition, what, seconds=PATIENCE):
        """Waits for what /proc or a file shows. The job must not end meanwhile."""
        ends = time.monotonic() + seconds
        while True:
            answer = condition()
            if answer:
                return answer
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended before {what}: {self.process.returncode}\n{self.stderr()}")
            if time.monotonic() > ends:
                raise AssertionError(f"not in time: {what}\n{self.stderr()}")
            time.sleep(0.01)

    def noted(self, what):
        """Number and time that wrappers have written, by rank."""
        notes = {}
        for file in self.folder.glob("*." + what):
            number, at = file.read_text().split()
            notes[int(file.stem)] = (int(number), float(at))
        return notes

    def ranks(self, count):
        self.until(lambda: len(self.noted("pid")) == count, "all ranks were there")
        return [Process(pid) for _, (pid, _) in sorted(self.noted("pid").items())]

    def until_running(self, processes, workers_each):
        """Until every process has the threads of its workers (two each; without them, MPI and all there are
        at most six), and one of them has computed for a while."""
        before = {}

        def begun():
            for p in processes:
                if p.threads() < max(7, 2 * workers_each + 2):
                    return False
                before.setdefault(p.pid, p.seconds() or 0)
            return any((p.seconds() or 0) > before[p.pid] + 0.2 for p in processes)

        self.until(begun, "the run had begun")

    def wait(self, seconds):
        return self.process.wait(timeout=seconds)

    def stdout(self):
        return (self.folder / "out").read_text()

    def stderr(self):
        return (self.folder / "err").read_text()

    def close(self):
        """Ends what is left, also what was stopped."""
        for pid in still_there(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.out.close()
        self.err.close()
        self.own.cleanup()


class Case(unittest.TestCase):
    """Each test has a folder of its own and leaves no process behind."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name).resolve()

    @contextlib.contextmanager
    def own_folder(self):
        """For one of several jobs of a test."""
        before, self.folder = self.folder, pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield
        finally:
            self.folder = before

    def job(self, command, env=None):
        job = Job(self.folder, command, env)
        self.addCleanup(job.close)
        return job

    def wrapped(self, *command):
        file = self.folder / "wrapper.py"
        file.write_text(WRAPPER)
        return [sys.executable, file, self.folder, *command]

    def good(self, command, **more):
        """Its JSON, of which there must be one."""
        code, out, err = execute(command, cwd=self.folder, **more)
        self.assertEqual(code, 0, err)
        return json.loads(out)
