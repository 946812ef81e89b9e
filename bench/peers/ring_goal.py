"""The workload of ../reference_ring.cpp as a GOAL schedule for LogGOPSim.

usage: ring_goal.py W S [JITTER] > ring.goal
Then: txt2bin -i ring.goal -o ring.bin && LogGOPSim -f ring.bin -L 2000 -o 0 -g 0 -O 0 -G 333
Sizes are in units of 1e5 bytes: one takes 333 ns at 300 GB/s, and G is whole nanoseconds.
"""

import sys

MASK = (1 << 64) - 1


def spread(worker: int, step: int, salt: int, jitter: float) -> float:
    z = ((worker << 33) ^ (step << 2) ^ salt) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    z ^= z >> 31
    return 1 + jitter * (2 * (z >> 11) / 9007199254740992 - 1)


def main() -> None:
    workers, steps = int(sys.argv[1]), int(sys.argv[2])
    jitter = float(sys.argv[3]) / 100 if len(sys.argv) > 3 else 0.0
    write = sys.stdout.write
    write(f"num_ranks {workers}\n")
    for r in range(workers):
        before, after = (r - 1) % workers, (r + 1) % workers
        lines = [f"rank {r} {{"]
        for s in range(steps):
            ns = int((1_000_000 if s <= r else 10_000) * spread(r, s, 1, jitter))
            lines.append(f"c{s}: calc {ns} cpu 0")
            if s:
                lines += [f"c{s} requires c{s - 1}", f"c{s} requires r{s - 1}"]
            if s + 1 == steps:
                break
            lines.append(f"s{s}: send {int(1000 * spread(r, s, 2, jitter))}b to {after} tag {s} cpu 1")
            lines.append(
                f"r{s}: recv {int(1000 * spread(before, s, 2, jitter))}b from {before} tag {s} cpu 1")
            if s:
                lines += [f"s{s} requires r{s - 1}", f"r{s} requires r{s - 1}"]
        lines.append("}\n")
        write("\n".join(lines))


main()
