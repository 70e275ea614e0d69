"""A network of two layers as an ONNX file, written byte by byte: flatten, then a matrix. No other package is needed."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor


def _number(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + _number(rest) if rest else bytes([low])


def _whole(field: int, value: int) -> bytes:
    return _number(field << 3) + _number(value)


def _text(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _number(field << 3 | 2) + _number(len(raw)) + raw


def _value(name: str, shape: tuple[int | str, ...]) -> bytes:
    dims = b"".join(_text(1, _text(2, d) if isinstance(d, str) else _whole(1, d)) for d in shape)
    return _text(1, name) + _text(2, _text(1, _whole(1, 1) + _text(2, dims)))  # elements are float


def _node(kind: str, inputs: list[str], output: str) -> bytes:
    return b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(4, kind)


def write(path: Path, matrix: Tensor, shape: tuple[int | str, ...]) -> Path:
    """A network that maps images of `shape` (N, C, H, W) to `flatten(x) @ matrix`. A word in the shape is any size."""
    tensor = b"".join(_whole(1, d) for d in matrix.shape) + _whole(2, 1) + _text(8, "matrix")
    tensor += _text(9, matrix.float().contiguous().numpy().tobytes())
    graph = _text(1, _node("Flatten", ["x"], "flat")) + _text(1, _node("MatMul", ["flat", "matrix"], "z"))
    graph += _text(2, "tiny") + _text(5, tensor) + _text(11, _value("x", shape))
    graph += _text(12, _value("z", (shape[0], matrix.shape[1])))
    path.write_bytes(_whole(1, 8) + _text(7, graph) + _text(8, _whole(2, 13)))
    return path
