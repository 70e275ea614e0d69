"""What became of a cell, as a row with its metrics and samples inside: one Parquet file holds one outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from splitbench.core.goal import GOALS, Goal

Status = Literal["done", "skipped", "failed"]
SCHEMA_VERSION = 2
UTILITY = "accuracy"  # what ranks trainings
AT_CHANCE = 0.02  # no farther above the commonest answer, and nothing was learned


def at_rung(attack: str, knowledge: str) -> str:
    """The name of an attack that knows this much of the defense."""
    return attack if knowledge in ("", "none") else f"{attack} · {knowledge}"


@dataclass(frozen=True)
class Score:
    """One metric of one outcome. `values` has one entry per sample, or is empty for a pooled metric.

    Direction and tolerance are those of the metric when it was measured, so that a row never changes its meaning.
    """

    metric: str
    version: str
    value: float
    n: int
    values: tuple[float, ...] = ()
    readout: str = ""  # how a guess became an image: clamped to [0, 1], or rescaled to it (`minmax`)
    against: str = ""  # of a message that mixes several samples: the mixture, or each member
    leaks_when: str = "high"  # the direction; of utility: good when
    tolerance: float = 0.02  # a smaller difference between two means is no difference
    utility: bool = False  # about the task, not about leakage
    samples: tuple[int, ...] = ()  # which samples, where they are not those of the outcome

    @property
    def sign(self) -> int:
        """1 if more leaks more (or is more useful), else -1."""
        return 1 if self.leaks_when == "high" else -1


@dataclass(frozen=True)
class Outcome:
    key: str
    run: str
    kind: Literal["train", "attack"]
    status: Status
    reason: str
    scale: str
    dataset: str
    model: str
    cut: str
    topology: str
    clients: int
    defense: str
    attack: str
    seed: int
    created: float  # seconds since 1970
    cell: Mapping[str, Any]  # the resolved recipe of the cell
    provenance: Mapping[str, Any]
    modality: str = "image"
    goal: str = ""  # what an attack recovers; of an attack that says none, the inputs
    party: str = ""  # who attacks; of an attack that says none, the server
    role: str = ""  # attack, floor or bound
    device: str = "cpu"
    twin: str = ""  # the same on the undefended run
    bars: tuple[tuple[str, float], ...] = ()  # metrics and what the twin must reach in them for this row to count
    weights: str = ""  # SHA-256 of the weights it speaks of
    scores: tuple[Score, ...] = ()  # of several read-outs, the one that ranks first
    costs: Mapping[str, float] = field(default_factory=dict)  # seconds, bytes_up, bytes_down, ...
    samples: tuple[int, ...] = ()  # which rows of the data the per-sample values are about
    digest: str = field(default="", compare=False)  # of the row's content, as the file has it

    def __post_init__(self) -> None:
        if self.kind == "attack":
            for name, usual in (("goal", "inputs"), ("party", "server"), ("role", "attack")):
                object.__setattr__(self, name, getattr(self, name) or usual)

    @property
    def knowledge(self) -> str:
        """Of the defense, as the threat model of the attack grants it; empty for a training."""
        return str(self.cell.get("threat", {}).get("knowledge", "none")) if self.kind == "attack" else ""

    @property
    def label(self) -> str:
        """The attack, and who mounts it if it is not the server."""
        return self.attack if self.party in ("", "server") else f"{self.attack} by {self.party}"

    @property
    def adversary(self) -> str:
        """The attack, who mounts it, and what it knows of the defense if that is anything."""
        return at_rung(self.label, self.knowledge)

    @property
    def attack_name(self) -> str:
        """Of the attack without its settings; nothing for a training."""
        return str(self.cell.get("attack", {}).get("name", ""))

    @property
    def aim(self) -> Goal | None:
        """What the attack recovers; nothing for a training, and for a goal that this version does not know."""
        return GOALS.get(self.goal)

    @property
    def ranking(self) -> str:
        """The metric that ranks: the goal's for this modality, or accuracy for a training."""
        if self.kind == "train":
            return UTILITY
        if self.aim is None:
            return self.scores[0].metric if self.scores else ""
        return self.aim.ranking(self.modality)

    @property
    def at_chance(self) -> bool:
        """Whether a training is no better than always giving the commonest answer, also where that is nearly always
        right: there the area under the curve says whether anything was learned."""
        score, chance, ordered = self.score(UTILITY), self.costs.get("chance"), self.score("auroc")
        if self.kind != "train" or self.status != "done" or score is None or chance is None:
            return False
        return score.value <= chance + AT_CHANCE and (ordered is None or ordered.value <= 0.5 + AT_CHANCE)

    @property
    def unit(self) -> str:
        """What one value is about: an image, a text, a row, or a sample."""
        return self.aim.unit(self.modality) if self.aim else "sample"

    @property
    def ranked(self) -> dict[str, float]:
        """Each metric's value, in the read-out that ranks."""
        return {metric: s.value for metric in dict.fromkeys(s.metric for s in self.scores) if (s := self.score(metric))}

    def score(self, metric: str) -> Score | None:
        """In the read-out that ranks. Where a message mixes samples, what was recovered of each member ranks."""
        mine = [score for score in self.scores if score.metric == metric]
        return min(mine, key=lambda score: score.against == "mixture", default=None)

    def about(self, score: Score) -> tuple[int, ...]:
        """The samples that a score's values are about; nothing if it has none of its own."""
        samples = score.samples or self.samples
        return samples if len(samples) == len(score.values) else ()

    def write(self, path: Path) -> None:
        """Raises `ValueError` if values and samples do not go together."""
        row = {name: getattr(self, name) for name in SCHEMA.names if name not in _MADE}
        row |= {"schema": SCHEMA_VERSION, "digest": ""}
        row["cell"], row["provenance"] = json.dumps(self.cell), json.dumps(self.provenance)
        row["costs"] = list(self.costs.items())
        row["bars"] = [{"metric": metric, "value": value} for metric, value in self.bars]
        row["metrics"] = [{name: getattr(s, name) for name in _METRIC} for s in self.scores]
        row["samples"] = [
            {**{name: getattr(s, name) for name in _NAMES}, "sample": sample, "value": value}
            for s in self.scores
            for sample, value in zip(self._samples(s), s.values, strict=True)
        ]
        table = pa.Table.from_pylist([row], schema=SCHEMA)
        place = SCHEMA.get_field_index("digest")
        pq.write_table(table.set_column(place, SCHEMA.field(place), pa.array([content_digest(table)])), path)

    def _samples(self, score: Score) -> tuple[int, ...]:
        samples = score.samples or (self.samples if score.values else ())
        if len(samples) != len(score.values):
            raise ValueError(f"{score.metric} has {len(score.values)} values, but is about {len(samples)} samples")
        return samples

    @classmethod
    def read(cls, path: Path | BinaryIO) -> Outcome:
        """Raises `ValueError` for a file that is not an outcome of this schema, or not what was written."""
        # One small file at a time: threads and memory maps cost more than they save.
        try:
            table = pq.ParquetFile(path).read(use_threads=False)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if isinstance(error, OSError):
                raise
            raise ValueError(str(error)) from error
        if "schema" not in table.column_names:
            raise ValueError("not an outcome of splitbench")
        if len(table) != 1:
            raise ValueError(f"{len(table)} rows, expected one")
        version = table.column("schema")[0].as_py()
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema {version}, this version of splitbench reads {SCHEMA_VERSION}")
        if absent := set(SCHEMA.names) - set(table.column_names):
            raise ValueError(f"not an outcome of splitbench: no {', '.join(sorted(absent))}")
        if not table.schema.equals(SCHEMA) or content_digest(table) != table.column("digest")[0].as_py():
            raise ValueError("its content is not what was written")
        row = table.select([n for n in SCHEMA.names if n not in ("schema", "samples")]).to_pylist()[0]
        metrics = row.pop("metrics")
        samples = table.column("samples").combine_chunks().flatten()
        values: dict[tuple[str, ...], list[float]] = {}
        indices: dict[tuple[str, ...], list[int]] = {}
        columns = (samples.field(n).to_pylist() for n in (*_NAMES, "sample", "value"))
        for *names, sample, value in zip(*columns, strict=True):
            values.setdefault(tuple(names), []).append(value)
            indices.setdefault(tuple(names), []).append(sample)
        mine = tuple(next(iter(indices.values()), ()))
        scores = []
        for metric in metrics:
            which = tuple(metric[name] for name in _NAMES)
            own = tuple(indices.get(which, ()))
            scores.append(Score(**metric, values=tuple(values.get(which, ())), samples=() if own == mine else own))
        row["cell"], row["provenance"] = json.loads(row["cell"]), json.loads(row["provenance"])
        row["costs"] = dict(row["costs"])
        row["bars"] = tuple((bar["metric"], bar["value"]) for bar in row["bars"])
        return cls(**row, scores=tuple(scores), samples=mine)


def content_digest(table: pa.Table) -> str:
    """SHA-256 of a row's content, all columns but the digest itself, whatever the file's encoding."""
    content: dict[str, Any] = {}
    for name in SCHEMA.names:
        if name == "samples":
            samples = table.column(name).combine_chunks().flatten()
            content[name] = [samples.field(n).to_pylist() for n in (*_NAMES, "sample", "value")]
        elif name != "digest":
            content[name] = table.column(name).to_pylist()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_NAMES = ("metric", "version", "readout", "against")
_METRIC = (*_NAMES, "value", "n", "leaks_when", "tolerance", "utility")
_MADE = ("schema", "metrics", "samples", "digest")
_SCORE = [(name, pa.string()) for name in _NAMES]
_BAR = [("metric", pa.string()), ("value", pa.float64())]
SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in (
            ("schema", pa.int32()),
            *((name, pa.string()) for name in ("key", "run", "kind", "status", "reason", "scale", "dataset")),
            *((name, pa.string()) for name in ("modality", "model", "cut", "topology")),
            ("clients", pa.int32()),
            ("defense", pa.string()),
            ("attack", pa.string()),
            ("seed", pa.int64()),
            ("created", pa.float64()),
            *((name, pa.string()) for name in ("goal", "party", "role", "device", "twin")),
            ("bars", pa.list_(pa.struct(_BAR))),
            ("cell", pa.string()),
            ("provenance", pa.string()),
            ("costs", pa.map_(pa.string(), pa.float64())),
            ("weights", pa.string()),
            ("digest", pa.string()),
            (
                "metrics",
                pa.list_(
                    pa.struct(
                        [
                            *_SCORE,
                            ("value", pa.float64()),
                            ("n", pa.int64()),
                            ("leaks_when", pa.string()),
                            ("tolerance", pa.float64()),
                            ("utility", pa.bool_()),
                        ]
                    )
                ),
            ),
            ("samples", pa.list_(pa.struct([*_SCORE, ("sample", pa.int64()), ("value", pa.float64())]))),
        )
    ]
)
