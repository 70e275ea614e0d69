"""Budgets, restarts, doubling, rounds, looks on the way, and the undefended twin's decoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import splitbench as sb
from splitbench.core.errors import SplitbenchError
from splitbench.core.threat import ThreatModel
from splitbench.core.wire import Wire
from splitbench.plan.cells import Cell
from splitbench.runner import runfolder
from splitbench.runner.api import attack_cell, efforts
from splitbench.runner.prepare import prepare
from splitbench.runner.train import Trained
from splitbench.runner.verdict import Verdict
from splitbench.store.store import Store

from ._small import SMALL, cells, seen


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store")
    assert sb.train({"gaussian": {"sigma": 1.0}}, store=place, **SMALL).status == "done"
    return place


def cell(store: Path, name: Any = "inversion", **threat: Any) -> Cell:
    place = Store(store)
    return attack_cell(name, place.find_run("latest"), place, threat)


def test_iterations_are_shared_out_among_the_phases_and_doubled(store: Path) -> None:
    plain = cell(store, "fora")
    assert plain.attack is not None
    limited, doubled = efforts(plain, 100, 1), efforts(plain, None, 1, 2)
    phases = ("warm", "steps", "decoder_steps")
    assert limited.attack is not None
    assert doubled.attack is not None
    assert sum(limited.attack.settings[phase] for phase in phases) == pytest.approx(100, abs=2)
    assert [doubled.attack.settings[p] for p in phases] == [2 * plain.attack.settings[p] for p in phases]
    assert len({plain.key, limited.key, doubled.key}) == 3


@pytest.mark.parametrize(("budget", "words"), [("soon", "iterations such as 500"), ("0", "500"), ("-1m", "minutes")])
def test_a_budget_that_is_none_is_refused(store: Path, budget: str, words: str) -> None:
    with pytest.raises(SplitbenchError, match=words):
        sb.attack("inversion", store=store, budget=budget)
    with pytest.raises(SplitbenchError, match="no iterations"):
        sb.attack("black", store=store, budget=5)
    with pytest.raises(SplitbenchError, match="restarts"):
        sb.attack("inversion", store=store, restarts=0)


def test_minutes_stop_an_attack_and_the_row_says_so(store: Path) -> None:
    slow = {"unsplit": {"outer": 10_000, "inner": 5}}
    outcome = sb.attack(slow, store=store, budget="0.02m")
    assert outcome.status == "done"
    assert outcome.costs["stopped_early"] == 1.0
    assert outcome.costs["seconds"] < 60
    assert Cell.from_document(dict(outcome.cell)).minutes == 0.02
    assert Cell.from_document(dict(outcome.cell)).key == outcome.key


def test_the_best_of_several_tries_is_no_worse_for_any_image(store: Path) -> None:
    quick = {"unsplit": {"outer": 2, "inner": 5, "lr": 0.05}}
    one, best = sb.attack(quick, store=store), sb.attack(quick, store=store, restarts=3)
    first, several = one.score("ssim"), best.score("ssim")
    assert first is not None
    assert several is not None
    assert all(b >= a for a, b in zip(first.values, several.values, strict=True))
    assert several.value > first.value
    assert one.key != best.key


def test_looks_on_the_way_are_kept_and_drawn(store: Path) -> None:
    outcome = sb.attack({"unsplit": {"outer": 4, "inner": 2, "starts": 1}}, store=store)
    folder = Store(store).run_folder(outcome.run) / "attacks"
    looks = runfolder._read(folder / f"{outcome.key}.progress.safetensors")
    assert len(looks) == 4
    assert all(look.shape == (4, 1, 28, 28) for look in looks.values())
    assert (folder / f"{outcome.key}.progress.png").read_bytes().startswith(b"\x89PNG")


def test_several_rounds_average_the_noise_away_and_what_is_imagined_is_averaged_too() -> None:
    [run] = cells(defenses=[{"gaussian": {"sigma": 1.0}}])
    prepared = prepare(run.run)
    trained = Trained(prepared, Wire(), ())
    usual = ThreatModel(auxiliary=16, knowledge="exact")
    with seen(trained, usual) as once, seen(trained, replace(usual, rounds=64)) as often:
        clean = prepared.models[0].stages[0](prepared.evaluation.x.float() / 255)
        noise = [(view.merged - clean).std().item() for view in (once, often)]
        imagined = [(view.imagine(clean, torch.Generator()) - clean).std().item() for view in (once, often)]
    assert noise == pytest.approx([1.0, 1 / 8], rel=0.05)
    assert imagined == pytest.approx([1.0, 1 / 8], rel=0.05)


def test_the_naive_decoder_learns_from_the_undefended_twin(store: Path) -> None:
    naive = sb.attack({"naive_decoder": {"steps": 0}}, store=store)
    oracle = sb.attack({"oracle_decoder": {"steps": 0}}, store=store)
    assert (naive.status, oracle.status) == ("done", "done"), (naive.reason, oracle.reason)
    assert naive.ranked["mse"] > oracle.ranked["mse"]  # it has not seen the noise, and magnifies it
    undefended = {name: Store(store).get(outcome.twin) for name, outcome in (("naive", naive), ("oracle", oracle))}
    assert undefended["naive"] is not None
    assert undefended["oracle"] is not None
    # Where nothing defends, the twin is the run itself.
    assert undefended["naive"].ranked["ssim"] == pytest.approx(undefended["oracle"].ranked["ssim"], abs=0.05)


def test_a_transcript_that_was_not_kept_cannot_be_granted(store: Path) -> None:
    with pytest.raises(SplitbenchError, match="keeps no transcript"):
        sb.attack("inversion", store=store, transcript=True)


def test_a_damaged_checkpoint_is_named_and_nothing_else_is_lost(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    run = sb.train("none", store=place, **SMALL).run
    kept = sb.attack({"inversion": {"steps": 2}}, store=place)
    weights = Store(place).run_folder(run) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    broken = sb.attack({"fora": {"warm": 2, "steps": 1, "decoder_steps": 2}}, store=place)
    assert broken.status == "failed"
    assert "weights.safetensors" in broken.reason
    assert "train the run again" in broken.reason
    again = Store(place).get(kept.key)
    assert again is not None
    assert again.status == "done"


def test_text_is_refused_with_a_sentence(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    text = {"data": "imdb", "model": "roberta_small", "cut": "embeddings", "training": {"epochs": 1, "batch": 8}}
    counts = {"private": 8, "auxiliary": 4, "evaluation": 2}
    trained = sb.train("none", store=tmp_path, samples=counts, **text)
    assert trained.status == "done", trained.reason
    for name in ("fora", "fsa", "fsha", "sdar", "unsplit"):
        outcome = sb.attack(name, store=tmp_path, tampers=True)
        assert outcome.status == "skipped"
        assert outcome.reason == f"{name} works on image, imdb is text"


def test_the_verdict_is_about_half_of_what_there_is_beyond_the_mean_image() -> None:
    assert Verdict(0.7, 0.9, 0.3, 0.8).verdict == "leaks"
    assert Verdict(0.5, 0.9, 0.3, 0.8).verdict == "hides"
    assert Verdict(0.5, 0.7, 0.3, 0.8).verdict == "uncalibrated"


@pytest.mark.parametrize("name", ["fora", "fsa", "sdar", "fsha"])
@pytest.mark.parametrize("topology", ["vanilla", "u_shaped"])
def test_each_online_attack_runs_everywhere_and_only_the_malicious_one_is_felt(
    name: str, topology: str, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    assert sb.train("none", store=place, **{**SMALL, "topology": topology}).status == "done"
    quick = {"warm": 3, "decoder_steps": 2, "batch": 8}
    outcome = sb.attack(
        {name: quick}, store=place, tampers=True, **({"labels": False} if topology != "vanilla" else {})
    )
    assert outcome.status == "done", outcome.reason
    assert outcome.costs["replay_identical"] == float(name != "fsha")
    assert ("accuracy_under_attack" in outcome.costs) == (name == "fsha")
