"""A trained run on disk: what it takes to attack it later, evaluate it again, or train it again."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from splitbench import __version__
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import Party
from splitbench.core.split import SplitModel
from splitbench.core.wire import Message, Wire
from splitbench.plan.cells import RunSpec
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.train import Trained
from splitbench.store.store import Store

SHOWN = 12  # images in a picture
PACKAGES = ("torch", "timm", "numpy", "safetensors", "transformers")


def save(store: Store, trained: Trained) -> Path:
    return store.put_run(trained.prepared.spec.key, lambda folder: _fill(folder, trained))


def _fill(folder: Path, trained: Trained) -> None:
    prepared = trained.prepared
    document = yaml.safe_dump(prepared.spec.document(), sort_keys=False)
    (folder / "recipe.yaml").write_text(document, encoding="utf-8")
    (folder / "provenance.json").write_text(json.dumps(provenance(prepared), indent=2) + "\n")
    (folder / "history.json").write_text(json.dumps({"loss": trained.losses}) + "\n")
    save_file(state(prepared.models), folder / "weights.safetensors")
    rows = prepared.allocation
    save_file(
        {"private": rows.private, "auxiliary": rows.auxiliary, "evaluation": rows.evaluation, "test": rows.test},
        folder / "samples.safetensors",
    )
    if prepared.spec.record:
        _save_transcript(folder / "transcript.safetensors", trained.wire.transcript)


def state(models: Sequence[SplitModel]) -> dict[str, Tensor]:
    """All weights and buffers by owner, stage and name; what clients share is kept once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for index, model in enumerate(models):
        for place, (stage, owner) in enumerate(zip(model.stages, model.owners, strict=True)):
            if id(stage) not in seen:
                seen.add(id(stage))
                label = f"client{index}" if owner.role == "client" else owner.role
                values = {f"{label}/{place}/{name}": value for name, value in stage.state_dict().items()}
                found |= {name: value.detach().contiguous().clone() for name, value in values.items()}
    return found


def load(store: Store, key: str) -> Trained:
    """A stored run as it was when its training ended. A damaged one is an error that says which file."""
    folder = store.run_folder(key)
    spec = read_spec(folder)
    prepared = prepare(spec)
    weights = _read(folder / "weights.safetensors")
    wanted = state(prepared.models)
    if weights.keys() != wanted.keys():
        raise SplitbenchError(f"{folder / 'weights.safetensors'} does not fit {spec.model.name} cut at {spec.cut}")
    for index, model in enumerate(prepared.models):
        for place, (stage, owner) in enumerate(zip(model.stages, model.owners, strict=True)):
            label = f"client{index}" if owner.role == "client" else owner.role
            prefix = f"{label}/{place}/"
            mine = {n.removeprefix(prefix): v for n, v in weights.items() if n.startswith(prefix)}
            if mine:
                stage.load_state_dict(mine)
    wire = Wire(prepared.defense)
    if spec.record:
        wire.transcript = _load_transcript(folder / "transcript.safetensors")
    losses = tuple(json.loads((folder / "history.json").read_text())["loss"])
    return Trained(prepared, wire, losses)


def read_spec(folder: Path) -> RunSpec:
    path = folder / "recipe.yaml"
    try:
        return RunSpec.from_document(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise SplitbenchError(
            f"{path} cannot be read ({type(error).__name__}: {error}); train the run again"
        ) from error


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SplitbenchError(
            f"{path} cannot be read ({error}); delete the folder {path.parent} and train the run again"
        ) from error


def provenance(prepared: Prepared) -> dict[str, Any]:
    """What a number depends on and a recipe does not say."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "splitbench": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "packages": versions,
        "data_digest": prepared.data.digest,
        "sample_digests": prepared.allocation.digests,
    }


def _save_transcript(path: Path, messages: Sequence[Message]) -> None:
    """Each message's tensor, under a name that tells the rest of it."""
    tensors = {
        f"{i:07d}/{m.step}/{m.sender.role}{m.sender.index}/{m.receiver.role}{m.receiver.index}/{m.kind}/{m.cut}": (
            m.tensor.contiguous()
        )
        for i, m in enumerate(messages)
    }
    save_file(tensors, path)


def _load_transcript(path: Path) -> list[Message]:
    messages = []
    for name, tensor in sorted(_read(path).items()):
        _, step, sender, receiver, kind, cut = name.split("/")
        messages.append(Message(int(step), _party(sender), _party(receiver), kind, int(cut), tensor))  # type: ignore[arg-type]
    return messages


def _party(label: str) -> Party:
    role = label.rstrip("0123456789")
    return Party(role, int(label[len(role) :]))  # type: ignore[arg-type]


def save_recovered(
    store: Store,
    run: str,
    key: str,
    tensors: Mapping[str, Tensor],
    truth: Tensor,
    looks: Sequence[tuple[str, Tensor]] = (),
) -> None:
    """The reconstructions of an attack, and a picture to look at: originals above, guesses below.

    So too what it had at several times on the way: originals, then one row a look, the last one lowest.
    """
    folder = store.run_folder(run) / "attacks"
    store.put_beside(folder / f"{key}.safetensors", lambda path: save_file(dict(tensors), path))
    if "inputs" not in tensors or truth.dim() != 4:
        return
    store.put_beside(folder / f"{key}.png", lambda path: _picture(path, [truth, tensors["inputs"]]))
    if looks:
        named = {f"{i:03d} {when}": guess.contiguous() for i, (when, guess) in enumerate(looks)}
        rows = [truth, *named.values(), tensors["inputs"]]
        store.put_beside(folder / f"{key}.progress.safetensors", lambda path: save_file(named, path))
        store.put_beside(folder / f"{key}.progress.png", lambda path: _picture(path, rows))


def load_recovered(store: Store, run: str, key: str) -> dict[str, Tensor]:
    return _read(store.run_folder(run) / "attacks" / f"{key}.safetensors")


def _picture(path: Path, rows: Sequence[Tensor]) -> None:
    truth = rows[0]
    grid = torch.cat([torch.cat(list(images[:SHOWN].clamp(0, 1)), dim=2) for images in rows], dim=1)
    pixels = (grid.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    image = Image.fromarray(pixels)
    zoom = max(1, 64 // truth.shape[-1])
    image = image.resize((image.width * zoom, image.height * zoom), Image.Resampling.NEAREST)
    image.save(path, format="PNG")
