"""Microbenchmarks: for each kind of operation a few of its kind, at sizes that networks at the edge have."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

aten = torch.ops.aten
Bench = Callable[[], object]
CACHES = 4 * 2**20  # bytes: more than the nearest caches hold
SIZES = (0.06e6, 0.5e6, 4e6, 24e6, 96e6)  # bytes of the largest tensor of a pass over memory


def clock() -> Callable[[], float]:
    """On one thread the processor's own time, which other programs hardly disturb; else time on the wall."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def timed(bench: Bench, least: float = 0.06) -> float:
    """Seconds of one call: the shortest of several, since whatever else runs only makes it longer.

    Between calls the nearest caches are filled with something else, as in a network nobody works twice on the same.
    """
    now = clock()
    other = torch.zeros(CACHES // 4)
    bench()
    found: list[float] = []
    while len(found) < 5 or (sum(found) < least and len(found) < 40):
        other.add_(1)
        start = now()
        bench()
        found.append(now() - start)
    return max(min(found), 1e-7)


def warm_up() -> None:
    """Loads the libraries behind torch's operators, so that no step pays for it."""
    layers: nn.Module = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(2), nn.Linear(36, 4)
    )
    layers = layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(layers.parameters(), fused=True)
    z = layers(_image(8, 3, 16, 16))
    F.scaled_dot_product_attention(z, z, z).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def small_layers() -> tuple[Bench, int]:
    """Layers so small that only calling them takes time, forward and backward, and how many there are."""
    depth = 24
    layers = nn.Sequential(*(part for _ in range(depth) for part in (nn.Linear(2, 2), nn.ReLU())))
    x = torch.zeros(1, 2)

    def run() -> None:
        with torch.enable_grad():
            layers(x).sum().backward()

    return run, depth


def _image(*shape: int) -> Tensor:
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)


def _conv(n: int, c: int, size: int, out: int, k: int, stride: int = 1, groups: int = 1) -> Iterator[Bench]:
    x, w = _image(n, c, size, size), _image(out, c // groups, k, k)
    steps, margin = [stride, stride], [0 if k == stride else k // 2] * 2
    rest = (steps, margin, [1, 1], False, [0, 0], groups)
    y = aten.convolution(x, w, None, *rest)
    # A network's first layer, which is what sees few channels, owes nobody a slope.
    wanted = [c > 3, True, False]
    yield functools.partial(aten.convolution, x, w, None, *rest)
    yield functools.partial(aten.convolution_backward, y, x, w, [0], *rest, wanted)


# Images, channels, side, filters, kernel, stride: wide layers, then first layers of colour, narrow ones, first layers
# of grey, patches that do not overlap, and single pixels.
_SHAPES = (
    (64, 64, 8, 64, 3, 1), (64, 64, 16, 64, 3, 1), (32, 64, 28, 64, 3, 1), (64, 128, 8, 128, 3, 1),
    (64, 64, 8, 128, 3, 2), (16, 128, 14, 128, 3, 1), (8, 64, 56, 64, 3, 1), (16, 16, 16, 32, 3, 1),
    (64, 3, 32, 64, 7, 2), (64, 3, 32, 64, 3, 1), (8, 3, 112, 64, 7, 2), (16, 3, 64, 64, 7, 2),
    (64, 1, 28, 6, 5, 1), (64, 6, 14, 16, 5, 1), (64, 3, 32, 6, 5, 1), (64, 8, 16, 8, 3, 1),
    (64, 1, 28, 64, 7, 2), (64, 1, 28, 64, 3, 1), (32, 1, 28, 32, 5, 1),
    (64, 3, 32, 192, 4, 4), (4, 3, 224, 192, 16, 16), (64, 1, 28, 192, 4, 4), (64, 3, 32, 64, 4, 4),
    (64, 64, 8, 256, 1, 1), (64, 256, 8, 64, 1, 1), (32, 64, 16, 256, 1, 1), (64, 512, 4, 128, 1, 1),
    (64, 64, 8, 64, 1, 1),
)  # fmt: skip


def products() -> Iterator[Bench]:
    """Convolutions, matrix products and attention."""
    for shape in _SHAPES:
        yield from _conv(*shape)
    for n, c, size in ((64, 64, 16), (64, 128, 8), (8, 96, 56), (64, 32, 16)):
        yield from _conv(n, c, size, c, 3, 1, groups=c)
    for n, c, size in ((64, 64, 8), (64, 32, 16)):
        yield from _conv(n, c, size, 2 * c, 3, 2, groups=c)  # as networks that halve their maps have them
    for m, k, n in ((4160, 192, 576), (4160, 768, 192), (64, 400, 120), (64, 120, 84), (8192, 128, 128),
                    (8192, 128, 512), (192, 4160, 768), (512, 8192, 128), (1024, 1024, 1024), (1024, 256, 64),
                    (65536, 16, 16), (16384, 32, 32), (57344, 14, 14)):  # fmt: skip
        a, b, bias = torch.randn(m, k), torch.randn(k, n), torch.randn(n)
        yield functools.partial(torch.mm, a, b)
        yield functools.partial(torch.addmm, bias, a, b)
    for n, m, k, out in ((4096, 16, 16, 16), (4096, 8, 8, 8), (1024, 32, 32, 32), (4096, 14, 14, 14),
                         (256, 128, 32, 128), (256, 128, 128, 32), (64, 128, 128, 128), (64, 65, 65, 192)):  # fmt: skip
        yield functools.partial(torch.bmm, torch.randn(n, m, k), torch.randn(n, k, out))
    for n, heads, length, width in ((64, 3, 65, 64), (16, 3, 197, 64), (64, 4, 50, 32), (4, 12, 197, 64)):
        q = torch.randn(n, heads, length, width)
        y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)[:2]
        yield functools.partial(aten._scaled_dot_product_flash_attention_for_cpu, q, q, q)
        back = aten._scaled_dot_product_flash_attention_for_cpu_backward
        yield functools.partial(back, y, q, q, q, y, sums, 0.0, False)
    for n, size in ((256, 64), (64, 224)):
        yield functools.partial(torch.fft.fft2, torch.randn(n, size, size, dtype=torch.complex64))


def passes(size: float) -> Iterator[Bench]:
    """Operations that mostly pass over memory, their largest tensor of about this many bytes."""
    n = int(size / 4) // 512 * 512
    x, y = torch.randn(n), torch.randn(n)
    mask, places = y > 0, torch.randperm(n // 64)
    rows, lines = x.view(-1, 128), x.view(-1, 64)
    yield lambda: x + y
    yield lambda: torch.relu(x)
    yield lambda: aten.threshold_backward(x, y, 0)
    yield lambda: y > 0
    yield lambda: torch.where(mask, x, y)
    yield lambda: F.gelu(x)
    yield lambda: aten.gelu_backward(x, y)
    yield lambda: torch.softmax(rows, -1)
    yield lambda: rows.sum(0)
    yield lambda: torch.linalg.vector_norm(lines, dim=-1)
    yield lambda: lines.cumsum(-1)
    yield lambda: lines[places]
    yield lambda: x.clone()
    yield lambda: torch.zeros(n)
    yield lambda: torch.randn(n)
    yield lambda: torch.native_dropout(x, 0.1, True)
    yield lambda: lines.sort()
    yield from _norms(n, rows)
    yield from _pools(n)
    yield from _pools(n, channels=6)
    table, tokens = torch.randn(max(16, n // 512), 128), torch.randint(0, max(16, n // 512), (n // 128,))
    yield lambda: F.embedding(tokens, table)
    yield lambda: aten.embedding_dense_backward(rows, tokens, len(table), -1, False)


def _norms(n: int, rows: Tensor) -> Iterator[Bench]:
    maps, one, zero = _image(max(1, n // 64 // 64), 64, 8, 8), torch.ones(64), torch.zeros(64)
    _, mean, spread = torch.native_batch_norm(maps, one, zero, zero, one, True, 0.1, 1e-5)
    flags = [True, True, True]
    yield lambda: torch.native_batch_norm(maps, one, zero, zero, one, True, 0.1, 1e-5)
    back = aten.native_batch_norm_backward
    yield lambda: back(maps, maps, one, zero, one, mean, spread, True, 1e-5, flags)
    slope = maps.contiguous()
    yield lambda: back(slope, maps, one, zero, one, mean, spread, True, 1e-5, flags)
    scale = torch.ones(128)
    _, middle, width = torch.native_layer_norm(rows, [128], scale, scale, 1e-5)
    yield lambda: torch.native_layer_norm(rows, [128], scale, scale, 1e-5)
    yield lambda: aten.native_layer_norm_backward(rows, rows, [128], middle, width, scale, scale, flags)


def _pools(n: int, channels: int = 64) -> Iterator[Bench]:
    maps = _image(max(1, n // channels // 256), channels, 16, 16)
    small, where = aten.max_pool2d_with_indices(maps, [2, 2], [2, 2])
    yield lambda: aten.max_pool2d_with_indices(maps, [2, 2], [2, 2])
    back = aten.max_pool2d_with_indices_backward
    yield lambda: back(small, maps, [2, 2], [2, 2], [0, 0], [1, 1], False, where)


def update(size: float, parameters: int = 1) -> Bench:
    """A fused step of Adam over parameters of so many bytes together."""
    several = [nn.Parameter(torch.randn(int(size / 4 / parameters))) for _ in range(parameters)]
    for p in several:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.Adam(several, fused=True)
    optimizer.step()
    return optimizer.step
