"""What became of a cell, as a row with its metrics and samples inside: one Parquet file holds one outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from splitbench.core import registry

Status = Literal["done", "skipped", "failed"]
SCHEMA_VERSION = 1


def at_rung(attack: str, knowledge: str) -> str:
    """How an attack is called that knows this much of the defense."""
    return attack if knowledge in ("", "none") else f"{attack} · {knowledge}"


@dataclass(frozen=True)
class Score:
    """One metric of one outcome. `values` has one entry a sample, or is empty for a pooled metric.

    `readout` says how a guess became an image: clamped to [0, 1], or rescaled to it (`minmax`).
    """

    metric: str
    version: str
    value: float
    n: int
    values: tuple[float, ...] = ()
    readout: str = ""


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
    twin: str = ""  # the same attack on the undefended run
    bar: float = 0.0  # the SSIM the twin must reach for this row to count
    scores: tuple[Score, ...] = ()  # of several read-outs, the one that ranks first
    costs: Mapping[str, float] = field(default_factory=dict)  # seconds, bytes_up, bytes_down, ...
    samples: tuple[int, ...] = ()  # which rows of the data the per-sample values are about

    @property
    def knowledge(self) -> str:
        """Of the defense, as the threat model of the attack grants it; empty for a training."""
        return str(self.cell.get("threat", {}).get("knowledge", "none")) if self.kind == "attack" else ""

    @property
    def adversary(self) -> str:
        """The attack, and what it knows of the defense if that is anything."""
        return at_rung(self.attack, self.knowledge)

    @property
    def attack_name(self) -> str:
        """Of the attack without its settings; nothing for a training."""
        return str(self.cell.get("attack", {}).get("name", ""))

    @property
    def role(self) -> str:
        """An attack, a floor or a bound, as its class declares in its source."""
        return str(registry.declared("attacks", self.attack_name, "role"))

    @property
    def ranked(self) -> dict[str, float]:
        """Each metric's value, in the read-out that ranks."""
        return {score.metric: score.value for score in reversed(self.scores)}

    def score(self, metric: str) -> Score | None:
        return next((score for score in self.scores if score.metric == metric), None)

    def write(self, path: Path) -> None:
        row = {name: getattr(self, name) for name in SCHEMA.names if name not in ("schema", "metrics", "samples")}
        row["schema"] = SCHEMA_VERSION
        row["cell"], row["provenance"] = json.dumps(self.cell), json.dumps(self.provenance)
        row["costs"] = list(self.costs.items())
        row["metrics"] = [
            {"metric": s.metric, "version": s.version, "readout": s.readout, "value": s.value, "n": s.n}
            for s in self.scores
        ]
        row["samples"] = [
            {
                "metric": s.metric,
                "version": s.version,
                "readout": s.readout,
                "sample": sample,
                "value": value,
            }
            for s in self.scores
            for sample, value in zip(self.samples, s.values, strict=False)
        ]
        pq.write_table(pa.Table.from_pylist([row], schema=SCHEMA), path)

    @classmethod
    def read(cls, path: Path | BinaryIO) -> Outcome:
        """Raises `ValueError` for a file that is not an outcome of this schema."""
        # One small file at a time: threads and memory maps cost more than they save.
        table = pq.ParquetFile(path).read(use_threads=False)
        if "schema" not in table.column_names:
            raise ValueError("not an outcome of splitbench")
        if len(table) != 1:
            raise ValueError(f"{len(table)} rows, an outcome is one")
        version = table.column("schema")[0].as_py()
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema {version}, this version of splitbench reads {SCHEMA_VERSION}")
        if absent := set(SCHEMA.names) - set(table.column_names):
            raise ValueError(f"not an outcome of splitbench: no {', '.join(sorted(absent))}")
        row = table.select([n for n in SCHEMA.names if n not in ("schema", "samples")]).to_pylist()[0]
        metrics = row.pop("metrics")
        samples = table.column("samples").combine_chunks().flatten()
        values: dict[tuple[str, str], list[float]] = {}
        indices: dict[tuple[str, str], list[int]] = {}
        names = ("metric", "readout", "sample", "value")
        for metric, readout, sample, value in zip(*(samples.field(n).to_pylist() for n in names), strict=True):
            values.setdefault((metric, readout), []).append(value)
            indices.setdefault((metric, readout), []).append(sample)
        scores = tuple(Score(**m, values=tuple(values.get((m["metric"], m["readout"]), ()))) for m in metrics)
        row["cell"], row["provenance"] = json.loads(row["cell"]), json.loads(row["provenance"])
        row["costs"] = dict(row["costs"])
        return cls(**row, scores=scores, samples=tuple(next(iter(indices.values()), ())))


_SCORE = [("metric", pa.string()), ("version", pa.string()), ("readout", pa.string())]
SCHEMA = pa.schema(
    [
        pa.field("schema", pa.int32(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("scale", pa.string(), nullable=False),
        pa.field("dataset", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("cut", pa.string(), nullable=False),
        pa.field("topology", pa.string(), nullable=False),
        pa.field("clients", pa.int32(), nullable=False),
        pa.field("defense", pa.string(), nullable=False),
        pa.field("attack", pa.string(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("created", pa.float64(), nullable=False),
        pa.field("twin", pa.string(), nullable=False),
        pa.field("bar", pa.float64(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("provenance", pa.string(), nullable=False),
        pa.field("costs", pa.map_(pa.string(), pa.float64()), nullable=False),
        pa.field("metrics", pa.list_(pa.struct([*_SCORE, ("value", pa.float64()), ("n", pa.int64())])), nullable=False),
        pa.field(
            "samples", pa.list_(pa.struct([*_SCORE, ("sample", pa.int64()), ("value", pa.float64())])), nullable=False
        ),
    ]
)
