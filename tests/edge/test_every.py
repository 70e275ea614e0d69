"""Every model, cut and defense can be profiled, without numbers and without a network."""

from __future__ import annotations

import socket

import pytest

from splitbench.bench import parts
from splitbench.core import registry
from splitbench.core.errors import CellError
from splitbench.edge.device import load
from splitbench.edge.profile import profile
from splitbench.edge.tables import sheets, verdict
from tests.edge._cases import case

DEFENSES = registry.names("defenses")
# SEAL's basis for a vector of 4096 takes a minute to make, whoever profiles it.
SETTINGS = {"vgg16": {"hidden": 64}, "roberta_base": {"length": 32}, "roberta_small": {"length": 32}}


def shape(model: str) -> str:
    return "16" if model.startswith("roberta") else "3x32x32"


def places(model: str) -> list[str]:
    built = parts.build(parts.resolve("models", {model: SETTINGS.get(model, {})}, "model")[0])  # type: ignore[arg-type]
    return list(built.cuts)


PAIRS = [(model, cut) for model in registry.names("models") for cut in places(model)]
ENDS = [(model, cut) for model in registry.names("models") for cut in (places(model)[0], places(model)[-1])]
SPREAD = [(*ENDS[i % len(ENDS)], DEFENSES[i % len(DEFENSES)]) for i in range(len(ENDS))]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something wants to download")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def answer(model: str, cut: str, defense: str) -> None:
    if defense == "dpsg":
        pytest.importorskip("opacus")
    if model.startswith("roberta"):
        pytest.importorskip("transformers")
    asked = case({model: SETTINGS.get(model, {})}, cut, defense, shape=shape(model), batch=2)
    made = profile(asked, load("rpi4"))
    record = made.record()
    assert made.step.note == ""  # nothing needed numbers
    assert record["seconds_step"] > 0
    assert record["bytes_up_step"] > 0
    assert record["memory_peak"] >= record["memory_weights"] > 0 or record["client_parameters"] == 0
    assert len(sheets(made)) == 3
    assert verdict(made).startswith("fits")


@pytest.mark.parametrize(("model", "cut", "defense"), SPREAD)
def test_the_first_and_the_last_cut_of_every_model_each_under_one_defense(model: str, cut: str, defense: str) -> None:
    answer(model, cut, defense)


@pytest.mark.slow
@pytest.mark.parametrize("defense", DEFENSES)
def test_every_cut_of_small_models_under_every_defense(defense: str) -> None:
    for model, cut in PAIRS:
        if model in ("lenet5", "roberta_small", "pit_tiny"):
            answer(model, cut, defense)


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in registry.names("models") if m not in ("lenet5", "roberta_small", "pit_tiny")])
def test_every_cut_of_large_models(model: str) -> None:
    for at, cut in enumerate(places(model)[:: 3 if model in ("vgg16", "vit_tiny", "roberta_base") else 1]):
        answer(model, cut, DEFENSES[at % len(DEFENSES)])


def test_a_model_too_large_for_this_machine_is_profiled_without_numbers() -> None:
    made = profile(case("vit_giant_patch14_224", "patch_embed", shape="3x224x224", batch=4096), load("rpi4"))
    assert made.step.note == ""
    assert made.step.trace.ledger.peak("server").total > 10**12  # a terabyte
    assert not made.fits
    assert verdict(made).startswith("does not fit rpi4")


def test_a_defense_that_looks_at_numbers_is_profiled_with_them(tmp_path, monkeypatch) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    made = profile(case("lenet5", "conv1", f"{tmp_path / 'odd.py'}:Odd"), load("rpi4"))
    assert made.step.note.startswith("counted on real tensors, since without numbers")
    assert any(op.owner.component == "defense" for op in made.operations)


ODD = '''
from dataclasses import dataclass
from splitbench.core.defense import Defense

@dataclass(frozen=True)
class Odd(Defense):
    """Shifts by the number of positive values."""

    def outgoing(self, message, generator):
        z = message.tensor
        return message.carrying(z + z.detach()[z.detach() > 0].numel()) if message.kind == "smashed" else message
'''


def test_a_cut_that_no_basis_exists_for_is_told_and_no_crash() -> None:
    with pytest.raises(CellError, match="makes no basis"):
        profile(case("lenet5", "conv1", {"seal": {"function": "sin"}}), load("rpi4"))
