"""Fields of a run, a training or an adversary as options of a command, with their types, defaults and explanations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from splitbench.plan.fields import Field, fields_of

F = TypeVar("F", bound=Callable[..., Any])


def with_options(panels: Mapping[str, type], left_open: bool = False, only: Sequence[str] = ()) -> Callable[[F], F]:
    """A command that takes, in place of its `**` argument, an option for each field of the classes, or for some.

    `left_open`: what is not given is None, as it depends on more than the field.
    """

    def wanted(owner: type) -> list[Field]:
        return [field for field in fields_of(owner) if not only or field.name in only]

    def decorate(command: F) -> F:
        made = [_parameter(f, panel, left_open) for panel, owner in panels.items() for f in wanted(owner)]
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        every = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in [*own, *made]]
        # Where typer looks.
        command.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in every}
        return command

    return decorate


def _parameter(field: Field, panel: str, left_open: bool) -> inspect.Parameter:
    several = field.plain is tuple
    kind: Any = list[str] if several else field.plain
    default = None if left_open or several else field.default
    names = [f"--{field.name.replace('_', '-')}"] if field.plain is bool and default is False else []
    option = typer.Option(*names, help=_help(field), rich_help_panel=panel)
    wanted: Any = kind | None if default is None else kind
    annotation: Any = Annotated[wanted, option]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _help(field: Field) -> str:
    note = field.note[:1].upper() + field.note[1:]
    choices = " or ".join([", ".join(field.choices[:-1]), field.choices[-1]]) if field.choices else ""
    return f"{note}: {choices}." if choices else f"{note}."


def given(values: Mapping[str, Any], owner: type) -> dict[str, Any]:
    """Those of the values that are fields of the class and were given."""
    return {f.name: values[f.name] for f in fields_of(owner) if values.get(f.name) is not None}
