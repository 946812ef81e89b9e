"""Our attention and PyTorch's scaled_dot_product_attention on the same tensors, in one process and
in turns; prints medians as Markdown. Run by bench/against-torch.
"""

import ctypes
import os
import statistics
import sys
import time
from datetime import date

import torch
import torch.nn.functional as F

HEADS = 4
ours = ctypes.CDLL(sys.argv[1])
rounds = int(sys.argv[2])


def pointer(t):
    return ctypes.c_void_p(t.data_ptr())


def timed(call, threads):
    """CPU time for one thread, whatever else the machine does; wall-clock time for several."""
    clock = time.process_time if threads == 1 else time.perf_counter
    time.sleep(0.02)  # threads of the other side may still be spinning
    start = clock()
    call()
    return clock() - start


def compare(dtype, n, dim, causal, threads):
    torch.set_num_threads(threads)
    q, k, v, g = (torch.randn(1, HEADS, n, dim).to(dtype) for _ in range(4))
    for t in (q, k, v):
        t.requires_grad_()
    out = torch.empty(1, HEADS, n, dim)
    lse = torch.empty(HEADS, n)
    grads = [torch.empty(1, HEADS, n, dim) for _ in range(3)]
    shape = (int(dtype == torch.bfloat16), HEADS, n, dim, int(causal), threads)
    inputs = [pointer(t) for t in (q, k, v)]

    def our_forward():
        ours.ringsched_forward(*shape, *inputs, pointer(out), pointer(lse))

    def our_backward():
        ours.ringsched_backward(
            *shape, *inputs, pointer(g), pointer(out), pointer(lse), *map(pointer, grads)
        )

    def their_forward():
        with torch.no_grad():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    graph = F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def their_backward():
        return torch.autograd.grad(graph, (q, k, v), g, retain_graph=True)

    our_forward()
    our_backward()
    # In float the same up to rounding; in bf16 theirs is rounded to bf16.
    close = 1e-3 if dtype == torch.float32 else 4e-2
    pairs = [(out, graph.detach())] + list(zip(grads, their_backward()))
    right = all((a - b.float()).abs().max() <= close * (1 + b.float().abs().max()) for a, b in pairs)
    flops = 4 * HEADS * n * n * dim * (0.5 if causal else 1)
    for name, times, mine, theirs in (
        ("forward", 1, our_forward, their_forward),
        ("backward", 2.5, our_backward, their_backward),
    ):
        a, b = [], []
        for _ in range(2):
            mine(), theirs()
        for _ in range(rounds):
            a.append(timed(mine, threads))
            b.append(timed(theirs, threads))
        m, t = statistics.median(a), statistics.median(b)
        print(
            f"| {str(dtype)[6:]} | {name} | {'causal' if causal else 'full'} | {n} | {dim} | {threads} "
            f"| {times * flops / m * 1e-9:.0f} | {times * flops / t * 1e-9:.0f} | {t / m:.2f} "
            f"| {statistics.median(y / x for x, y in zip(a, b)):.2f} | {'yes' if right else 'NO'} |",
            flush=True,
        )
    return right


with open("/proc/cpuinfo", encoding="utf-8") as f:
    model = next((line.split(": ")[1].strip() for line in f if line.startswith("model name")), "?")
print(
    f"{date.today()}, {model}, {os.cpu_count()} cores, PyTorch {torch.__version__} "
    f"({torch.backends.cpu.get_cpu_capability()}), {HEADS} heads, medians of {rounds} in turns, "
    f"GFLOP/s (1 thread: of CPU time; more: of wall time); load before {os.getloadavg()[0]:.1f}\n"
)
print("| type | pass | mask | tokens | dim | threads | ours | PyTorch | times | in pairs | same |")
print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
torch.manual_seed(1)
right = True
for threads in (1, 2):
    for dtype in (torch.float32, torch.bfloat16):
        for n, dim in ((512, 128), (2048, 128), (2048, 64)):
            for causal in (False, True):
                right &= compare(dtype, n, dim, causal, threads)
sys.exit(0 if right else 1)
