#!/usr/bin/env python3
"""Ring attention written by hand in PyTorch, profiled: it knows nothing of ringsched, which reads its traces.

    torchrun --nproc-per-node 4 examples/torch_ring.py --traces traces
    ringsched plan --workers 4 --tokens 4096 --heads 8 --kv-heads 8 --head-dim 64 --dtype fp32 --mask full \\
        --schedule ring --output ring.json
    ringsched import traces/*.json --plan ring.json --output measured.json

docs/import.md has the rest. It needs torch alone, and runs on CPUs over gloo.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function


def attend(q, k, v, causal):
    """One tile, (batch, heads, tokens, head_dim): its result and log-sum-exp."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)


def merge(out, lse, more, more_lse):
    both = torch.logaddexp(lse, more_lse)
    out = out * (lse - both).exp()[..., None] + more * (more_lse - both).exp()[..., None]
    return out, both


def ring_attention(q, k, v, causal, skip=0):
    """Each rank's queries against all keys, which go round the ring; `skip` attends are left out, which is a bug."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    out = lse = None
    for step in range(ranks):
        arriving, works = (torch.empty_like(k), torch.empty_like(v)), []
        if step + 1 < ranks:
            to, source = (rank + 1) % ranks, (rank - 1) % ranks
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, to) for x in (k, v)] +
                                           [dist.P2POp(dist.irecv, x, source) for x in arriving])
        of = (rank - step) % ranks  # whose keys are here
        if (not causal or of <= rank) and step < ranks - skip:
            tile, tile_lse = attend(q, k, v, causal and of == rank)
            out, lse = (tile, tile_lse) if out is None else merge(out, lse, tile, tile_lse)
        for work in works:
            work.wait()
        if works:
            k, v = arriving
    return out


def main():
    flags = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    flags.add_argument("--traces", default="traces", help="folder for the traces, one per rank (default: traces)")
    flags.add_argument("--tokens", type=int, default=4096)
    flags.add_argument("--heads", type=int, default=8)
    flags.add_argument("--head-dim", type=int, default=64)
    flags.add_argument("--calls", type=int, default=3, help="calls of attention in the trace (default: 3)")
    flags.add_argument("--causal", action="store_true")
    flags.add_argument("--skip-on-rank", type=int, default=-1, help="this rank leaves out its last attend: a bug to be found")
    given = flags.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, given.heads, given.tokens, given.head_dim).chunk(ranks, 2)[rank].contiguous()
               for _ in range(3))
    ring_attention(q, k, v, given.causal)  # warm-up
    os.makedirs(given.traces, exist_ok=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(given.calls):
            dist.barrier()
            with record_function("ring"):
                ring_attention(q, k, v, given.causal, given.skip_on_rank == rank)
    profiler.export_chrome_trace(f"{given.traces}/rank-{rank}.json")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
