"""Settings of components as options: `--defense gaussian` opens `--sigma`.

They are read from the components' source, so that `--help` lists them without importing anything heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand

from splitbench.core import registry
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.registry import Kind

OPTIONS: dict[str, Kind] = {
    "--dataset": "data",
    "--auxiliary-dataset": "data",
    "--model": "models",
    "--topology": "topologies",
    "--defense": "defenses",
}


class SettingsCommand(TyperCommand):
    """A command whose further options are the settings of the components it is asked to use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name: param for param in self.params for name in param.opts + param.secondary_opts}
        rest, given = _divide(args, known)
        ctx.meta["settings"] = given
        ctx.meta["args"] = args
        ctx.meta["options"] = sorted(name for name in known if name.startswith("--"))
        return super().parse_args(ctx, rest)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        console = Console()
        for kind, name in _chosen(ctx.meta.get("args", []), self.name or ""):
            _print_settings(console, kind, name)


def _divide(args: list[str], known: dict[str, Any]) -> tuple[list[str], dict[str, str | None]]:
    """Arguments the command declares, and the others as settings; None for one that stands alone."""
    rest: list[str] = []
    given: dict[str, str | None] = {}
    waiting = list(args)
    while waiting:
        token = waiting.pop(0)
        name, equals, value = token.partition("=")
        if token == "--":
            return [*rest, token, *waiting], given
        alone = not equals and (not waiting or waiting[0].startswith("--"))
        if name in known or not name.startswith("--") or name in ("--help",):
            takes_value = name in known and not known[name].is_flag and not equals and name.startswith("-")
            if takes_value and alone:
                if "--help" in waiting:
                    continue
                usual = known[name].default
                such = f", such as {name} {usual}" if isinstance(usual, str | int | float) and usual != "" else ""
                raise SplitbenchError(f"{name} needs a value{such}")
            rest.append(token)
            if takes_value:
                rest.append(waiting.pop(0))
            continue
        given[name.removeprefix("--").replace("-", "_")] = value if equals else None if alone else waiting.pop(0)
    return rest, given


def _chosen(args: list[str], command: str) -> list[tuple[Kind, str]]:
    """The components named in the arguments, where they have names of their own."""
    found: list[tuple[Kind, str]] = []
    if command == "attack":
        found += [("attacks", name) for name in args if name in registry.names("attacks")][:1]
    for at, token in enumerate(args):
        name, _, value = token.partition("=")
        if name in OPTIONS:
            value = value or (args[at + 1] if at + 1 < len(args) else "")
            if value in registry.names(OPTIONS[name]):
                found.append((OPTIONS[name], value))
    return found


def _print_settings(console: Console, kind: Kind, name: str) -> None:
    about, settings = registry.describe(kind, name)
    grid = Table.grid(padding=(0, 2))
    for setting in settings:
        name_shown = f"[bold cyan]--{setting.name.replace('_', '-')}[/]"
        default = f"[dim]\\[default: {setting.default}][/]"
        grid.add_row(name_shown, f"[yellow]{_plain(setting.annotation)}[/]", setting.note, default)
    if not settings:
        grid.add_row("[dim]no settings[/]")
    title = f"{registry.SINGULAR[kind]} {name}: {about.splitlines()[0] if about else ''}"
    console.print(Panel(grid, title=title, title_align="left", border_style="dim"))


def _plain(annotation: str) -> str:
    """`Annotated[float, Ge(0)]` as a person would say it: `float >= 0`."""
    if not annotation.startswith("Annotated["):
        return (
            annotation.replace("Literal[", "").replace("]", "").replace("'", "")
            if "Literal" in annotation
            else annotation
        )
    kind, *limits = annotation.removeprefix("Annotated[").removesuffix("]").split(", ")
    words = {"Ge": ">=", "Gt": ">", "Le": "<=", "Lt": "<"}
    said = [f"{words[limit[:2]]} {limit[3:-1]}" for limit in limits if limit[:2] in words]
    return " and ".join([f"{kind} {said[0]}", *said[1:]]) if said else kind


def assign(
    settings: Mapping[str, str | None], chosen: Iterable[tuple[str, Kind, str]], options: Iterable[str]
) -> dict[str, Any]:
    """Give each setting to the component that has it. Returns `{label: {name: {settings}}}` by the labels given.

    A setting that two chosen components share is given as `--gaussian.sigma`. One without a value is a switch.
    """
    parts = list(chosen)
    fields = {label: {s.name: s.annotation for s in registry.describe(kind, name)[1]} for label, kind, name in parts}
    given: dict[str, dict[str, Any]] = {label: {} for label, _, _ in parts}
    for key, text in settings.items():
        owner, _, field = key.rpartition(".")
        takers = [label for label, _, name in parts if field in fields[label] and owner in ("", name)]
        if len(takers) > 1:
            names = [name for label, _, name in parts if label in takers]
            raise SplitbenchError(f"--{field} is a setting of {' and '.join(names)}; say --{names[0]}.{field}")
        if not takers:
            loaded = {label: _loaded_fields(kind, name) for label, kind, name in parts}
            takers = [label for label in loaded if field in loaded[label]]
            fields |= {label: loaded[label] for label in takers}
        if not takers:
            choices = [*options, *(f"--{f}" for known in fields.values() for f in known)]
            raise SplitbenchError(f"no option --{key}{nearest(f'--{key}', set(choices))}")
        given[takers[0]][field] = _switch(key, fields[takers[0]][field]) if text is None else value(text)
    return {label: {name: given[label]} for label, _, name in parts}


def _switch(key: str, annotation: str) -> bool:
    if annotation not in ("bool", "bool | None"):
        raise SplitbenchError(f"--{key.replace('_', '-')} needs a value ({_plain(annotation)})")
    return True


def need_values(settings: Mapping[str, str | None]) -> dict[str, str]:
    """Options of which none is a switch."""
    for key, text in settings.items():
        if text is None:
            raise SplitbenchError(f"--{key.replace('_', '-')} needs a value")
    return {key: text for key, text in settings.items() if text is not None}


def _loaded_fields(kind: Kind, name: str) -> dict[str, str]:
    """Of a component that has no source of its own to read (a timm model, a path to data).

    One that does not exist is the mistake to speak of, rather than the setting that nobody takes.
    """
    from splitbench.core.component import settings_of

    found = settings_of(registry.load(kind, name))
    return {key: f.type if isinstance(f.type, str) else f.type.__name__ for key, f in found.items()}


def value(text: str) -> Any:
    """As YAML reads it, so that the command line and a recipe agree; `1e-3` is a number too."""
    try:
        return float(text) if "e" in text.lower() and text.lower() not in ("true", "false") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text
