"""Microbenchmarks of every kind of operation, and the device file that fits them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from splitbench.edge.operation import Operation
from splitbench.edge.trace import Trace

aten = torch.ops.aten
Bench = Callable[[], Any]


def warm_up() -> None:
    """Loads the libraries behind torch's operators, so that no step pays for it."""
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 4))
    optimizer = torch.optim.Adam(layers.parameters(), fused=True)
    layers(torch.zeros(2, 3, 8, 8)).sum().backward()
    optimizer.step()


def _image(*shape: int) -> torch.Tensor:
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


def _conv(n: int, c: int, size: int, out: int, k: int, stride: int = 1, groups: int = 1, first: bool = False) -> Iterator[Bench]:
    x = _image(n, c, size, size)
    w = _image(out, c // groups, k, k)
    s, p = [stride, stride], [0 if k == stride else k // 2] * 2
    y = aten.convolution(x, w, None, s, p, [1, 1], False, [0, 0], groups)
    mask = [not first, True, False]
    yield lambda: aten.convolution(x, w, None, s, p, [1, 1], False, [0, 0], groups)
    yield lambda: aten.convolution_backward(y, x, w, [0], s, p, [1, 1], False, [0, 0], groups, mask)


def benches() -> Iterator[Bench]:
    for n, c, size, out, k, stride in ((64, 64, 8, 64, 3, 1), (64, 64, 16, 64, 3, 1), (64, 64, 28, 64, 3, 1), (64, 64, 28, 64, 3, 1),
            (16, 64, 56, 64, 3, 1), (64, 128, 4, 128, 3, 1), (64, 64, 8, 128, 3, 2), (64, 256, 2, 256, 3, 1), (64, 128, 8, 128, 3, 1), (64, 128, 14, 128, 3, 1), (64, 6, 14, 16, 5, 1), (16, 256, 14, 256, 3, 1), (8,64,8,64,3,1)):
        yield from _conv(n, c, size, out, k, stride)
    for n, c, size, out, k, stride in ((64, 3, 32, 64, 7, 2), (64, 1, 28, 6, 5, 1), (64, 3, 32, 64, 3, 1), (8, 3, 224, 64, 7, 2), (64, 1, 28, 64, 7, 2), (64, 3, 32, 192, 4, 4), (64, 1, 28, 64, 3, 1), (16, 3, 64, 64, 3, 1), (8, 3, 32, 64, 7, 2), (4, 3, 224, 768, 16, 16)):
        yield from _conv(n, c, size, out, k, stride, first=True)
    for n, c, size, out in ((64, 64, 8, 256), (64, 256, 8, 64), (64, 64, 16, 256), (16, 256, 28, 64), (64, 512, 4, 128), (64, 64, 8, 64)):
        yield from _conv(n, c, size, out, 1)
    for n, c, size, k in ((64, 64, 16, 3), (64, 128, 8, 3), (16, 96, 56, 3), (64, 32, 16, 3)):
        yield from _conv(n, c, size, c, k, 1, groups=c)
    for m, k, n in ((4160, 192, 576), (4160, 192, 768), (4160, 768, 192), (64, 400, 120), (64, 120, 84), (8192, 128, 128), (8192, 128, 512), (192, 4160, 768), (512, 8192, 128), (1024, 1024, 1024), (64, 1024, 4096)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        bias = torch.randn(n)
        yield functools.partial(torch.mm, a, b)
        yield functools.partial(torch.addmm, bias, a, b)
    for b, m, k, n in ((4096, 16, 16, 16), (4096, 8, 8, 8), (1024, 32, 32, 32), (4096, 14, 14, 14), (256, 128, 32, 128), (256, 128, 128, 32), (64, 128, 128, 128), (192, 65, 64, 65), (64, 65, 65, 192)):
        x, y = torch.randn(b, m, k), torch.randn(b, k, n)
        yield functools.partial(torch.bmm, x, y)
    for n, heads, length, width in ((64, 3, 65, 64), (16, 3, 197, 64), (64, 4, 49, 32), (8, 12, 197, 64)):
        q = torch.randn(n, heads, length, width)
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[:2]
        yield functools.partial(aten._scaled_dot_product_flash_attention_for_cpu, q, q, q)
        yield functools.partial(aten._scaled_dot_product_flash_attention_for_cpu_backward, out, q, q, q, out, lse, 0.0, False)


def clock() -> Callable[[], float]:
    """On one thread the processor's own time, which other programs hardly disturb; else time on the wall."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def timed(bench: Bench, least: float = 0.04, rounds: int = 7) -> float:
    """Seconds of one call: the lower quartile of several rounds, since whatever disturbs makes it longer."""
    now = clock()
    bench()
    start = now()
    bench()
    once = max(now() - start, 1e-7)
    count = max(1, int(least / rounds / once))
    found = []
    for _ in range(rounds):
        start = now()
        for _ in range(count):
            bench()
        found.append((now() - start) / count)
    return sorted(found)[rounds // 4]


def traced(bench: Bench) -> list[Operation]:
    with Trace() as trace:
        bench()
    return trace.operations


if __name__ == "__main__":
    torch.manual_seed(0)
    with torch.no_grad():
        for bench in benches():
            [op] = traced(bench)
            t = timed(bench)
            print(f"{op.kind:20s} {op.name[:30]:30s} macs {op.macs/1e6:9.2f}M bytes {op.bytes/1e6:7.2f}M depth {op.depth:5d} {t*1e6:9.0f} us  {op.macs/t/1e9:7.2f} GMAC/s {op.bytes/t/1e9:6.2f} GB/s")
