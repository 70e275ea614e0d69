"""SEAL's secret bases, from nothing but the maps it sends.

A sent map is Q' Z P with Z zero beyond a prefix of the zig-zag order: whole diagonals before the e-th, and the e-th
(i + j = e, from the top if e is odd, from the bottom if it is even) as far as the prefix goes. So its rank is e, while
there is room, and its columns span the first e rows of Q if e is odd, its rows the first e rows of P if e is even: one
subspace for all maps of a rank, whatever their prefixes. Rows of Q and P are what each span has and the one before it
has not. Short prefixes are not needed: every rank tells of its own span, and what is left of a map without the first h
rows of Q and the first g of P is shaped the same, so that spans that no rank shows are told by others.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.core.randomness import generator
from splitbench.methods.seal.zigzag import OneFor, reach

_BLANK = 1e-6  # of the largest map's norm: below that there is nothing to see
_ROUNDING = 3e-7  # of a map's norm: singular values below are what float32 leaves of zero
_KNOWN = 1e-5  # the same, of what is left of a map without what is known, which is not known any better
_CLEAR = 10  # times as much is not zero; singular values between the two tell no rank
_OUTSIDE = 3e-5  # of a map's norm may lie outside of a span it is said to lie in
_NESTED = 1e-3  # sine of the angle by which a span may leave the next
_WITNESSES = 4  # maps at least, and a third of those asked, that agree on a span
_HALVES = 8  # times that the half that agrees best is chosen anew
_ASKED = 256  # maps at most that are asked for a span
_WORK = 2e8  # multiplications or so for the rank of all maps that are looked at
_SAME = 0.8  # of the maps of an image end with it, if they share a prefix: some are all but zero there
_FULL = 0.98  # of the places of a prefix are not zero

Spans = dict[int, Tensor]  # by dimension d: (d, N), orthonormal


@dataclass(frozen=True)
class Bases:
    """Rows of both matrices in the order in which they are kept, orthonormal in float64, each up to its sign."""

    down: Tensor  # (H, H), Q
    across: Tensor  # (W, W), P
    found: tuple[int, int]  # rows of each that the maps tell; the others are the cosine's, made to fit


@torch.no_grad()
def recover(maps: Tensor) -> Bases:
    """The bases of maps (M, H, W). Square maps are taken to have one basis for both sides, as SEAL gives them."""
    height, width = maps.shape[-2:]
    y = _readable(maps)
    down, across = _Side(height), _Side(width)
    if height == width:
        across = down
    asked: tuple[set[tuple[int, int, int]], ...] = (set(), set())
    for _ in range(height + width):
        before = len(down.spans) + len(across.spans)
        z = down.rows @ y @ across.rows.T
        # Turned, a map tells by its rows of Q what it told by its columns.
        even, odd = _told(z, down, across, 0, asked[0]), _told(z.mT, across, down, 1, asked[1])
        across.learn(even)
        down.learn(odd)
        if len(down.spans) + len(across.spans) == before:
            break
    return Bases(down.rows, across.rows, (down.found, across.found))


@torch.no_grad()
def prefixed(maps: Tensor, bases: Bases) -> float:
    """The share of the maps (M, H, W), blank ones aside, that are a prefix of the zig-zag, and not all of it."""
    y = _readable(maps)
    if not len(y):
        return 0.0
    length, there = _prefixes(y, bases)
    # Margins too leave zeros where what differs between maps ends, but of rows and columns, not of diagonals.
    full = there >= _FULL * length
    return float((full & (length < y[0].numel())).double().mean())


@torch.no_grad()
def one_for(images: Tensor, bases: Bases) -> OneFor:
    """Whether each map of (N, C, H, W) has a prefix of its own or all maps of an image the same."""
    if images.dim() < 4 or images.shape[1] < 2 or not len(images):
        return "map"
    norms = torch.linalg.matrix_norm(images)
    seen = norms > _BLANK * norms.max()
    length, _ = _prefixes(images.double().cpu() / norms.clamp_min(1e-300).double().cpu()[..., None, None], bases)
    same = (length == length.amax(1, keepdim=True))[seen.cpu()]
    return "image" if float(same.double().mean()) > _SAME else "map"


def _prefixes(y: Tensor, bases: Bases) -> tuple[Tensor, Tensor]:
    """How far in the zig-zag each map (..., H, W) of norm one goes, and how many of its coefficients are not zero."""
    there = (bases.down @ y @ bases.across.T).abs() > _KNOWN
    return reach(there), there.sum((-2, -1))


class _Side:
    """What is known of one basis: spans of its first rows, and rows that make them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.spans: Spans = {}
        self.rows, self.found = _rows(self.spans, size)

    @property
    def known(self) -> list[int]:
        return sorted({0, *self.spans, self.size})

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """From which known span to which there is more than one row."""
        return [(a, b) for a, b in itertools.pairwise(self.known) if b - a > 1]

    def learn(self, told: list[tuple[int, Tensor]]) -> None:
        for size, span in told:
            if size not in self.spans and all(_nested(span, other) for other in self.spans.values()):
                self.spans[size] = span
        self.rows, self.found = _rows(self.spans, self.size)


def _readable(maps: Tensor) -> Tensor:
    """Maps that are not blank, of norm one in float64; a part drawn at random if there are very many."""
    height, width = maps.shape[-2:]
    norms = torch.linalg.matrix_norm(maps)
    seen = (norms > _BLANK * norms.max()).nonzero()[:, 0] if len(maps) else torch.arange(0)
    most = max(_ASKED, int(_WORK / (height * width * min(height, width))))
    seen = seen[torch.randperm(len(seen), generator=generator(0, "maps"))[:most].to(seen.device)]
    unit: Tensor = maps[seen].double() / norms[seen, None, None].double()
    return unit.cpu()


def _told(z: Tensor, left: _Side, right: _Side, odd: int, asked: set[tuple[int, int, int]]) -> list[tuple[int, Tensor]]:
    """Spans on the right that are not known yet, with their dimensions, from maps in terms of what is known.

    What was asked before has the same answer now.
    """
    told: list[tuple[int, Tensor]] = []
    for start, end in right.gaps:
        tops = [top for top in left.known[:-1] if (top, start, end) not in asked]
        beyond = torch.linalg.vector_norm(z[..., end:], dim=-1).square().flip(-1).cumsum(-1).flip(-1).sqrt()
        before = len(told)
        for top in tops:
            asked.add((top, start, end))
            whole = start == top == 0
            zero = _ROUNDING if whole else _KNOWN
            # What begins after `top` rows and `start` columns, of maps that have nothing there further right.
            part = z[beyond[:, top] < _OUTSIDE, top:, start:end]
            part = part[torch.linalg.matrix_norm(part) > _CLEAR * zero][: None if whole else 16 * _ASKED]
            rank = _ranks(part, zero)
            for size in set(rank.tolist()):
                if 0 < size < min(end - start, z.shape[1] - top) and (size + top + start) % 2 == odd:
                    span = _agreed(part[rank == size], size)
                    if span is not None:
                        told.append((start + size, torch.cat((right.rows[:start], span @ right.rows[start:end]))))
            if len(told) > before:
                break  # the gap is no longer the same
    return told


def _ranks(y: Tensor, zero: float) -> Tensor:
    """The rank of each map, -1 if it is not clear."""
    singular = torch.linalg.svdvals(y)
    rank = (singular > zero).sum(-1)
    return torch.where((singular > _CLEAR * zero).sum(-1) == rank, rank, -1)


def _agreed(y: Tensor, size: int) -> Tensor | None:
    """The span of so many dimensions that holds the rows of most maps, if there is one."""
    _, singular, rows = torch.linalg.svd(y[: 4 * _ASKED], full_matrices=False)
    clearest = singular[:, size - 1].argsort(descending=True)[:_ASKED]
    y, rows = y[clearest], rows[clearest, :size]
    # First every map has the same say, then the half that agrees best: ranks may be misread.
    span = _leading(rows, size)
    for _ in range(_HALVES):
        apart = torch.linalg.matrix_norm(rows - rows @ span.T @ span)
        span = _leading(rows[apart.argsort()[: len(rows) // 2 + 1]], size)
    for _ in range(3):
        inside = torch.linalg.matrix_norm(y - y @ span.T @ span) < _OUTSIDE
        if inside.sum() < max(_WITNESSES, len(y) / 3):
            return None
        # Rounding being the same for all, a direction is told best by those that have most of it.
        span = _leading(y[inside], size)
    return span


def _leading(rows: Tensor, size: int) -> Tensor:
    """The span of so many dimensions that holds most of the squares of all these rows."""
    flat = rows.flatten(0, 1)
    vectors: Tensor = torch.linalg.eigh(flat.T @ flat)[1]
    return vectors[:, -size:].T


def _nested(one: Tensor, other: Tensor) -> bool:
    small, large = sorted((one, other), key=len)
    return float(torch.linalg.matrix_norm(small - small @ large.T @ large)) < _NESTED


def _rows(spans: Spans, size: int) -> tuple[Tensor, int]:
    """Rows that make all these spans, and how many of them are determined."""
    k = torch.arange(size, dtype=torch.float64)
    cosine = torch.cos(math.pi * k[:, None] * (2 * k + 1) / (2 * size))
    rows, found = torch.zeros(0, size, dtype=torch.float64), 0
    for end in sorted({*spans, size}):
        start = len(rows)
        span = spans[end] if end in spans else torch.eye(size, dtype=torch.float64)
        block = torch.linalg.svd(span - span @ rows.T @ rows)[2][: end - start]
        found += end - start == 1
        block = torch.linalg.qr(block @ cosine[start:end].T)[0].T @ block
        rows = torch.cat((rows, block))
    return torch.linalg.qr(rows.T)[0].T.contiguous(), found
