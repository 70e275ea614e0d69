"""How commands speak: tables and bars on a terminal, plain lines elsewhere, JSON when asked."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from splitbench.core.errors import Mistake
from splitbench.core.progress import reporting

PICTURES = (".png", ".svg")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
StorePath = Annotated[str | None, typer.Option("--store", help="Where runs and results are kept [SPLITBENCH_STORE].")]
RunId = Annotated[str, typer.Option("--run", help="A run id, a unique prefix of one, or 'latest'.")]
DeviceName = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 or mps [SPLITBENCH_DEVICE] (default: cpu).")
]
Scale = Annotated[str, typer.Option("--scale", help="smoke, desk or paper.")]

WIDTH = 160  # of tables where there is no terminal
LINE_EVERY = 10.0  # seconds between plain lines where there is no terminal


def out() -> Console:
    """Made when needed, so that redirected output is seen as such."""
    return _console(stderr=False)


def err() -> Console:
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH  # in a file a line need not be folded
    return console


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, default=str))


@contextmanager
def showing_progress() -> Iterator[None]:
    """A bar with an ETA on a terminal; a line now and then elsewhere."""
    console = err()
    if not console.is_terminal:
        with reporting(_Lines()):
            yield
        return
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int, note: str) -> None:
            if what in tasks and done < progress.tasks[progress.task_ids.index(tasks[what])].completed:
                progress.remove_task(tasks.pop(what))  # the next cell's work of the same name
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total, note=note)
            progress.update(tasks[what], completed=done, total=total, note=note)
            if done >= total and what != "cells":
                progress.remove_task(tasks.pop(what))

        with reporting(report):
            yield


class _Lines:
    def __init__(self) -> None:
        self.begun: dict[str, float] = {}
        self.last = time.monotonic()

    def __call__(self, what: str, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        heard = what in self.begun
        begun = self.begun.setdefault(what, now)
        if heard and 0 < done < total and now - self.last >= LINE_EVERY:
            self.last = now
            left = (now - begun) / done * (total - done)
            print(f"{what} {done}/{total} {note} (about {left:.0f} s left)", file=sys.stderr)
        if done >= total:
            self.begun.pop(what, None)


def check_picture(path: Path, option: str) -> list[Mistake]:
    """What is wrong with a file that a picture is to be written to, before the work of making it."""
    if path.suffix.lower() not in PICTURES:
        return [Mistake(option, f"expected a file that ends with .png or .svg, got '{path}'")]
    if not path.parent.is_dir():
        return [Mistake(option, f"there is no folder '{path.parent}' to put {path.name} into")]
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        return [Mistake(option, f"cannot write to '{path}'")]
    return []
