"""How alike position embeddings are: the cosine of each with every other, from the weights of a run folder."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from safetensors import SafetensorError, safe_open

from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

METRIC = "position_similarity"
NAMES = ("positions", "pos_embed")  # the last word of the tensor; one that a defense learns comes first


@dataclass(frozen=True)
class Similarity:
    """Of one trained network."""

    cosines: np.ndarray  # (L, L), of each place with every other, row by row of the grid
    grid: tuple[int, int]

    @property
    def mean(self) -> float:
        """Of |cosine| over different places: 0 for embeddings that have nothing to do with each other."""
        apart = ~np.eye(len(self.cosines), dtype=bool)
        return float(np.abs(self.cosines[apart]).mean())

    @property
    def neighbours(self) -> float:
        """Of the cosine over places beside or below each other."""
        rows, columns = self.grid
        place = np.arange(rows * columns).reshape(rows, columns)
        pairs = [(place[:, :-1], place[:, 1:]), (place[:-1], place[1:])]
        return float(np.concatenate([self.cosines[a.ravel(), b.ravel()] for a, b in pairs]).mean())


def similarity(embeddings: np.ndarray) -> Similarity | None:
    """Of (places, D). What stands before the first place of a square grid belongs to other tokens; None if nothing
    was learned: a place whose embedding is zero has no direction."""
    side = math.isqrt(len(embeddings))
    kept = embeddings[len(embeddings) - side * side :].astype(np.float64)
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    if side < 2 or not np.isfinite(kept).all() or (lengths == 0).any():
        return None
    directions = kept / lengths
    return Similarity(directions @ directions.T, (side, side))


def similarity_of(store: Store, run: Outcome, problems: list[str]) -> Similarity | None:
    """Of a training whose folder is here and has position embeddings."""
    path = store.run_folder(run.run) / "weights.safetensors"
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            known = {name.replace("/", ".").rpartition(".")[2]: name for name in sorted(file.keys(), reverse=True)}
            name = next((known[last] for last in NAMES if last in known), None)
            found = None if name is None else file.get_tensor(name)
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        problems.append(f"trained/{run.run}/weights.safetensors cannot be read ({type(error).__name__})")
        return None
    return similarity(found[0]) if found is not None and found.ndim == 3 else None


def counted(store: Store, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The same rows, with the similarity of their embeddings among what they count."""
    return [
        replace(o, costs={**o.costs, METRIC: found.mean})
        if o.kind == "train" and o.status == "done" and (found := similarity_of(store, o, []))
        else o
        for o in outcomes
    ]
