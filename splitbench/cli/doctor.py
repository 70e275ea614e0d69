"""splitbench doctor"""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from splitbench import __version__
from splitbench.cli._output import Json, StorePath, out, print_json
from splitbench.core.errors import SplitbenchError

REQUIRED = ("torch", "timm", "typer", "rich", "numpy", "pandas", "pyarrow", "pydantic", "PyYAML", "safetensors",
            "pillow", "scipy")  # fmt: skip
EXTRAS = {
    "text": ("transformers", "tokenizers"),
    "dp": ("dp-accounting", "opacus"),
    "ray": ("ray",),
    "slurm": ("submitit",),
}


def doctor(store: StorePath = None, json: Json = False) -> None:
    """Show what this machine has, and test the parts that break most often."""
    checks = [("python", True, platform.python_version()), ("splitbench", True, __version__)]
    checks += [
        (name, _version(name) is not None, _version(name) or "missing: pip install splitbench") for name in REQUIRED
    ]
    checks += [
        _tried("device", _device),
        _tried("networks", _networks),
        _tried("data", _data),
        _tried("store", lambda: _store(store)),
    ]
    notes = {extra: {name: _version(name) or "not installed" for name in names} for extra, names in EXTRAS.items()}
    sound = all(fine for _, fine, _ in checks)
    if json:
        print_json(
            {"sound": sound, "checks": [{"name": n, "ok": ok, "note": note} for n, ok, note in checks], "extras": notes}
        )
    else:
        for name, fine, note in checks:
            out().print(f"{'[green]ok[/]    ' if fine else '[red]broken[/]'} {name:<12} {note}")
        for extra, names in notes.items():
            out().print(f"[dim]extra[/]  {extra:<12} " + ", ".join(f"{n} {v}" for n, v in names.items()))
        out().print("everything works" if sound else "fix what is marked broken above")
    raise typer.Exit(0 if sound else 1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tried(name: str, action: Any) -> tuple[str, bool, str]:
    try:
        return name, True, action()
    except SplitbenchError as error:
        return name, False, str(error)
    except Exception as error:  # a doctor reports what is broken; it does not break
        return name, False, f"{type(error).__name__}: {error}"


def _device() -> str:
    from splitbench.core.device import current, resolve

    return f"{current()} unless --device says another; auto would take {resolve('auto')}"


def _networks() -> str:
    import torch

    from splitbench.core.component import Part
    from splitbench.plan.components import build

    architecture = build(Part("models", "resnet18", {}))
    split = architecture.split(architecture.build((3, 32, 32), 10), ("stem",))
    split.eval()
    split.joined(torch.zeros(1, 3, 32, 32))
    return f"resnet18 cut and run; torch uses {torch.get_num_threads()} of {os.cpu_count()} cores on {sys.platform}"


def _data() -> str:
    from splitbench.core.component import Part
    from splitbench.data._folders import folders
    from splitbench.plan.components import build

    loaded = build(Part("data", "fashion_mnist_mini", {})).load(folders())
    return f"fashion_mnist_mini has {len(loaded.train)} / {len(loaded.test)} images, digest as published"


def _store(path: str | None) -> str:
    from splitbench.store.store import Store

    store = Store(path)
    existed = store.path.exists()
    if not existed:
        return f"{store.path.absolute()} will be made by the first run"
    store.open_for_writing()
    outcomes, damaged = store.outcomes()
    if damaged:
        raise SplitbenchError("; ".join(f"{d.path.name}: {d.reason}" for d in damaged))
    return f"{store.path} holds {len(store.runs())} runs, {len(outcomes)} outcomes"
