"""A row is what was written: its digest finds every change, and its meaning is its own."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path

import pytest

from splitbench.core import registry
from splitbench.core.goal import GOALS
from splitbench.store.outcome import Outcome, Score
from tests.runner.test_store import outcome

WEIGHTS = hashlib.sha256(b"weights").hexdigest()
WHOLE = outcome(
    bars=(("ssim", 0.5), ("psnr", 20.0)),
    weights=WEIGHTS,
    party="mixer",
    device="cuda:1",
    scores=(
        Score("ssim", "wang2004", 0.25, 2, (0.0, 0.5), "clamp", "member"),
        Score("ssim", "wang2004", 0.4, 1, (0.4,), "clamp", "mixture", samples=(9,)),
        Score("mse", "1", 0.1, 2, (0.1, 0.1), leaks_when="low", tolerance=0.005),
        Score("auc", "1", 0.7, 2),
        Score("accuracy", "1", 0.9, 2, utility=True),
    ),
)


def test_every_field_comes_back(tmp_path: Path) -> None:
    WHOLE.write(tmp_path / "row.parquet")
    found = Outcome.read(tmp_path / "row.parquet")
    assert found == WHOLE
    assert len(found.digest) == 64


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path) -> None:
    """Some bytes of a file are no content: statistics, names of the writer. All others are found."""
    path = tmp_path / "row.parquet"
    WHOLE.write(path)
    whole, digest = path.read_bytes(), Outcome.read(path).digest
    found = 0
    for place in range(5, len(whole), 13):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        try:
            read = Outcome.read(io.BytesIO(bytes(spoilt)))
        except (OSError, ValueError):
            found += 1
        else:
            assert read == WHOLE, place
            assert read.digest == digest
    assert found > 200


@pytest.mark.parametrize("text", [b"mixer", WEIGHTS.encode(), b"cuda:1"])
def test_changed_content_is_named(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "row.parquet"
    WHOLE.write(path)
    whole = path.read_bytes()
    place = whole.index(text)
    changed = whole[:place] + text[:-1] + b"x" + whole[place + len(text) :]
    with pytest.raises(ValueError, match="its content is not what was written"):
        Outcome.read(io.BytesIO(changed))


def test_values_without_samples_are_refused(tmp_path: Path) -> None:
    row = replace(WHOLE, scores=(Score("ssim", "1", 0.5, 3, (0.1, 0.2, 0.3)),))
    with pytest.raises(ValueError, match="ssim has 3 values, but is about 2 samples"):
        row.write(tmp_path / "row.parquet")


def test_what_an_installed_component_says_changes_no_stored_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(WHOLE, attack="fora", role="floor", cell={"attack": {"name": "fora"}}).write(tmp_path / "row.parquet")
    monkeypatch.setattr(registry, "declared", lambda *_: pytest.fail("the source was asked"))
    row = Outcome.read(tmp_path / "row.parquet")
    assert (row.role, row.goal, row.party, row.ranking) == ("floor", "inputs", "mixer", "ssim")
    score = row.score("mse")
    assert score is not None
    assert (score.leaks_when, score.tolerance, score.sign) == ("low", 0.005, -1)


def test_members_rank_and_the_mixture_stands_beside() -> None:
    assert WHOLE.ranked["ssim"] == 0.25
    mixture, member = WHOLE.scores[1], WHOLE.scores[0]
    swapped = replace(WHOLE, scores=(mixture, member))
    assert swapped.score("ssim") == member
    assert (WHOLE.about(mixture), WHOLE.about(member)) == ((9,), (7, 3))


@pytest.mark.parametrize(
    ("goal", "modality", "metric", "unit"),
    [
        ("inputs", "image", "ssim", "image"),
        ("inputs", "text", "token_accuracy", "text"),
        ("inputs", "tabular", "field_accuracy", "row"),
        ("labels", "image", "accuracy", "sample"),
        ("membership", "tabular", "auc", "sample"),
    ],
)
def test_the_goal_says_what_ranks(goal: str, modality: str, metric: str, unit: str) -> None:
    row = replace(WHOLE, goal=goal, modality=modality)
    assert (row.ranking, row.unit) == (metric, unit)
    assert outcome(kind="train", attack="").ranking == "accuracy"


def test_every_goal_has_floors_and_a_metric() -> None:
    for name, goal in GOALS.items():
        assert goal.name == name
        assert goal.floors
        for modality in ("image", "text", "tabular"):
            assert goal.ranking(modality)
            assert goal.floor(modality) in goal.floors
    with pytest.raises(ValueError, match="nothing ranks attacks on inputs of audio data"):
        GOALS["inputs"].ranking("audio")


def test_a_brief_attack_row_is_of_a_server_after_inputs() -> None:
    assert (outcome().goal, outcome().party, outcome().role) == ("inputs", "server", "attack")
    assert outcome(party="client0").adversary == "black by client0"
    trained = outcome(kind="train", attack="", goal="", party="", role="")
    assert replace(trained, kind="train").goal == ""
