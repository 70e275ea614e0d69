"""The command that makes a row again, from its resolved recipe. What a command takes by default is left unsaid."""

from __future__ import annotations

import ast
import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from splitbench.core import registry
from splitbench.core.component import Part
from splitbench.core.threat import ThreatModel
from splitbench.plan.cells import Cell, Counts, Options, RunSpec, Training, usual_threat
from splitbench.plan.fields import fields_of

# Options of the two commands: a setting of a component that is called so must say whose it is.
TRAIN = {
    *(f.name for owner in (Options, Training, Counts) for f in fields_of(owner)),
    *("dataset", "auxiliary_dataset", "model", "cut", "topology", "defense", "seed", "scale"),
    *("device", "store", "json", "help"),
}
ATTACK = {
    *(f.name for f in fields_of(ThreatModel)),
    *(f"no_{f.name}" for f in fields_of(ThreatModel) if f.plain is bool),
    *("run", "budget", "restarts", "double", "device", "store", "json", "help"),
}


@dataclass(frozen=True)
class Command:
    text: str  # empty if no command line can say it
    caveat: str = ""  # why it does not make this very row


@dataclass(frozen=True)
class Sources:
    """What the sources of components say, each read once: a store has many rows of few components."""

    _defaults: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    _declared: dict[tuple[str, str, str], Any] = field(default_factory=dict)

    def defaults(self, part: Part) -> dict[str, Any]:
        """Settings and their defaults; one whose default is no plain value has none here."""
        which = part.kind, part.name
        if which not in self._defaults:
            try:
                settings = registry.describe(part.kind, part.name)[1]  # type: ignore[arg-type]
            except (ImportError, SyntaxError):  # a package that is not on this machine, or a file that was broken since
                settings = []
            self._defaults[which] = {s.name: _literal(s.default) for s in settings}
        return self._defaults[which]

    def declared(self, kind: str, name: str, variable: str) -> Any:
        which = kind, name, variable
        if which not in self._declared:
            self._declared[which] = registry.declared(kind, name, variable)  # type: ignore[arg-type]
        return self._declared[which]

    def version(self, part: Part) -> str | None:
        """None if there is no telling: it is a digest of what is in a file, or the component has no file of its own."""
        if ":" in part.name:
            return None
        if not self.defaults(part) and not self._here(part):
            return None
        return str(self.declared(part.kind, part.name, "version") or 1)

    def _here(self, part: Part) -> bool:
        try:
            return registry.locate(part.kind, part.name) is not None  # type: ignore[arg-type]
        except ImportError:
            return False

    def unusual(self, part: Part) -> dict[str, Any]:
        """Settings that are not what they are by default."""
        usual = self.defaults(part)
        return {k: v for k, v in part.settings.items() if k not in usual or not _same(v, usual[k])}


def again(cell: Mapping[str, Any], sources: Sources | None = None, run: str = "") -> Command:
    """Of the cell of a training, or of an attack on a run that is there; its id, if it is known, is not worked out."""
    try:
        found = Cell.from_document(dict(cell))
    except (KeyError, TypeError, AttributeError):
        return Command("", "the row does not hold its whole recipe")
    known = sources or Sources()
    return _train(found.run, known) if found.attack is None else _attack(found, known, run or found.run.key)


def _train(run: RunSpec, sources: Sources) -> Command:
    usual = {f.name: f.default for f in fields(RunSpec)}
    auxiliary = [run.auxiliary] if run.auxiliary else []
    parts = [run.data, *auxiliary, run.model, run.topology, *run.defenses]
    twice = [name for name, count in Counter(part.name for part in parts).items() if count > 1]
    if any(sources.unusual(part) for part in parts if part.name in twice):
        return Command("", f"{twice[0]} stands twice in it with settings, which only a recipe can say")
    said = ["--dataset", run.data.name, "--model", run.model.name, "--cut", run.cut]
    said += [word for part in auxiliary for word in _pair("auxiliary_dataset", part.name)]
    said += _pair("topology", run.topology.name) if run.topology.name != "vanilla" else []
    said += [word for d in run.defenses for word in _pair("defense", d.name)]
    alone = [part for part in parts if part.name not in twice]
    said += [word for part in alone for word in _settings(part, parts, TRAIN, sources)]
    said += _unusual(run.training, Training()) + _unusual(run.samples, Counts()) + _unusual(run, Options())
    said += [word for name in ("seed", "scale") if (v := getattr(run, name)) != usual[name] for word in _pair(name, v)]
    return Command(shlex.join(["splitbench", "train", *said]), _caveat(parts, sources))


def _attack(cell: Cell, sources: Sources, key: str) -> Command:
    assert cell.attack is not None
    assert cell.threat is not None
    run, attack = cell.run, cell.attack
    labels = bool(sources.declared("topologies", run.topology.name, "shares_labels"))
    said = ["--run", key, *_settings(attack, [attack], ATTACK, sources)]
    said += _unusual(cell.threat, usual_threat(run, labels, cell.threat.party))
    said += _pair("party", cell.threat.party) if cell.threat.party != ThreatModel().party else []
    said += _pair("budget", f"{cell.minutes!r}m") if cell.minutes is not None else []
    said += _pair("restarts", cell.restarts) if cell.restarts != 1 else []
    caveat = _caveat([attack], sources)
    if cell.minutes is not None and not caveat:
        caveat = "what it reaches in so many minutes depends on the machine"
    return Command(shlex.join(["splitbench", "attack", attack.name, *said]), caveat)


def _unusual(given: Any, usual: Any) -> list[str]:
    """The options for those fields in which one differs from the other."""
    said: list[str] = []
    owner: type = type(usual)
    for f in fields_of(owner):
        value = getattr(given, f.name)
        if value == getattr(usual, f.name):
            continue
        if isinstance(value, bool):
            name = f.name.replace("_", "-")
            said.append(f"--{name}" if value else f"--no-{name}")
        else:
            said += [word for one in (value if isinstance(value, tuple) else [value]) for word in _pair(f.name, one)]
    return said


def _settings(part: Part, among: Sequence[Part], taken: set[str], sources: Sources) -> Iterator[str]:
    others = [other for other in among if other is not part]
    main = dict(list(part.settings.items())[: part.kind == "defenses"])  # said in any case, as its label does
    for name, value in (main | sources.unusual(part)).items():
        shared = name in taken or any(name in {*other.settings, *sources.defaults(other)} for other in others)
        option = f"{part.name}.{name}" if shared else name.replace("_", "-")
        yield from _pair(option, _text(value))


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _NONE
    return list(value) if isinstance(value, tuple) else value


_NONE = object()


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _pair(option: str, value: Any) -> list[str]:
    text, name = str(value), f"--{option.replace('_', '-') if '.' not in option else option}"
    return [f"{name}={text}"] if text.startswith("-") else [name, text]


def _text(value: Any) -> str:
    """As the command line reads it back: YAML, where a word with an `e` may be a number too."""
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = yaml.safe_dump(value, default_style='"', width=math.inf).rstrip("\n")
    try:
        float(value)
    except ValueError:
        pass
    else:
        return quoted
    try:
        return value if yaml.safe_load(value) == value else quoted
    except yaml.YAMLError:
        return quoted


def _caveat(parts: Sequence[Part], sources: Sources) -> str:
    """A newer version of a component makes another row."""
    for part in parts:
        now, was = sources.version(part), str(part.version).partition("+")[0]
        if now is not None and now != was:
            return f"the row is of version {was} of {part.name}, and this splitbench has version {now}"
    return ""
