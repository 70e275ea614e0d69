"""Every model, cut and defense can be profiled, without numbers and without a network."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from splitbench.core import registry
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.edge.device import load
from splitbench.edge.profile import profile
from splitbench.edge.tables import sheets, verdict
from splitbench.plan import components
from tests.edge._cases import case

DEFENSES = registry.names("defenses")
SETTINGS = {"minilm": {"weights": "none"}, "roberta_base": {"length": 32}, "roberta_small": {"length": 32}}

SPECTRAL = ("half_spectral_shuffle", "spectral_shuffle")
SHUFFLES = ("batch_shuffle", "patch_shuffle", *SPECTRAL)
# What a defense may say, and which may say it.
REFUSALS = {
    "no gradients of single samples": ("dpsg",),  # positions of RoBERTa are no layer of their own
    "is for images": ("adversarial", "blur"),
    "have no weights": ("adversarial",),
    "shuffles tokens": SHUFFLES,
    "where the network first holds tokens": SHUFFLES,
    "transforms images": SPECTRAL,
    "needs an even number of rows": ("half_spectral_shuffle",),
}


def shape(model: str) -> str:
    return {"text": "16", "tabular": "6"}.get(registry.load("models", model).modality, "3x32x32")


def places(model: str) -> list[str]:
    built = components.build(components.resolve("models", {model: SETTINGS.get(model, {})}, "model")[0])  # type: ignore[arg-type]
    return list(built.cuts)


PAIRS = [(model, cut) for model in registry.names("models") for cut in places(model)]
# Large ones take seconds each.
QUICK = ("difm", "field_mlp", "lenet5", "pit_tiny", "resnet18", "roberta_small", "t2t_vit", "vgg16", "vit_tiny")
SPREAD = [(model, cut) for model in QUICK for cut in (places(model)[0], places(model)[-1])]
REST = [pair for pair in PAIRS[::2] if pair not in SPREAD]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something wants to download")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def answer(model: str, cut: str, defense: str) -> None:
    if defense == "dpsg":
        pytest.importorskip("opacus")
    if registry.load("models", model).modality == "text":
        pytest.importorskip("transformers")
    asked = case({model: SETTINGS.get(model, {})}, cut, defense, shape=shape(model), batch=2)
    refused = ""
    try:
        made = profile(asked, load("rpi4"))
    except (CellError, SplitbenchError) as error:
        refused = str(error)
    if refused:
        # As a training is refused.
        assert any(says in refused and defense in only for says, only in REFUSALS.items()), refused
        return
    record = made.record()
    # Nothing needed numbers.
    assert made.step.note == "" or (defense == "dpsg" and "allows no hooks" in made.step.note)
    assert record["seconds_step"] > 0
    assert record["bytes_up_step"] > 0
    assert record["memory_peak"] >= record["memory_weights"] > 0 or record["client_parameters"] == 0
    assert len(sheets(made)) == 3
    assert verdict(made).startswith("fits")


@pytest.mark.parametrize(("model", "cut", "defense"), [(*p, DEFENSES[i % len(DEFENSES)]) for i, p in enumerate(SPREAD)])
def test_the_first_and_the_last_cut_of_models_each_under_one_defense(model: str, cut: str, defense: str) -> None:
    answer(model, cut, defense)


@pytest.mark.parametrize("defense", DEFENSES)
def test_every_defense(defense: str) -> None:
    model, cut = ("vit_tiny", "block1") if defense in SHUFFLES else ("lenet5", "conv2")
    asked = case(model, cut, defense, shape=shape(model), batch=2)
    assert profile(asked, load("rpi4")).record()["macs_forward"] > 0, "nothing is refused where all can be done"
    answer(model, cut, defense)


@pytest.mark.slow
def test_every_second_cut_of_every_model_under_one_defense_after_the_other() -> None:
    assert len(REST) > 40
    for at, (model, cut) in enumerate(REST):
        answer(model, cut, DEFENSES[at % len(DEFENSES)])


def test_a_model_too_large_for_this_machine_is_profiled_without_numbers(tmp_path: Path) -> None:
    (tmp_path / "huge.py").write_text(HUGE)
    made = profile(case(f"{tmp_path / 'huge.py'}:Huge", "first"), load("rpi4"))
    assert made.step.note == ""
    assert made.record()["client_parameters"] == 784 * 10**9  # three terabytes
    assert not made.fits
    assert verdict(made).startswith("does not fit rpi4: training needs 12.6 TB")


HUGE = """
from torch import nn

class Huge(nn.Sequential):
    def __init__(self, classes):
        super().__init__()
        self.flatten = nn.Flatten()
        self.first = nn.Linear(784, 10**9, bias=False)
        self.last = nn.Linear(10**9, classes)
"""


def test_a_defense_that_looks_at_numbers_is_profiled_with_them(tmp_path: Path) -> None:
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
