"""Images in, features of length one out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.metrics._embedding.files import located

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation of the colours
_CHUNK = 64  # images at a time: their feature maps are large


@dataclass(frozen=True)
class Embedder:
    """A network that is never trained, and the images it was trained on."""

    run: Callable[[Tensor], Tensor]  # (N, 3, *size), normalised -> (N, D)
    size: tuple[int, int] | None  # of the images, height and width; None: any
    mean: tuple[float, float, float] = IMAGENET[0]
    spread: tuple[float, float, float] = IMAGENET[1]

    def __call__(self, images: Tensor) -> Tensor:
        """(N, D) in double precision, each of length 1; NaN for an image that holds a NaN."""
        features = torch.cat([self._some(part) for part in torch.split(images.float(), _CHUNK)]).double()
        # Not every layer hands a NaN on: the larger of 0 and NaN may be 0.
        unknown = images.isnan().flatten(1).any(1)
        return F.normalize(features, dim=1).masked_fill(unknown[:, None], torch.nan)

    def _some(self, images: Tensor) -> Tensor:
        x = images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images
        if self.size is not None and x.shape[-2:] != self.size:
            # Antialiased, so that a large image is averaged and not sampled; this changes nothing when enlarging.
            x = F.interpolate(x, size=self.size, mode="bilinear", antialias=True)
        mean, spread = (x.new_tensor(values).view(1, 3, 1, 1) for values in (self.mean, self.spread))
        with torch.no_grad():
            return self.run((x - mean) / spread).flatten(1)


def embedder(metric: str, weights: str) -> Embedder:
    """The network in a file, kept until the file changes. Raises a `SplitbenchError` for what cannot be one."""
    path = located(metric, weights)
    state = path.stat()
    return _load(path, state.st_size, state.st_mtime_ns, torch.get_num_threads())


@functools.lru_cache(maxsize=4)
def _load(path: Path, _size: int, _time: int, threads: int) -> Embedder:
    if path.suffix == ".onnx":
        from splitbench.metrics._embedding.onnx import read
    elif path.suffix in (".safetensors", ".pth"):
        from splitbench.metrics._embedding.networks import read
    else:
        raise SplitbenchError(f"'{path}' is neither an .onnx nor a .safetensors file; convert the weights first")
    return read(path, threads)
