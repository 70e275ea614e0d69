"""Periodic functions, and the orthonormal bases SEAL makes of them (its section 4.2 and algorithm 1)."""

from __future__ import annotations

import functools
import math
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from splitbench.core.errors import CellError, SplitbenchError, nearest
from splitbench.core.randomness import generator

Over = Literal["rows", "columns"]

WORST_CONDITION = 50.0  # of the sampled matrix: beyond it, what orthonormalisation returns is rounding
_TRIES = 200  # of drawing a function that is valid; four in five are
_TERM = re.compile(r"([+-]?)(\d*\.?\d*)\*?cos\((\d*)\*?x([+-]\d*\.?\d+)?\)")


@dataclass(frozen=True)
class Periodic:
    """A function of period 2 pi. Another period T changes nothing: the nodes are fractions of it."""

    name: str
    at: Callable[[Tensor], Tensor]


def _triangle(x: Tensor) -> Tensor:
    return 1 - 2 * (torch.remainder(x + math.pi, 2 * math.pi) - math.pi).abs() / math.pi


# Even functions are good bases; odd ones are zero at the first node and are here to be refused.
CATALOGUE: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "cos": torch.cos,  # the discrete cosine transform
        "triangle": _triangle,
        "square": lambda x: torch.where(x.cos() >= 0, 1.0, -1.0).to(x),
        "exp_cos": lambda x: x.cos().exp() - 1.2660658777520084,  # its mean, the Bessel function I0(1)
        "sin": torch.sin,
        "sawtooth": lambda x: 2 * torch.remainder(x / (2 * math.pi), 1) - 1,
    }
)


def named(text: str) -> Periodic:
    """A function of the catalogue, or a sum of cosines such as `cos(x)+0.9cos(2x-0.3)`."""
    if text in CATALOGUE:
        return Periodic(text, CATALOGUE[text])
    terms, end = [], 0
    plain = text.replace(" ", "")
    for found in _TERM.finditer(plain):
        sign, amplitude, order, phase = found.groups()
        if found.start() != end or (end and not sign):
            break
        terms.append((float(f"{sign}{amplitude or 1}"), int(order or 1), float(phase or 0)))
        end = found.end()
    if not terms or end != len(plain):
        close = [name for name in CATALOGUE if text.startswith(name)] or CATALOGUE
        raise SplitbenchError(
            f"'{text}' is no periodic function{nearest(text, close)} (or a sum such as 'cos(x)+0.9cos(2x-0.3)')"
        )
    return harmonics(terms)


def harmonics(terms: list[tuple[float, int, float]]) -> Periodic:
    """The sum of amplitude * cos(order * x + phase)."""
    text = "".join(
        f"{'+' if a == 1 else format(a, '+.12g')}cos({h if h > 1 else ''}x{format(p, '+.12g') if p else ''})"
        for a, h, p in terms
    )
    amplitudes, orders, phases = (torch.tensor(column, dtype=torch.float64) for column in zip(*terms, strict=True))
    return Periodic(
        text.removeprefix("+"), lambda x: (amplitudes * torch.cos(x.double()[..., None] * orders + phases)).sum(-1)
    )


def new_key() -> int:
    """A key that nobody else has."""
    return secrets.randbits(63)


@functools.lru_cache(maxsize=256)
def secret(key: int, client: int, sizes: tuple[int, ...]) -> Periodic:
    """A client's own function: a fundamental and two to seven harmonics that fade, drawn until they are valid."""
    draws = generator(key, "periodic function", client)
    for _ in range(_TRIES):
        count = int(torch.randint(2, 8, (), generator=draws))
        fade = 0.3 + 0.6 * torch.rand((), generator=draws, dtype=torch.float64)
        heights = 2 * torch.rand(count, generator=draws, dtype=torch.float64) - 1
        phases = math.pi * (2 * torch.rand(count + 1, generator=draws, dtype=torch.float64) - 1)
        heights = torch.cat((torch.ones(1, dtype=torch.float64), heights * fade ** torch.arange(1, count + 1)))
        function = harmonics(
            [(float(a), h, float(p)) for h, (a, p) in enumerate(zip(heights, phases, strict=True), start=1)]
        )
        if all(not judge(function, size).problems for size in sizes):
            return function
    raise CellError(f"no valid periodic function was found for sizes {sizes} in {_TRIES} draws")


def sampled(function: Periodic, size: int) -> Tensor:
    """C[k, n] = f(k T (2n + 1) / 4N) in float64: the paper's Chebyshev nodes, which are equidistant angles."""
    k = torch.arange(size, dtype=torch.float64)[:, None]
    n = torch.arange(size, dtype=torch.float64)
    return function.at(2 * math.pi * k * (2 * n + 1) / (4 * size)).double()


@dataclass(frozen=True)
class Verdict:
    """What a function is worth at one size."""

    integral: float  # over a period, as a share of the mean of |f|; the paper asks for 0
    zero_nodes: int  # nodes at which it is zero; the paper asks for none
    condition: float  # of the sampled matrix with rows of length one
    problems: tuple[str, ...]  # why no basis can be made of it

    @property
    def published(self) -> bool:
        """Whether the paper's two conditions hold. They are neither sufficient nor necessary."""
        return abs(self.integral) < 1e-6 and self.zero_nodes == 0


@functools.lru_cache(maxsize=4096)
def judge(function: Periodic, size: int) -> Verdict:
    # In the middle of small steps, where a jump falls between two of them.
    period = function.at((torch.arange(20_000, dtype=torch.float64) + 0.5) * 2 * math.pi / 20_000).double()
    integral = float(period.mean() / period.abs().mean().clamp_min(1e-300))
    matrix = sampled(function, size)
    if not bool(matrix.isfinite().all()):
        return Verdict(integral, 0, math.inf, ("it is not finite at every node",))
    norms = matrix.norm(dim=1)
    largest = max(float(matrix.abs().max()), 1e-300)
    zeros = int((matrix.abs() < 1e-12 * largest).sum())
    problems = []
    if float(matrix[0, 0].abs()) < 1e-12 * largest:
        problems.append("f(0) is 0, so the first row, which is constant, has no direction")
    elif float(norms.min()) < 1e-9 * largest:
        problems.append(f"row {int(norms.argmin())} is zero at every node")
    condition = math.inf
    if not problems:
        singular = torch.linalg.svdvals(matrix / norms[:, None])
        condition = float(singular[0] / singular[-1].clamp_min(1e-300))
        if condition > WORST_CONDITION:
            rank = int((singular > 1e-9 * singular[0]).sum())
            problems.append(
                f"its rows have rank {rank} of {size}"
                if rank < size
                else f"its rows are too nearly dependent (condition {condition:.0f}, at most {WORST_CONDITION:.0f})"
            )
    return Verdict(integral, zeros, condition, tuple(problems))


@functools.lru_cache(maxsize=256)
def basis(function: Periodic, size: int, over: Over = "rows") -> Tensor:
    """Q of algorithm 1, (N, N) in float64, orthonormalised over its rows or, as section 4.2 has it, its columns.

    QR is Gram-Schmidt that stays orthonormal, once its signs are those of Gram-Schmidt.
    """
    if size == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    problems = judge(function, size).problems
    if problems:
        raise CellError(f"the function {function.name} makes no basis of size {size}: {'; '.join(problems)}")
    matrix = sampled(function, size)
    matrix = matrix / matrix.norm(dim=1, keepdim=True)
    q, r = torch.linalg.qr(matrix.T if over == "rows" else matrix)
    signed: Tensor = q * r.diagonal().sign()
    return (signed.T if over == "rows" else signed).contiguous()
