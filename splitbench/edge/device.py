"""A device as a data file: what it can do, and where each figure is from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import BaseModel, ConfigDict, ValidationError

from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.edge.kinds import KINDS
from splitbench.plan.document import Document

_FILES = Path(__file__).parent / "devices"

Text = Annotated[str, MinLen(1)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Figure(_Strict):
    """A number above zero, and where it is from: an address, `derived: ...`, `estimated: ...` or `measured: ...`."""

    value: Positive
    source: Text


class Share(_Strict):
    value: Annotated[float, Gt(0), Le(1)]
    source: Text


class Factor(_Strict):
    """By how much a prediction may be off, either way."""

    value: Annotated[float, Ge(1)]
    source: Text


class Speed(_Strict):
    """Of one kind of operation, relative to large matrix products and to plain copies on the same device."""

    product: Positive = 1.0  # of the sustained rate of MACs
    half: NotNegative = 0.0  # terms in a sum at which half of that is reached
    stream: Positive | Annotated[list[tuple[Positive, Positive]], MinLen(1)] = 1.0  # of the memory bandwidth, or
    # points (bytes moved, share of the bandwidth): what fits a cache is faster, what needs fresh pages is slower
    call: NotNegative | None = None  # seconds; none: the device's overhead


class Device(_Strict):
    name: Text
    title: Text
    threads: Annotated[int, Ge(1)]
    memory: Figure  # bytes
    reserved: Figure  # bytes that the system and others take
    runtime: Mapping[Literal["torch", "timm", "transformers"], Figure]  # bytes of a process that has loaded these
    peak: Figure  # float32 MACs per second of all threads
    sustained: Share  # of the peak, by large matrix products
    bandwidth: Figure  # bytes per second, read and written, by large copies
    overhead: Figure  # seconds of a call that does nothing
    uplink: Figure  # bits per second
    downlink: Figure
    latency: Figure  # seconds, one way
    idle: Figure  # watts
    active: Figure  # watts, computing on all threads
    radio: Figure  # watts more while sending or receiving
    uncertainty: Factor
    speeds: Mapping[str, Speed] = {}  # by kind, where they differ from the usual ones
    speeds_source: str = ""

    @property
    def available(self) -> float:
        return self.memory.value - self.reserved.value


def user_folder() -> Path:
    """Where calibrated and own device files are kept."""
    if given := os.environ.get("SPLITBENCH_DEVICES"):
        return Path(given)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "splitbench" / "devices"


def names() -> list[str]:
    """Every device that has a name: those of the package, the user's, and this machine."""
    places = (_FILES, user_folder())
    return sorted({"local", *(p.stem for place in places if place.is_dir() for p in place.glob("[!_]*.yaml"))})


_BOARDS = {"Raspberry Pi 4": "rpi4", "Raspberry Pi 5": "rpi5", "Raspberry Pi Zero 2": "rpi_zero2"}


def here() -> str:
    """The name of the device this is: one that has a name, or `local`."""
    model = Path("/proc/device-tree/model")
    text = model.read_text(errors="ignore") if model.is_file() else ""
    return next((name for board, name in _BOARDS.items() if text.startswith(board)), "local")


def find(given: str) -> Path:
    """The file of a device: a path, or a name; a calibrated one comes before the package's."""
    if given.endswith((".yaml", ".yml")):
        if not Path(given).is_file():
            raise SplitbenchError(f"no device file '{given}'")
        return Path(given)
    for place in (user_folder(), _FILES):
        if given and (place / f"{given}.yaml").is_file():
            return place / f"{given}.yaml"
    if given == "local":
        raise SplitbenchError("this machine is not calibrated yet; `splitbench profile --calibrate` takes a minute")
    raise SplitbenchError(f"no device named '{given}'{nearest(given, names())} (or a path to a .yaml of your own)")


def load(given: str) -> Device:
    """Raises once, with every mistake in the file and its line."""
    path = find(given)
    document = Document.load(path)
    mistakes = list(document.mistakes)
    data = document.data if isinstance(document.data, dict) else {}
    if not isinstance(document.data, dict) or not data:
        mistakes.append(Mistake("", "a device is a mapping of figures, this is not one"))
    data = _with_base(data, document, mistakes)
    device = None
    try:
        device = Device.model_validate(data)
    except ValidationError as error:
        mistakes += [_mistake(problem) for problem in error.errors()]
    mistakes += [
        Mistake(f"speeds.{kind}", f"no kind of operation named '{kind}'{nearest(str(kind), _all_kinds())}")
        for kind in (data.get("speeds") or {})
        if kind not in _all_kinds()
    ]
    if mistakes or device is None:
        placed = [Mistake(m.where or "file", m.what, m.line or document.line(m.where)) for m in mistakes]
        raise SplitbenchError(sorted(placed, key=lambda m: m.line or 0), source=str(path))
    return device


def _with_base(data: Mapping[str, Any], document: Document, mistakes: list[Mistake]) -> dict[str, Any]:
    """A variant names the device it is `like` and says only what differs."""
    like = data.get("like")
    if like is None:
        return dict(data)
    base = _FILES / f"{like}.yaml"
    if not base.is_file():
        mistakes.append(Mistake("like", f"no device named '{like}'{nearest(str(like), names())}"))
        return {k: v for k, v in data.items() if k != "like"}
    return {**Document.load(base).data, **{k: v for k, v in data.items() if k != "like"}}


def _mistake(problem: Any) -> Mistake:
    where = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return Mistake(where, "is missing")
    if problem["type"] == "extra_forbidden":
        name, known = str(problem["loc"][-1]), Device.model_fields if len(problem["loc"]) == 1 else Figure.model_fields
        return Mistake(where, f"no figure named '{name}'{nearest(name, known)}")
    return Mistake(where, f"{problem['msg'].replace('Input should be', 'expected')}, got {problem['input']!r}")


def _all_kinds() -> set[str]:
    return {*KINDS, *(f"{kind}_backward" for kind in KINDS)}


def usual_speeds() -> dict[str, Speed]:
    """How fast kinds of operations are beside products and copies, where a device's file does not say."""
    document = Document.load(_FILES / "_speeds.yaml").data
    return {kind: Speed.model_validate(speed) for kind, speed in document["speeds"].items()}
