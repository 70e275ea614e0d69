"""A trained run on disk: what it takes to attack it later, evaluate it again, or train it again."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
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
from splitbench.core import device
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Member
from splitbench.core.message import About, Message
from splitbench.core.party import Party, client
from splitbench.core.wire import Wire
from splitbench.plan.cells import RunSpec
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.train import Trained
from splitbench.store.store import Store

SHOWN = 12  # images in a picture
WEIGHTS = "weights.safetensors"
PACKAGES = ("torch", "timm", "numpy", "safetensors", "transformers")


def save(store: Store, trained: Trained) -> Path:
    """A folder that is there already was damaged, or its training would not have been repeated: its files are written
    anew, and what attacks recovered stays."""
    key, files = trained.prepared.spec.key, _files(trained)
    folder = store.run_folder(key)
    if folder.is_dir():
        for name, write in files.items():
            store.put_beside(folder / name, write)
        return folder

    def fill(draft: Path) -> None:
        for name, write in files.items():
            write(draft / name)

    return store.put_run(key, fill)


def _files(trained: Trained) -> dict[str, Callable[[Path], None]]:
    """Everything that a run's folder holds, and how it is written. The weights last: they make the run whole."""
    prepared, rows = trained.prepared, trained.prepared.allocation
    samples = {"private": rows.private, "auxiliary": rows.auxiliary, "evaluation": rows.evaluation, "test": rows.test}
    texts = {
        "recipe.yaml": yaml.safe_dump(prepared.spec.document(), sort_keys=False),
        "provenance.json": json.dumps(provenance(prepared), indent=2) + "\n",
        "history.json": json.dumps({"loss": trained.losses}) + "\n",
    }
    files: dict[str, Callable[[Path], None]] = {name: functools.partial(_write, text) for name, text in texts.items()}
    files["samples.safetensors"] = lambda path: save_file(samples, path)
    if prepared.spec.record:
        files["transcript.safetensors"] = lambda path: _save_transcript(path, trained.wire.transcript)
    files[WEIGHTS] = lambda path: save_file(state(prepared), path)
    return files


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def state(prepared: Prepared) -> dict[str, Tensor]:
    """All weights and buffers by party, stage and name. Clients whose layers are those of the first are left out."""
    found: dict[str, Tensor] = {}
    first = _of(prepared.members[client(0)])
    for party, member in prepared.members.items():
        mine = _of(member)
        if party.role == "client" and party.index > 0 and all(torch.equal(mine[n], first[n]) for n in mine):
            continue
        found |= {f"{party}/{name}": value for name, value in mine.items()}
    return found


def _of(member: Member) -> dict[str, Tensor]:
    values = {
        f"{at}/{name}": value for at, stage in enumerate(member.stages) for name, value in stage.state_dict().items()
    }
    return {name: value.detach().cpu().contiguous().clone() for name, value in values.items()}


def load(store: Store, key: str) -> Trained:
    """A stored run as it was when its training ended. A damaged one is an error that says which file."""
    folder = store.run_folder(key)
    spec = read_spec(folder)
    prepared = prepare(spec, pretrained=False)  # all weights are here
    weights = _read(folder / WEIGHTS)
    for party, member in prepared.members.items():
        prefix = f"{party}/" if any(name.startswith(f"{party}/") for name in weights) else f"{client(0)}/"
        for at, stage in enumerate(member.stages):
            own = f"{prefix}{at}/"
            mine = {n.removeprefix(own): v for n, v in weights.items() if n.startswith(own)}
            if mine.keys() != stage.state_dict().keys():
                raise SplitbenchError(f"{folder / WEIGHTS} does not fit {spec.model.name} cut at {spec.cut}")
            stage.load_state_dict(mine)
    wire = Wire()
    if spec.record:
        wire.transcript = _load_transcript(folder / "transcript.safetensors")
    losses = tuple(json.loads((folder / "history.json").read_text())["loss"])
    return Trained(prepared, wire, losses)


def weights_digest(folder: Path) -> str:
    """Of the weights a row speaks of; nothing if there are none."""
    file = folder / WEIGHTS
    if not file.is_file():
        return ""
    known = file.stat()
    return _digest(file, known.st_mtime_ns, known.st_size)


@functools.lru_cache(maxsize=64)
def _digest(file: Path, _time: int, _size: int) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while part := content.read(2**20):
            digest.update(part)
    return digest.hexdigest()


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
        "device": str(device.current()),
        "processor": device.processor(),
        "packages": versions,
        "data_digest": prepared.data.digest,
        "sample_digests": prepared.allocation.digests,
    }


_ABOUT = ("samples", "owners", "shares", "places")


def _save_transcript(path: Path, messages: Sequence[Message]) -> None:
    """Each message's tensor, under a name that says the rest of it, and the samples that it is about."""
    tensors = {}
    for i, m in enumerate(messages):
        tensors[f"{i:07d}/{m.step}/{m.round}/{m.sender}/{m.receiver}/{m.kind}/{m.cut}"] = m.tensor.cpu().contiguous()
        if m.about is not None:
            for name in _ABOUT:
                if (column := getattr(m.about, name)) is not None:
                    # What comes back is about what was sent, and no two tensors of a file may share their memory.
                    tensors[f"{i:07d}.{name}"] = column.contiguous().clone()
            if m.about.lead:
                tensors[f"{i:07d}.lead"] = torch.ones(1)
    save_file(tensors, path)


def _load_transcript(path: Path) -> list[Message]:
    stored = _read(path)
    messages = []
    for name in sorted(name for name in stored if "/" in name):
        number, step, round_, sender, receiver, kind, cut = name.split("/")
        about = [*(stored.get(f"{number}.{column}") for column in _ABOUT), f"{number}.lead" in stored]
        messages.append(
            Message(
                Party.named(sender),
                Party.named(receiver),
                kind,  # type: ignore[arg-type]
                stored[name],
                int(cut),
                int(step),
                int(round_),
                about=About(*about) if about[0] is not None else None,  # type: ignore[arg-type]
            )
        )
    return messages


def save_recovered(
    store: Store,
    run: str,
    key: str,
    tensors: Mapping[str, Tensor],
    truth: Tensor | None,
    looks: Sequence[tuple[str, Tensor]] = (),
) -> None:
    """The reconstructions of an attack, and a picture to look at: originals above, guesses below.

    So too what it had at several times on the way: originals, then one row a look, the last one lowest.
    """
    folder = store.run_folder(run) / "attacks"
    store.put_beside(recovered_file(store, run, key), lambda path: save_file(_plain(tensors), path))
    if truth is None:
        return
    store.put_beside(folder / f"{key}.png", lambda path: _picture(path, [truth, tensors["inputs"]]))
    if looks:
        named = {f"{i:03d} {when}": guess.contiguous() for i, (when, guess) in enumerate(looks)}
        rows = [truth, *named.values(), tensors["inputs"]]
        store.put_beside(folder / f"{key}.progress.safetensors", lambda path: save_file(named, path))
        store.put_beside(folder / f"{key}.progress.png", lambda path: _picture(path, rows))


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def recovered_file(store: Store, run: str, key: str) -> Path:
    return store.run_folder(run) / "attacks" / f"{key}.safetensors"


def load_recovered(store: Store, run: str, key: str) -> dict[str, Tensor]:
    return _read(recovered_file(store, run, key))


def _picture(path: Path, rows: Sequence[Tensor]) -> None:
    truth = rows[0]
    shown = [images[:SHOWN].detach().cpu().clamp(0, 1) for images in rows]
    grid = torch.cat([torch.cat(list(images), dim=2) for images in shown], dim=1)
    pixels = (grid.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, axis=2)
    image = Image.fromarray(pixels)
    zoom = max(1, 64 // truth.shape[-1])
    image = image.resize((image.width * zoom, image.height * zoom), Image.Resampling.NEAREST)
    image.save(path, format="PNG")
