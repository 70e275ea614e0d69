"""Pretrained weights from a file of the user's. Only safetensors are read: nothing read from disk can run code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError


def load(network: nn.Module, path: str, rename: Callable[[str], str] = str, spare: tuple[str, ...] = ()) -> None:
    """Fill the network from a safetensors file, or from `model.safetensors` in a folder.

    What the file holds beyond the network is ignored. Parameters that begin with one of `spare` (a head for other
    classes) keep their initialisation if the file lacks them or has them in another size; all others must be there.
    """
    file = Path(path) / "model.safetensors" if Path(path).is_dir() else Path(path)
    stored = {rename(name): tensor for name, tensor in _read(file).items()}
    wanted = network.state_dict()
    fitting = {name: stored[name] for name in wanted if name in stored and stored[name].shape == wanted[name].shape}
    wrong = [
        f"{name} is {_by(stored[name])} there and {_by(tensor)} here" if name in stored else f"no {name} in it"
        for name, tensor in wanted.items()
        if name not in fitting and not name.startswith(spare)
    ]
    if wrong:
        raise SplitbenchError(f"the weights in '{file}' do not fit the network: {_few(wrong)}")
    network.load_state_dict(fitting, strict=False)


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise SplitbenchError(f"no weights at '{file}'; give a .safetensors file or a folder with model.safetensors")
    try:
        return load_file(file)
    except SafetensorError as error:
        raise SplitbenchError(f"'{file}' is not a safetensors file ({error}); convert the weights first") from error


def _few(sentences: Sequence[str]) -> str:
    rest = len(sentences) - 3
    return "; ".join(sentences[:3]) + (f"; and {rest} more" if rest > 0 else "")


def _by(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "a number"
