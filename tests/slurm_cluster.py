"""A Slurm on one machine that looks like two: its daemons, in a folder of their own, which all end with it."""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

from mpi_job import ENVIRONMENT, PATIENCE
from multi_process_job import free_port

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
DAEMONS = ("munged", "slurmctld", "slurmd")
NEEDED = (*DAEMONS, "srun", "sbatch", "sinfo", "setpriv")

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
FirstJobId={first_job}
SlurmdParameters=config_overrides
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName={other} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    return [name for name in NEEDED if not shutil.which(name, path=PATH)]


def have(pid, text):
    """Whether a process that is alive has this in its environment."""
    try:
        return text.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


class Cluster:
    """`folder`: with a short path, as sockets lie there."""

    def __init__(self, folder):
        self.folder, self.daemons = pathlib.Path(folder), []
        self.folder.chmod(0o755)  # munged wants that
        self.host = socket.gethostname().split(".")[0]
        self.nodes = [self.host, self.host + "-other"]
        ports = [free_port() for _ in range(3)]
        self.env = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": PATH}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=folder, host=self.host, other=self.nodes[1], user=pwd.getpwuid(os.getuid()).pw_name,
            ports=ports, first_job=ports[0] * 997))  # Open MPI calls files in /dev/shm by it: not those of another cluster
        for name in ("state", *(f"{kind}.{node}" for kind in ("spool", "tmp") for node in self.nodes)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        try:
            self.daemon("munged", "--foreground", f"--key-file={key}", f"--socket={folder}/munge.sock",
                        f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed")
            self.until(lambda: (self.folder / "munge.sock").exists(), "munged listened")
            self.daemon("slurmctld", "-D")
            for node in self.nodes:
                self.daemon("slurmd", "-D", "-N", node)
            self.until(lambda: self.command("sinfo", "-h", "-o", "%D %t").stdout.split() == ["2", "idle"], "both nodes were idle")
        except BaseException:
            self.close()
            raise

    def daemon(self, name, *arguments):
        """Which the system ends if nobody else does."""
        with open(self.folder / f"{name}.out", "a") as out:
            self.daemons.append(subprocess.Popen(
                [shutil.which("setpriv", path=PATH), "--pdeathsig", "TERM", shutil.which(name, path=PATH), *arguments],
                env={**ENVIRONMENT, **self.env}, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True))

    def until(self, condition, what):
        ends = time.monotonic() + PATIENCE
        while not condition():
            ended = [d.args[3] for d in self.daemons if d.poll() is not None]
            if ended or time.monotonic() > ends:
                said = "".join(file.read_text() for file in sorted(self.folder.glob("*.out")))
                raise AssertionError(f"before {what}: {', '.join(ended) or 'nothing'} ended\n{said}")
            time.sleep(0.05)

    def command(self, name, *arguments, **env):
        return subprocess.run([shutil.which(name, path=PATH), *map(str, arguments)], capture_output=True, text=True,
                              timeout=PATIENCE, cwd=self.folder, env={**ENVIRONMENT, **self.env, **env})

    def srun(self, *arguments, **env):
        """Which does not say that it waited for the job before."""
        return self.command("srun", "--quiet", *arguments, **env)

    def tasks(self, *variables):
        """Processes of this cluster that have these in their environment."""
        wanted = [f"SLURM_CONF={self.folder}/slurm.conf", *variables]
        pids = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if pid != os.getpid() and all(have(pid, text) for text in wanted)]

    def close(self):
        for daemon in reversed(self.daemons):  # munged last: the others end with it
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.tasks():  # what a test that failed has left
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
