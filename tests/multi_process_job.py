"""What the tests of runs without MPI share: processes that a shell could have started, each with its
output and exit code."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

from mpi_job import ENVIRONMENT, PATIENCE, PROGRAM

FOREIGN = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "RINGSCHED_SECRET", "LOCAL_RANK")


def free_port():
    """A port below those that the system gives to outgoing connections: of these, other tests may take
    one before a process of this test listens there."""
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(10000, 32000)))
            return s.getsockname()[1]


def torchrun_variables(rank, ranks, port, address="127.0.0.1"):
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": str(port)}


class Started:
    """One process, with its output in files, so that nobody waits for a pipe."""

    def __init__(self, folder, command, env):
        self.out, self.err = (tempfile.TemporaryFile("w+") for _ in range(2))
        clean = {k: v for k, v in ENVIRONMENT.items() if k not in FOREIGN}
        self.began = time.monotonic()
        self.process = subprocess.Popen(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.err, env={**clean, **env}, start_new_session=True)
        self.pid, self.ended = self.process.pid, None

    def over(self):
        if self.process.poll() is not None and self.ended is None:
            self.ended = time.monotonic()
        return self.ended is not None

    def kill(self, number=signal.SIGKILL):
        """The group: what stands before the program (ip netns exec replaces itself) goes with it."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def read(self, file):
        file.seek(0)
        return file.read()

    def stdout(self):
        return self.read(self.out)

    def stderr(self):
        return self.read(self.err)

    def said(self):
        return [line for line in self.stderr().splitlines() if line.startswith("ringsched: ")]

    @property
    def code(self):
        return self.process.returncode


class Processes:
    """All processes of a run. `stalled`: the longest that a nap while waiting for them took, which is short
    unless the whole machine stood still."""

    def __init__(self, folder):
        self.folder, self.all, self.stalled = pathlib.Path(folder), [], 0

    def start(self, command, env, before=()):
        self.all.append(Started(self.folder, [*before, PROGRAM, *command], env))
        return self.all[-1]

    def ranks(self, ranks, *command, size=None, port=None, env=None):
        """As torchrun would start them on one machine."""
        port = port or free_port()
        for rank in ranks if isinstance(ranks, list) else range(ranks):
            self.start(command, {**torchrun_variables(rank, size or len(range(ranks)), port), **(env or {})})
        return self.all

    def wait(self, which=None, seconds=PATIENCE):
        """Until all (or those) have ended; whether they have."""
        which = self.all if which is None else which
        ends = time.monotonic() + seconds
        while not all([p.over() for p in which]):
            before = time.monotonic()
            if before > ends:
                return False
            time.sleep(0.005)
            self.stalled = max(self.stalled, time.monotonic() - before)
        return True

    def computing(self, seconds=0.2):
        """Until each has used the processor for so long, so that the run is under way, or one has ended."""
        ticks = os.sysconf("SC_CLK_TCK")

        def used(p):
            try:
                cells = pathlib.Path(f"/proc/{p.pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                return PATIENCE
            return (int(cells[11]) + int(cells[12])) / ticks

        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and not all(used(p) > seconds or p.over() for p in self.all):
            time.sleep(0.01)

    def waiting(self, which):
        """Until no thread of these has work to do: for most of 20 looks none of them wanted a processor."""
        def busy(p):
            states = []
            for stat in pathlib.Path(f"/proc/{p.pid}/task").glob("*/stat"):
                try:
                    states.append(stat.read_text().rsplit(")", 1)[1].split()[0])
                except OSError:
                    pass  # a thread that has ended
            return "R" in states

        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and not any(p.over() for p in which):
            looks = 0
            for _ in range(20):
                looks += any([busy(p) for p in which])
                time.sleep(0.01)
            if looks <= 5:
                return

    def close(self):
        for p in self.all:
            if not p.over():
                p.kill()
                p.process.wait()
            p.out.close()
            p.err.close()
