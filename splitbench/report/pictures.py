"""What attacks recovered, and the originals, as a run folder keeps them. Read without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import SafetensorError, safe_open

from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

STORED = 12  # the runner draws so many originals

Images = np.ndarray  # (N, H, W, C) of bytes


def _file(store: Store, outcome: Outcome, ending: str) -> Path:
    return store.run_folder(outcome.run) / "attacks" / f"{outcome.key}.{ending}"


def shows_images(outcome: Outcome) -> bool:
    """Labels, membership, texts and tables have no picture."""
    return outcome.goal == "inputs" and outcome.modality == "image"


def recovered_of(store: Store, outcome: Outcome, problems: list[str]) -> Images | None:
    """As it was scored: clamped to [0, 1], or stretched to it. Read without torch."""
    path = _file(store, outcome, "safetensors")
    if not shows_images(outcome) or not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            if "inputs" not in file.keys():  # noqa: SIM118
                return None
            kept = file.get_slice("inputs")
            x = kept[: min(STORED, kept.get_shape()[0])].astype(np.float64)
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        problems.append(_unread(path, error))
        return None
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        return None
    score = outcome.score(outcome.ranking)
    if score is not None and score.readout == "minmax":
        low, high = (f(axis=(1, 2, 3), keepdims=True) for f in (x.min, x.max))
        x = np.where(high > low, (x - low) / np.maximum(high - low, 1e-12), x)
    pixels: Images = (np.nan_to_num(x).clip(0, 1) * 255).round().astype(np.uint8).transpose(0, 2, 3, 1)
    return pixels


def originals_of(store: Store, outcome: Outcome, problems: list[str]) -> Images | None:
    """From the upper half of the picture that the runner drew; the truth is stored nowhere else."""
    path, tensors = _file(store, outcome, "png"), _file(store, outcome, "safetensors")
    if not shows_images(outcome) or not path.is_file():
        return None
    try:
        with safe_open(tensors, framework="numpy") as file:
            count, channels, height, width = file.get_slice("inputs").get_shape()
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SafetensorError, ValueError, TypeError, SyntaxError) as error:
        problems.append(_unread(path, error))
        return None
    count, zoom = min(count, STORED), pixels.shape[0] // (2 * height)
    if zoom < 1 or pixels.shape[:2] != (2 * height * zoom, count * width * zoom):
        problems.append(f"{_short(path)} is not the picture of its attack: not shown")
        return None
    upper = pixels[: height * zoom : zoom, ::zoom, :channels]  # (H, N W, C)
    return upper.reshape(height, count, width, channels).transpose(1, 0, 2, 3)


def _unread(path: Path, error: Exception) -> str:
    return f"{_short(path)} cannot be read ({str(error).splitlines()[0][:120]}): not shown"


def _short(path: Path) -> str:
    """Within the store, so that the same is said wherever the store lies."""
    return "/".join(path.parts[-4:])
