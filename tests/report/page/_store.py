"""A store as the runner leaves it, made by hand: rows, run folders, reconstructions, histories. No torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from PIL import Image
from safetensors.numpy import save_file

from splitbench.core.component import Part
from splitbench.core.threat import ThreatModel
from splitbench.plan.cells import Cell, RunSpec
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store
from tests.report._rows import ROLES

IMAGES, SIDE = 10, 12
GAUSSIAN = {s: Part("defenses", "gaussian", {"sigma": s}) for s in (0.5, 1.0, 2.0)}


def spec(*defenses: Part, seed: int = 0, dataset: str = "fashion_mnist_mini", **changes: object) -> RunSpec:
    run = RunSpec(
        Part("data", dataset, {}), "digest", Part("models", "lenet5", {}), "conv1", Part("topologies", "vanilla", {}),
        defenses, seed=seed,
    )  # fmt: skip
    return replace(run, **changes)  # type: ignore[arg-type]


def attacked(run: RunSpec, name: str, knowledge: str = "none") -> Cell:
    held = run.samples.auxiliary
    threat = ThreatModel(True, True, held, held, run.record, knowledge=knowledge)  # type: ignore[arg-type]
    settings = {"steps": 3000} if name == "inversion" else {}
    return Cell(run, Part("attacks", name, settings), threat)


def label(run: RunSpec) -> str:
    return " + ".join(f"{p.name}(sigma={p.settings['sigma']:g})" if p.settings else p.name for p in run.defenses)


def row(cell: Cell, **changes: object) -> Outcome:
    run = cell.run
    base = Outcome(
        key=cell.key, run=run.key, kind="attack" if cell.attack else "train", status="done", reason="",
        scale=run.scale, dataset=run.data.name, model=run.model.name, cut=run.cut, topology=run.topology.name,
        clients=run.clients, defense=label(run) or "none", attack=cell.attack.name if cell.attack else "",
        seed=run.seed, created=1_700_000_000.0, cell=cell.document(), provenance={},
        twin=cell.twin.key,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def train(store: Path, run: RunSpec, accuracy: float = 0.8, folder: bool = True, **changes: object) -> str:
    place = Store(store)
    costs = {"bytes_up": 1e6, "bytes_down": 1e6, "loss": 0.1}
    place.put(row(Cell(run), **{"scores": (Score("accuracy", "1", accuracy, 100),), "costs": costs, **changes}))
    if folder:
        here = place.run_folder(run.key)
        (here / "attacks").mkdir(parents=True)
        (here / "history.json").write_text(json.dumps({"loss": [2.0, 1.0, 0.5]}))
        (here / "recipe.yaml").write_text(yaml.safe_dump(run.document(), sort_keys=False))
    return run.key


def attack(
    store: Path, run: RunSpec, name: str, ssim: float, knowledge: str = "none", bar: float = 0.8, **changes: object
) -> str:
    """Scored about `ssim`, image by image a little apart, with pictures if the run has its folder."""
    place, cell = Store(store), attacked(run, name, knowledge)
    values = tuple(float(v) for v in ssim + np.linspace(-0.05, 0.05, IMAGES))
    score = Score("ssim", "wang2004", ssim, IMAGES, values, "clamp")
    samples = tuple(range(IMAGES))
    bars = (("ssim", bar),) if bar else ()
    role = ROLES.get(name, "attack")
    place.put(row(cell, **{"scores": (score,), "samples": samples, "bars": bars, "role": role, **changes}))
    folder = place.run_folder(run.key) / "attacks"
    if folder.is_dir():
        truth = originals()
        guess = np.nan_to_num(np.clip(ssim * truth + (1 - ssim) * 0.5, 0, 1)).astype(np.float32)
        save_file({"inputs": guess}, folder / f"{cell.key}.safetensors")
        rows = [np.concatenate(list(images[:, 0]), axis=1) for images in (truth, guess)]
        grid = (np.concatenate(rows) * 255).round().astype(np.uint8).repeat(5, 0).repeat(5, 1)
        Image.fromarray(grid).convert("RGB").save(folder / f"{cell.key}.png")
    return cell.key


def originals() -> np.ndarray:
    return np.random.default_rng(0).random((IMAGES, 1, SIDE, SIDE)).astype(np.float32)


def small(store: Path) -> Path:
    """Noise of two strengths and nothing, an attack at two rungs, and a floor."""
    for defenses, leak, accuracy in (((), 0.95, 0.80), ((GAUSSIAN[0.5],), 0.9, 0.79), ((GAUSSIAN[2.0],), 0.2, 0.7)):
        run = spec(*defenses)
        train(store, run, accuracy)
        attack(store, run, "mean_image", 0.1, bar=0.0)
        attack(store, run, "inversion", leak)
        if defenses:
            attack(store, run, "inversion", leak + 0.02, "exact")
            attack(store, run, "mean_image", 0.1, "exact", bar=0.0)
    return store
