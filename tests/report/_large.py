"""A large store, written fast: the rows of a made-up sweep, as Parquet directly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from splitbench.store.outcome import SCHEMA, SCHEMA_VERSION, content_digest
from tests.report._rows import ROLES

METRICS = (("mse", "1"), ("psnr", "1"), ("ssim", "wang2004"))
READOUTS = ("clamp", "minmax")
ATTACKS = ("black", "mean_image", "unsplit", "fsha", "fsa", "fora", "sdar", "oracle_decoder")
RUNGS = ("none", "exact")


def make(path: Path, runs: int, images: int = 16) -> int:
    """Runs with eight attacks at two rungs of knowledge; returns how many metric rows there are."""
    (path / "outcomes").mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = []
    count = 0
    for r in range(runs):
        defended, seed, data = r % 4, (r // 4) % 5, f"data{r // 20}"
        defenses = [{"name": "seal", "version": 1, "settings": {"omega": 0.25 * defended}}] if defended else []
        run = {"data": {"name": data}, "defenses": defenses, "protected": None, "seed": seed,
               "training": {"epochs": 12, "batch": 64, "lr": 0.003}}  # fmt: skip
        defense = f"seal(omega={0.25 * defended:g})" if defended else "none"
        common = {"schema": SCHEMA_VERSION, "run": f"run{r:05d}", "status": "done", "reason": "", "scale": "desk",
                  "dataset": data, "model": "resnet18", "cut": "stem", "topology": "vanilla", "clients": 1,
                  "defense": defense, "seed": seed, "created": float(r),
                  "provenance": json.dumps({"torch": "2", "python": "3"}), "costs": [("seconds", 1.0)],
                  "modality": "image", "device": "cpu", "weights": "", "digest": ""}  # fmt: skip
        utility = [{"metric": m, "version": "1", "readout": "", "against": "", "leaks_when": "high",
                    "tolerance": 0.02, "utility": True, "value": 0.5 + 0.1 * rng.random(), "n": 2000}
                   for m in ("accuracy", "mcc")]  # fmt: skip
        rows.append({**common, "key": f"run{r:05d}", "kind": "train", "attack": "", "twin": "", "bars": [],
                     "goal": "", "party": "", "role": "",
                     "cell": json.dumps({"run": run}), "metrics": utility, "samples": []})  # fmt: skip
        count += len(utility)
        for attack in ATTACKS:
            for rung in RUNGS if defended else RUNGS[:1]:
                cell = {"run": run, "attack": {"name": attack, "version": 1, "settings": {}},
                        "threat": {"knowledge": rung}}  # fmt: skip
                values = rng.random((len(METRICS) * 2, images)) / (1 + defended)
                heads = [{"metric": m, "version": v, "readout": o, "against": ""} for m, v in METRICS for o in READOUTS]
                more = {"leaks_when": "high", "tolerance": 0.02, "utility": False}
                metrics = [{**h, **more, "value": float(values[i].mean()), "n": images} for i, h in enumerate(heads)]
                samples = [
                    {**h, "sample": s, "value": values[i, s]} for i, h in enumerate(heads) for s in range(images)
                ]
                twin = f"run{r - defended:05d}-{attack}-none"
                rows.append({**common, "key": f"run{r:05d}-{attack}-{rung}", "kind": "attack", "attack": attack,
                             "twin": twin, "bars": [{"metric": "ssim", "value": 0.1}],
                             "goal": "inputs", "party": "server",
                             "role": ROLES.get(attack, "attack"), "cell": json.dumps(cell),
                             "metrics": metrics,
                             "samples": samples})  # fmt: skip
                count += len(metrics)
    for begin in range(0, len(rows), 1000):
        table = pa.Table.from_pylist(rows[begin : begin + 1000], schema=SCHEMA)
        for i in range(len(table)):
            name = rows[begin + i]["key"]
            one, place = table.slice(i, 1), SCHEMA.get_field_index("digest")
            one = one.set_column(place, SCHEMA.field(place), pa.array([content_digest(one)]))
            pq.write_table(one, path / "outcomes" / f"{name}.parquet", compression="none",
                           write_statistics=False)  # fmt: skip
    return count
