"""One device per command; a device that is not here is refused with what there is."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from splitbench.core.device import VARIABLE, current, resolve, using
from splitbench.core.errors import SplitbenchError


@pytest.fixture
def card(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.mark.usefixtures("card")
def test_the_innermost_counts_and_is_left_again_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert current() == torch.device("cpu")
    monkeypatch.setenv(VARIABLE, "cuda:1")
    assert current() == torch.device("cuda:1")
    with using("cpu"):
        with using("") as unchanged:
            assert unchanged == current() == torch.device("cpu")
        with pytest.raises(ZeroDivisionError), using("cuda") as card:
            _ = 1 / (card != current())
        with using(torch.device("meta")):
            assert current().type == "meta"
        assert current() == torch.device("cpu")
    assert current() == torch.device("cuda:1")


def test_auto_takes_a_card_if_there_is_one() -> None:
    assert resolve("auto") == torch.device("cpu")


def test_auto_finds_the_card(card: None) -> None:
    assert resolve("auto") == torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cuda", "no CUDA device here; there is cpu"),
        ("cuda:1", "no CUDA device here"),
        ("mps", "no Apple GPU here"),
        ("cda", "no device named 'cda'; did you mean 'cuda'?"),
        ("cpu:1", "no device named"),
        ("cuda:x", "no device named"),
        ("gpu", "no device named 'gpu'; did you mean 'cpu'?"),
    ],
)
def test_what_is_not_here_is_refused(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SplitbenchError) as error:
        resolve(name)
    assert said in str(error.value)
    assert str(error.value).startswith("--device")
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(SplitbenchError, match=VARIABLE):
        current()


def test_the_third_of_two_cards_is_refused(card: None) -> None:
    with pytest.raises(SplitbenchError, match="the last CUDA device here is cuda:1"):
        resolve("cuda:2")


def test_importing_it_does_not_load_torch() -> None:
    code = "import sys, splitbench.core.device; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
