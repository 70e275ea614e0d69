"""The command that makes a row again, from its resolved recipe. What a command takes by default is left unsaid."""

from __future__ import annotations

import ast
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import yaml

from splitbench.bench.plan import Cell, Counts, RunSpec, Training
from splitbench.core import registry
from splitbench.core.component import Part
from splitbench.core.threat import ThreatModel

# Options of the two commands: a setting of a component that is called so must say whose it is.
TRAIN = {
    *(f.name for block in (Training, Counts) for f in fields(block)),
    *("dataset", "model", "cut", "topology", "defense", "clients", "partition", "alpha", "protected", "record"),
    *("seed", "scale", "store", "json", "help"),
}
ATTACK = {
    *(f.name for f in fields(ThreatModel)),
    *(f"no_{f.name}" for f in fields(ThreatModel) if isinstance(f.default, bool)),
    *("run", "budget", "restarts", "double", "no_double", "store", "json", "help"),
}


@dataclass(frozen=True)
class Command:
    text: str  # empty if no command line can say it
    caveat: str = ""  # why it does not make this very row


def again(cell: Mapping[str, Any]) -> Command:
    """Of the cell of a training, or of an attack on a run that is there."""
    try:
        found = Cell.from_document(dict(cell))
    except (KeyError, TypeError, AttributeError):
        return Command("", "the row does not hold its whole recipe")
    return _train(found.run) if found.attack is None else _attack(found)


def _train(run: RunSpec) -> Command:
    usual = {f.name: f.default for f in fields(RunSpec)}
    parts = [run.data, run.model, run.topology, *run.defenses]
    twice = [name for name, count in Counter(d.name for d in run.defenses).items() if count > 1]
    if any(_unusual(d) for d in run.defenses if d.name in twice):
        return Command("", f"{twice[0]} stands twice in it with settings, which only a recipe can say")
    said = ["--dataset", run.data.name, "--model", run.model.name, "--cut", run.cut]
    said += _pair("topology", run.topology.name) if run.topology.name != "vanilla" else []
    said += [word for d in run.defenses for word in _pair("defense", d.name)]
    said += [word for part in parts for word in _settings(part, parts, TRAIN)]
    for given, default in ((asdict(run.training), asdict(Training())), (asdict(run.samples), asdict(Counts()))):
        said += [word for k, v in given.items() if v != default[k] for word in _pair(k, v)]
    for name in ("clients", "partition", "alpha", "protected", "seed", "scale"):
        if getattr(run, name) != usual[name]:
            said += _pair(name, getattr(run, name))
    said += ["--record"] if run.record else []
    return Command(shlex.join(["splitbench", "train", *said]), _caveat(parts))


def _attack(cell: Cell) -> Command:
    assert cell.attack is not None
    assert cell.threat is not None
    run, attack = cell.run, cell.attack
    held = run.samples.auxiliary
    labels = bool(registry.declared("topologies", run.topology.name, "shares_labels"))
    usual = ThreatModel(labels=labels, architecture=True, auxiliary=held, queries=held, transcript=run.record)
    said = ["--run", run.key, *_settings(attack, [attack], ATTACK)]
    for name, value in asdict(cell.threat).items():
        if value != getattr(usual, name):
            yes = f"--{name}" if value else f"--no-{name}"
            said += [yes] if isinstance(value, bool) else _pair(name, value)
    said += _pair("budget", f"{cell.minutes!r}m") if cell.minutes is not None else []
    said += _pair("restarts", cell.restarts) if cell.restarts != 1 else []
    caveat = _caveat([attack])
    if cell.minutes is not None and not caveat:
        caveat = "what it reaches in so many minutes depends on the machine"
    return Command(shlex.join(["splitbench", "attack", attack.name, *said]), caveat)


def _settings(part: Part, among: Sequence[Part], taken: set[str]) -> Iterator[str]:
    others = [other for other in among if other is not part]
    main = dict(list(part.settings.items())[: part.kind == "defenses"])  # said in any case, as its label does
    for name, value in (main | _unusual(part)).items():
        shared = name in taken or any(name in _fields(other) for other in others)
        option = f"{part.name}.{name}" if shared else name.replace("_", "-")
        yield from _pair(option, _text(value))


def _unusual(part: Part) -> dict[str, Any]:
    """Settings that are not what the component's source says they are by default."""
    defaults = {}
    for setting in registry.describe(part.kind, part.name)[1]:  # type: ignore[arg-type]
        try:
            value = ast.literal_eval(setting.default)
        except (ValueError, SyntaxError):
            continue
        defaults[setting.name] = list(value) if isinstance(value, tuple) else value
    return {k: v for k, v in part.settings.items() if k not in defaults or not _same(v, defaults[k])}


def _fields(part: Part) -> set[str]:
    return {*part.settings, *(s.name for s in registry.describe(part.kind, part.name)[1])}  # type: ignore[arg-type]


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _pair(option: str, value: Any) -> list[str]:
    text, name = str(value), f"--{option.replace('_', '-') if '.' not in option else option}"
    return [f"{name}={text}"] if text.startswith("-") else [name, text]


def _text(value: Any) -> str:
    """As the command line reads it back: YAML, where a word with an `e` may be a number too."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        float(value)
    except ValueError:
        pass
    else:
        return json.dumps(value)
    try:
        return value if yaml.safe_load(value) == value else json.dumps(value)
    except yaml.YAMLError:
        return json.dumps(value)


def _caveat(parts: Sequence[Part]) -> str:
    """A newer version of a component makes another row."""
    for part in parts:
        if ":" in part.name or not registry.locate(part.kind, part.name):  # type: ignore[arg-type]
            continue  # its version is a digest of what is in a file
        now = registry.declared(part.kind, part.name, "version")  # type: ignore[arg-type]
        now = 1 if now is None else now
        was = part.version if isinstance(part.version, int) else str(part.version).partition("+")[0]
        if str(now) != str(was):
            return f"the row is of version {was} of {part.name}, and this splitbench has version {now}"
    return ""
