"""Runs several processes, and kills, stops or cuts off one at a random point. Each process must
end within the deadline and 5 seconds, with exit code 3 and nothing on its standard output. Or runs
many processes once, which must succeed while silent strangers connect to all their ports.

usage: multi_process_soak.py path/to/ringsched [--runs 200] [--seed 1]
       multi_process_soak.py path/to/ringsched --many 300 [--strangers 300]
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

GRACE = 5
SILENCE = 15  # seconds without a sign of life, where the deadline is later
DEADLINE = 2

# What a run may be at: its tasks; meeting the others, again and again; checking numbers, which takes long.
PROBLEMS = (
    "-w 4 --tokens 128K --heads 1 --kv-heads 1 --head-dim 64 --dtype fp32 --mask full --schedule ring --repeat 1",
    "-w 4 --tokens 400 --heads 2 --kv-heads 1 --head-dim 16 --schedule balanced --repeat 10000",
    "-w 4 --tokens 6000 --heads 8 --head-dim 128 --repeat 1 --check --check-rows 6000",
)


class Hosts:
    """Two network namespaces as two hosts, joined by a link that can be cut. None without root."""

    def __init__(self):
        self.name = f"rsk{os.getpid() % 100000}"
        self.there = os.geteuid() == 0 and shutil.which("ip") is not None
        if not self.there:
            return
        try:
            for host in "ab":
                self.ip("netns", "add", self.name + host)
            self.ip("link", "add", self.name + "va", "netns", self.name + "a", "type", "veth", "peer", "name",
                    self.name + "vb", "netns", self.name + "b")
            for n, host in enumerate("ab"):
                self.ip("-n", self.name + host, "link", "set", "lo", "up")
                self.ip("-n", self.name + host, "addr", "add", f"10.78.0.{n + 1}/24", "dev", f"{self.name}v{host}")
            self.join()
        except subprocess.CalledProcessError:
            self.close()
            self.there = False

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def join(self):
        for host in "ab":
            self.ip("-n", self.name + host, "link", "set", f"{self.name}v{host}", "up")

    def cut(self):
        self.ip("-n", self.name + "b", "link", "set", self.name + "vb", "down")

    def inside(self, n):
        return ["ip", "netns", "exec", self.name + "ab"[n]]

    def close(self):
        for host in "ab":
            subprocess.run(["ip", "netns", "del", self.name + host], capture_output=True)


def one_run(folder, hosts, chance):
    """What was wrong; empty if nothing was. What was done. And whether the machine stood still meanwhile."""
    from multi_process_job import Processes, free_port, torchrun_variables
    ranks = chance.choice((2, 3, 4))
    what = chance.choice(("kill", "stop", "cut") if hosts.there else ("kill", "stop"))
    deadline = 600 if what == "kill" or chance.random() < 0.05 else DEADLINE
    victim, delay, problem = chance.randrange(ranks), chance.random() * 1.5, chance.choice(PROBLEMS)
    limit = (0 if what == "kill" else min(deadline, SILENCE)) + GRACE
    told = f"{ranks} processes, {what} {victim} after {delay:.2f} s, deadline {deadline}: {problem}"
    p, port, wrong = Processes(folder), free_port(), []
    if what == "cut":
        victim = max(victim, 1)  # from there on they are on the other host
    try:
        for rank in range(ranks):
            address = "10.78.0.1" if what == "cut" else "127.0.0.1"
            p.start(["run", *problem.split(), "--no-chart", "--deadline", deadline, "--timeline", f"t{port}.json"],
                    torchrun_variables(rank, ranks, port, address), hosts.inside(rank >= victim) if what == "cut" else ())
        time.sleep(delay)
        since = time.monotonic()
        # A process killed before it has come is waited for, as long as the deadline is.
        if what == "kill" and not p.all[victim].over():
            if delay < 0.5:
                p.computing(0.05)
                since = time.monotonic()
            p.all[victim].kill()
        elif what == "stop":
            p.all[victim].kill(signal.SIGSTOP)
        else:
            hosts.cut()

        def all_end(which, since, limit):
            p.wait([p.all[r] for r in which], limit + 30 - (time.monotonic() - since))
            for r in which:
                one = p.all[r]
                if not one.over():
                    wrong.append(f"process {r} has not ended")
                elif one.ended - since > limit:
                    wrong.append(f"process {r} took {one.ended - since:.1f} s, allowed are {limit}")
                elif one.code != 3 or one.stdout() != "" or not one.said():
                    wrong.append(f"process {r} ended with {one.code} and said {one.stderr()!r}")

        all_end([r for r in range(ranks) if r != victim or what == "cut"], since, limit)
        if what == "stop":
            p.all[victim].kill(signal.SIGCONT)
            all_end([victim], time.monotonic(), limit)
    finally:
        p.close()
        if what == "cut":
            hosts.join()
        for file in pathlib.Path(folder).glob(f"t{port}.json"):
            file.unlink()
    return wrong, told, p.stalled > 1


def soak(folder, runs, seed, say):
    """What went wrong, a text for each run that did."""
    chance, hosts, failed = random.Random(seed), Hosts(), []
    try:
        for n in range(runs):
            wrong, told, still = one_run(folder, hosts, chance)
            while wrong and still:
                say(f"again, as the machine stood still: {told}: {'; '.join(wrong)}")
                wrong, told, still = one_run(folder, hosts, chance)
            if wrong:
                failed.append(f"{told}: {'; '.join(wrong)}")
            say(f"{n + 1 - len(failed)} of {n + 1} well; {told}" + (f"\n  WRONG: {'; '.join(wrong)}" if wrong else ""))
    finally:
        if hosts.there:
            hosts.close()
    return failed


def ports_of(pid):
    """At which this process listens."""
    try:
        files = {os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
        lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return set()
    rows = [line.split() for line in lines]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in files}


def many(folder, count, strangers, deadline, say):
    """What went wrong in a run of so many processes on this machine."""
    from multi_process_job import Processes
    p, since, silent, met = Processes(folder), time.monotonic(), [], {}
    command = (f"run -w {count} --schedule ring --tokens {2 * count} --heads 1 --kv-heads 1 --head-dim 16 --repeat 1 --no-chart "
               f"--deadline {deadline}")
    try:
        p.ranks(count, *command.split())
        say(f"{count} processes started within {time.monotonic() - since:.1f} s")
        while not all([one.over() for one in p.all]) and time.monotonic() - since < 6 * deadline:
            for one in p.all[:3] if strangers else ():
                for port in ports_of(one.pid) - met.keys():
                    met[port] = 0
                    for _ in range(strangers):
                        try:
                            silent.append(socket.create_connection(("127.0.0.1", port), timeout=5))
                            met[port] += 1
                        except OSError:
                            break
            time.sleep(0.02)
        took = time.monotonic() - since
        wrong = [f"process {r} ended with {one.code} and said {one.stderr()[-500:]!r}" for r, one in enumerate(p.all)
                 if not one.over() or one.code != 0 or (one.stderr() and not strangers)]
        told = max(one.stderr().count("\n") for one in p.all)
        say(f"{count - len(wrong)} of {count} processes ended well after {took:.1f} s; strangers by port {met}; at most {told} lines "
            "on standard error\n" + p.all[0].stdout() + "\n".join(wrong[:5]))
        return wrong
    finally:
        for one in silent:
            one.close()
        p.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--many", type=int, metavar="PROCESSES")
    parser.add_argument("--strangers", type=int, default=0, metavar="CONNECTIONS", help="to each port of the first processes")
    parser.add_argument("--deadline", type=int, default=60, help="of the run of many processes")
    options = parser.parse_args()
    sys.argv = [sys.argv[0], options.program]  # for mpi_job
    with tempfile.TemporaryDirectory() as folder:
        if options.many:
            return 1 if many(folder, options.many, options.strangers, options.deadline, lambda text: print(text, flush=True)) else 0
        failed = soak(folder, options.runs, options.seed, lambda text: print(text, flush=True))
    print(f"{options.runs - len(failed)} of {options.runs} runs ended on every process in time, with exit code 3")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
