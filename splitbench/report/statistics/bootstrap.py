"""Whether two means differ: a paired bootstrap over seeds and images.

Whatever was measured on the same images is drawn with the same weights, so that only the difference varies. The draws
are those of a fixed seed and of what is drawn, not of the order of questions: the same rows give the same interval.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splitbench.report.statistics.measured import Measured, Seed

DRAWS = 2000
FEWEST = 8  # values, of which a bootstrap makes something; of fewer its intervals are too narrow
SEED = 2004
INTERVAL = (2.5, 97.5)
Draws = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Of what is on the left from what is on the right, with the 95 % interval of the draws."""

    left: float
    right: float
    value: float  # left - factor * right
    low: float
    high: float
    effect: float | None  # in standard deviations of the difference from image to image; Cohen's h for shares
    n: int  # images, over all seeds
    seeds: int
    varies: bool  # false: so few values on a side that nobody knows how sure they are


def difference(left: Sequence[Measured], right: Sequence[Measured] | float, factor: float = 1.0) -> Difference | str:
    """Of the mean of several measurements from that of others, or from a constant; a sentence if they have nothing
    in common to be compared on."""
    others = [] if isinstance(right, float | int) else list(right)
    everything = [*left, *others]
    seeds = sorted(set.intersection(*(set(m.seeds or ()) for m in everything)))
    if not seeds:
        return "no seed in common"
    images = _common(everything, seeds)
    if images is None:
        return "no sample in common"

    def drawn(several: Sequence[Measured]) -> tuple[float, Draws]:
        each = [_drawn(m, seeds, images) for m in several]
        return float(np.mean([mean for mean, _ in each])), np.mean([draws for _, draws in each], axis=0)

    one, draws = drawn(left)
    if isinstance(right, float | int):
        two, further = float(right), np.full(DRAWS, float(right))
    else:
        two, further = drawn(others)
    gaps = draws - factor * further
    low, high = (float(v) for v in np.percentile(gaps, INTERVAL))
    n = min(sum((m.seeds or {})[s].n for s in seeds) for m in everything)
    varies = all(m.cost or _count(m, seeds, images) >= FEWEST for m in everything)  # a cost is counted, not sampled
    effect = _effect(left, others, right, seeds, images, factor)
    return Difference(one, two, one - factor * two, low, high, effect, n, len(seeds), varies)


Images = dict[tuple[str, int], tuple[int, ...]]


def _common(everything: Iterable[Measured], seeds: Sequence[int]) -> Images | None:
    """The images of each data set and seed that everything there was measured on."""
    shared: Images = {}
    for m in everything:
        for seed in seeds:
            mine = (m.seeds or {})[seed].images
            if not mine:
                continue
            place = (m.dataset, seed)
            kept = shared.get(place, mine)
            if kept != mine:
                mine = tuple(sorted(set(kept) & set(mine)))
                if not mine:
                    return None
            shared[place] = mine
    return shared


def _values(seed: Seed, images: tuple[int, ...]) -> Draws:
    values = np.asarray(seed.values)
    if seed.images == images:
        return values
    at = {image: i for i, image in enumerate(seed.images)}
    return values[[at[image] for image in images]]


def _drawn(m: Measured, seeds: Sequence[int], images: Images) -> tuple[float, Draws]:
    means, draws = [], np.empty((DRAWS, len(seeds)))
    for column, number in enumerate(seeds):
        seed = (m.seeds or {})[number]
        if seed.values:
            shared = images[m.dataset, number]
            values = _values(seed, shared)
            means.append(float(values.mean()))
            draws[:, column] = _weights(f"{m.dataset} {number} {shared}", len(values)) @ values
        elif m.metric == "accuracy" and 0 <= seed.mean <= 1:
            # Resampled answers that are right or wrong are binomial: the answers themselves are not needed.
            means.append(seed.mean)
            draws[:, column] = _stream(f"{m.metric} {seed.source}").binomial(seed.n, seed.mean, DRAWS) / seed.n
        else:
            means.append(seed.mean)
            draws[:, column] = seed.mean
    if len(seeds) == 1:
        return means[0], draws[:, 0]
    return float(np.mean(means)), (draws * _weights(f"seeds {seeds}", len(seeds))).sum(1)


def _count(m: Measured, seeds: Sequence[int], images: Images) -> int:
    """How many values were resampled."""
    found = [(number, (m.seeds or {})[number]) for number in seeds]
    return sum(
        len(images[m.dataset, number]) if seed.values else seed.n if m.metric == "accuracy" else 1
        for number, seed in found
    )


@functools.lru_cache(maxsize=64)
def _weights(what: str, n: int) -> Draws:
    """(DRAWS, n) shares that each of n things has in a resample of them.

    A resample varies too little by (n - 1) / n, which is half for two seeds: the shares are spread by as much.
    """
    shares = _stream(what).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n
    return shares if n == 1 else 1 / n + (shares - 1 / n) * math.sqrt(n / (n - 1))


def _stream(what: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(what.encode())])


def _effect(
    left: Sequence[Measured],
    others: Sequence[Measured],
    right: Sequence[Measured] | float,
    seeds: Sequence[int],
    images: Images,
    factor: float,
) -> float | None:
    """The standardised difference: of pairs where the images are the same, else of two samples, else of two shares."""

    def pooled(several: Sequence[Measured]) -> Draws | None:
        rows = []
        for m in several:
            if not all((m.seeds or {})[s].values for s in seeds):
                return None
            rows.append(np.concatenate([_values((m.seeds or {})[s], images[m.dataset, s]) for s in seeds]))
        same = len({len(row) for row in rows}) == 1 and len({m.dataset for m in several}) == 1
        return np.mean(rows, axis=0) if same else np.concatenate(rows)

    a = pooled(left)
    b = pooled(others) if others else None
    if a is None or (others and b is None):
        if others and {m.metric for m in (*left, *others)} == {"accuracy"} and factor == 1:
            p, q = (float(np.mean([m.mean for m in side])) for side in (left, others))
            return 2 * math.asin(math.sqrt(min(max(p, 0), 1))) - 2 * math.asin(math.sqrt(min(max(q, 0), 1)))
        return None
    if b is None:
        gap, deviation = float(a.mean()) - factor * float(right), float(a.std(ddof=1)) if len(a) > 1 else 0.0  # type: ignore[arg-type]
    elif {m.dataset for m in left} == {m.dataset for m in others} and len(a) == len(b):
        d = a - factor * b
        gap, deviation = float(d.mean()), float(d.std(ddof=1)) if len(d) > 1 else 0.0
    elif len(a) > 1 and len(b) > 1:
        gap = float(a.mean() - factor * b.mean())
        deviation = math.sqrt((a.var(ddof=1) + factor**2 * b.var(ddof=1)) / 2)
    else:
        return None
    return gap / deviation if deviation > 0 else None
