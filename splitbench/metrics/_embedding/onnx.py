"""An embedder as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.metrics._embedding.embedder import Embedder

_ERRORS_ONLY = 4  # onnxruntime's word for it; what goes wrong is said in our words


def read(path: Path, threads: int) -> Embedder:
    """The network of a file whose one input is images with three channels, normalised as those of ImageNet are."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS_ONLY
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no base of their own
        raise SplitbenchError(f"'{path}' is not an ONNX network that can be run: {_short(error)}") from error
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    if len(shape) != 4 or shape[1] not in (3, None) or inputs[0].type != "tensor(float)":
        found = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in inputs) or "none"
        raise SplitbenchError(f"'{path}' does not embed images: expected one input of floats (N, 3, H, W), got {found}")
    name, batch = inputs[0].name, shape[0] if isinstance(shape[0], int) else 0
    size = (shape[2], shape[3]) if isinstance(shape[2], int) and isinstance(shape[3], int) else None

    def run(x: Tensor) -> Tensor:
        # A file exported for batches of one size takes no others.
        parts = _in_batches(x, batch) if batch else [x]
        try:
            outputs = [torch.from_numpy(session.run(None, {name: part.contiguous().numpy()})[0]) for part in parts]
        except Exception as error:
            raise SplitbenchError(f"'{path}' cannot be run: {_short(error)}") from error
        features = torch.cat(outputs)[: len(x)]
        if len(features) != len(x):
            raise SplitbenchError(f"'{path}' makes an output of shape {tuple(features.shape)} of {len(x)} images")
        return features

    tried = run(torch.zeros(1, 3, *(size or (64, 64))))
    if tried.flatten(1).shape[1] < 2:
        raise SplitbenchError(f"'{path}' says one number of an image, which is no embedding")
    return Embedder(run, size)


def _in_batches(x: Tensor, batch: int) -> list[Tensor]:
    """Parts of exactly this size; the last is filled up with black."""
    missing = -len(x) % batch
    return list(torch.split(torch.cat((x, x.new_zeros(missing, *x.shape[1:]))), batch))


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:200]
