"""A recipe is validated whole, and expands into the cells it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.plan.cells import SCALES, Counts, Options, RunSpec, Training
from splitbench.plan.fields import fields_of
from splitbench.plan.recipe import Recipe

BASE = """
data: fashion_mnist_mini
model: lenet5
cut: conv1
samples: {private: 64, auxiliary: 16, evaluation: 4}
"""


def load(tmp_path: Path, text: str, scale: str = "desk") -> Recipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return Recipe.load(path, scale)


def test_a_plan_knows_the_seeds_of_each_cell(tmp_path: Path) -> None:
    recipe = load(tmp_path, BASE + "cases:\n  - {seeds: [0, 3]}\n  - {cut: pool1}\n")
    plan = recipe.plan()
    assert plan["cells"] == [cell.key for cell in recipe.cells]
    expected = [[0, 3] if cell.run.cut != "pool1" else [0] for cell in recipe.cells]
    assert plan["seeds"] == expected
    assert [0] in expected
    assert [0, 3] in expected


def test_a_bar_is_planned_for_each_training_and_is_no_part_of_a_key(tmp_path: Path) -> None:
    text = BASE + "defenses: [gaussian]\nattacks: [black]\n"
    cases = "cases:\n  - {}\n  - {cut: pool1, bar: {mcc: 0.5}}\n"
    without = load(tmp_path, text + cases.replace(", bar: {mcc: 0.5}", ""))
    recipe = load(tmp_path, text + cases + "bar: {accuracy: 0.7}\nscales: {smoke: {bar: {accuracy: 0.2}}}\n")
    assert [cell.key for cell in recipe.cells] == [cell.key for cell in without.cells]
    by_cut = {"conv1": {"accuracy": 0.7}, "pool1": {"accuracy": 0.7, "mcc": 0.5}}
    assert recipe.plan()["bars"] == [{} if cell.attack else by_cut[cell.run.cut] for cell in recipe.cells]
    assert {cell.run.defenses == () for cell in recipe.cells if cell.bar} == {True, False}, "of the twin too"
    smoke = load(tmp_path, text + "bar: {accuracy: 0.7}\nscales: {smoke: {bar: {accuracy: 0.2}}}\n", "smoke")
    assert {cell.bar["accuracy"] for cell in smoke.cells if not cell.attack} == {0.2}
    assert not any(without.plan()["bars"])


def test_a_bar_brings_the_undefended_training_it_is_about(tmp_path: Path) -> None:
    recipe = load(tmp_path, BASE + "defenses: [gaussian]\nbar: {accuracy: 0.7}\n")
    assert [len(cell.run.defenses) for cell in recipe.cells] == [0, 1]


@pytest.mark.parametrize("defense", ["none", "gaussian"])
def test_what_protects_nobody_or_everybody_is_no_other_run(tmp_path: Path, defense: str) -> None:
    text = BASE + f"clients: 4\ntopology: parallel\ndefenses: [{defense}]\n"
    plain, all_of_them, two = (
        load(tmp_path, text + more).cells[0] for more in ("", "protected: 4\n", "protected: 2\n")
    )
    assert plain.key == all_of_them.key
    assert (plain.key == two.key) is (defense == "none")
    assert two.run.protected == (None if defense == "none" else 2)


def test_auxiliary_samples_of_another_data_set_are_part_of_the_run(tmp_path: Path) -> None:
    own = tmp_path / "own.npz"
    images(own, 28)
    plain = load(tmp_path, BASE).cells[0].run
    run = load(tmp_path, BASE + f"auxiliary: {own}\n").cells[0].run
    assert run.key != plain.key
    assert run.document()["auxiliary"]["name"] == str(own)
    assert RunSpec.from_document(run.document()) == run
    assert load(tmp_path, BASE + "auxiliary: null\n").cells[0].key == plain.key
    images(own, 28, seed=1)
    assert load(tmp_path, BASE + f"auxiliary: {own}\n").cells[0].key != run.key, "by its contents"
    images(own, 20)
    with pytest.raises(SplitbenchError, match=r"cannot be auxiliary.*the shape \(1, 20, 20\).*set the same size"):
        load(tmp_path, BASE + f"auxiliary: {own}\n")
    images(own, 28, count=10)
    with pytest.raises(SplitbenchError, match=r"asked for 16 auxiliary samples; of the 10"):
        load(tmp_path, BASE + f"auxiliary: {own}\n")


def images(path: Path, side: int, count: int = 40, seed: int = 0) -> None:
    import numpy as np

    from splitbench.plan import feasible

    rng = np.random.default_rng(seed)
    arrays = {f"x_{s}": rng.integers(0, 256, (count, side, side, 1), dtype=np.uint8) for s in ("train", "test")}
    np.savez(path, **arrays, **{f"y_{s}": np.arange(count) % 5 for s in ("train", "test")})
    feasible._load.cache_clear()  # a process reads a data set once


def test_every_field_is_a_key_with_its_own_type_and_is_put_into_the_run(tmp_path: Path) -> None:
    """Fields are said once: whatever a dataclass declares can be said in a recipe and arrives."""
    others = {bool: True, int: 2, float: 0.25, str: None, tuple: ["flip"]}
    for block, owner in (("training", Training), ("samples", Counts), ("", Options)):
        for field in fields_of(owner):
            assert field.note, f"{owner.__name__}.{field.name} explains nothing"
            other = others[field.plain] if not field.choices or field.plain is tuple else field.choices[-1]
            said = yaml.safe_dump({field.name: other} if not block else {block: {field.name: other}})
            base = BASE if block != "samples" else BASE.replace("samples:", "# samples:")
            more = "clients: 4\ndefenses: [gaussian]\n" if field.name == "protected" else ""
            run = load(tmp_path, base + more + said).cells[0].run
            found = getattr(getattr(run, block) if block else run, field.name)
            assert found == (tuple(other) if isinstance(other, list) else other)
            with pytest.raises(SplitbenchError, match=field.name):
                load(tmp_path, base + yaml.safe_dump({field.name: {}} if not block else {block: {field.name: {}}}))


def test_there_are_recipes() -> None:
    assert "quickstart" in recipes.names()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [n for n in recipes.names() if not recipes.counts_only(recipes.find(n)[1])])
def test_every_recipe_loads_at_every_scale(name: str, scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Path(__file__).parents[3] / "shared" / "data"
    if shared.is_dir():
        monkeypatch.setenv("SPLITBENCH_DATA", str(shared))
    given, path = recipes.find(name)
    try:
        recipe = Recipe.load(path, scale, given)
    except SplitbenchError as error:
        # Data may be missing, and the paper's scale needs all of it; nothing else may be wrong.
        usual = ("no data for", *(("asked for",) if scale == "paper" else ()))
        if scale == "smoke" or not all(mistake.what.startswith(usual) for mistake in error.mistakes):
            raise
        pytest.skip(str(error.mistakes[0].what).splitlines()[0])
    assert recipe.cells
    assert recipe.title


def test_cells_are_every_defense_and_seed_and_every_attack_on_each(tmp_path: Path) -> None:
    recipe = load(tmp_path, BASE + "defenses: [none, gaussian]\nattacks: [black, mean_image]\nseeds: [0, 1, 2]\n")
    trained = [cell for cell in recipe.cells if cell.attack is None]
    assert len(trained) == 6
    assert len(recipe.cells) == 6 * 3
    assert len({cell.key for cell in recipe.cells}) == len(recipe.cells)


def test_a_case_changes_only_what_it_says(tmp_path: Path) -> None:
    recipe = load(tmp_path, BASE + "cases:\n  - {}\n  - {cut: pool1, training: {epochs: 2}}\n")
    first, second = (cell.run for cell in recipe.cells)
    assert (first.cut, second.cut) == ("conv1", "pool1")
    assert (first.training.epochs, second.training.epochs) == (5, 2)
    assert first.samples == second.samples


def test_a_scale_overrides_setting_by_setting(tmp_path: Path) -> None:
    text = BASE + "training: {epochs: 7, batch: 16}\nscales: {smoke: {training: {epochs: 1}}}\n"
    smoke, desk = load(tmp_path, text, "smoke").cells[0].run, load(tmp_path, text).cells[0].run
    assert (smoke.training.epochs, smoke.training.batch) == (1, 16)
    assert (desk.training.epochs, desk.training.batch) == (7, 16)
    assert smoke.key != desk.key


def test_a_run_is_rebuilt_exactly_from_its_document(tmp_path: Path) -> None:
    text = BASE + "clients: 3\npartition: dirichlet\nalpha: 0.3\ndefenses: [[gaussian, {nopeek: {weight: 0.2}}]]\n"
    run = load(tmp_path, text).cells[0].run
    again = RunSpec.from_document(run.document())
    assert again == run
    assert again.key == run.key


@pytest.mark.parametrize(
    "change",
    ["seeds: [1]", "cut: pool1", "training: {lr: 0.01}", "clients: 2", "defenses: [{gaussian: {sigma: 0.1}}]",
     "topology: u_shaped", "samples: {private: 65, auxiliary: 16, evaluation: 4}", "record: true"],
)  # fmt: skip
def test_whatever_changes_the_result_changes_the_key(tmp_path: Path, change: str) -> None:
    key = change.split(":")[0]
    kept = "\n".join(line for line in BASE.splitlines() if not line.startswith(f"{key}:"))
    assert load(tmp_path, BASE).cells[0].key != load(tmp_path, f"{kept}\n{change}\n").cells[0].key


def test_a_raised_version_is_another_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from splitbench.defenses.gaussian import Gaussian

    text = BASE + "defenses: [gaussian]\n"
    before = load(tmp_path, text).cells[0].key
    monkeypatch.setattr(Gaussian, "version", 99)
    assert load(tmp_path, text).cells[0].key != before


FIVE = """\
data: fashion_mnist_mini
modle: lenet5
cut: conv1
training: {epochs: -1}
defenses:
  - {gaussian: {sgima: 0.5}}
  - {gaussian: {sigma: -1}}
attacks: [unspilt_inversion, mean_imag]
"""


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(SplitbenchError) as caught:
        load(tmp_path, FIVE)
    text = str(caught.value)
    assert len(caught.value.mistakes) == 6
    assert "modle (line 2)" in text
    assert "did you mean 'model'" in text
    assert "training.epochs (line 4)" in text
    assert "(line 6)" in text
    assert "did you mean 'sigma'" in text
    assert "defenses[1].gaussian.sigma (line 7)" in text
    assert "attacks[1] (line 8)" in text
    assert "did you mean 'mean_image'" in text
    assert text.endswith("6 mistakes. Nothing was run.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: [a", "line 1"),
        ("- a\n- b\n", "mapping of keys"),
        (BASE + "cut: conv1\n", "given twice"),
        (BASE + "clients: 0\n", "greater than or equal to 1"),
        (BASE + "seeds: []\n", "at least 1 item"),
        (BASE + "attacks: inversion\n", "expected a list"),
        (BASE + "attacks: [{a: {}, b: {}}]\n", "expected a name"),
        (BASE + "scales: {huge: {}}\n", "no scale named 'huge'"),
        (BASE + "threat: {labels: false}\n", "sends the server the labels"),
        (BASE + "threat: {auxiliary: 17}\n", "samples.auxiliary has 16"),
        (BASE + "clients: 2\nprotected: 3\n", "3 of 2 clients"),
        (BASE + "threat: {party: sever}\n", "no party named 'sever'; did you mean 'server'?"),
        (BASE + "clients: 2\nthreat: {party: client2}\n", "there is no client2; the run has client0 to client1"),
        (BASE + "bar: {acuracy: 0.7}\n", "did you mean 'accuracy'?"),
        (BASE + "bar: {accuracy: much}\n", "valid number"),
        (BASE + "auxiliary: cifra10\n", "no data set named 'cifra10'; did you mean 'cifar10'?"),
        (BASE + "training: {augment: [flop]}\n", "'flip' or 'crop'"),
        (BASE + "training: {label_smoothing: 1}\n", "less than 1"),
        (BASE.replace("private: 64", "private: 64, candidates: 65"), "65 members are asked for"),
        (BASE.replace("private: 64", "private: 64, candidates: 33") + "clients: 2\n", "client0 holds 32 samples"),
        (BASE.replace("private: 64", "private: 900, candidates: 700"), "asked for 700 samples that are no members"),
        (BASE.replace("conv1", "conv9"), "no cut named 'conv9'"),
        (BASE.replace("lenet5", "roberta_small"), "roberta_small takes text"),
        (BASE.replace("private: 64", "private: 64000"), "asked for 64000 private samples"),
    ],
)
def test_each_kind_of_mistake_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SplitbenchError, match=r"(?s).*") as caught:
        load(tmp_path, text)
    assert said in str(caught.value)


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    with pytest.raises(SplitbenchError):
        load(tmp_path, f"data: !!python/object/apply:os.system ['touch {flag}']\n")
    assert not flag.exists()


READS = """
from dataclasses import dataclass
from typing import ClassVar
from splitbench.core.defense import Defense

@dataclass(frozen=True)
class Learned(Defense):
    reads: ClassVar[tuple[str, ...]] = ("weights",)
    weights: str = ""
    mode: str = "map"
"""


def test_only_files_that_a_component_says_it_reads_count_by_their_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(READS)
    text = BASE + "defenses: [{own.py:Learned: {weights: w}}, {seal: {function: secret}}]\n"

    def keys() -> list[str]:
        return [cell.key for cell in load(tmp_path, text).cells]

    (tmp_path / "w").write_bytes(b"one")
    before = keys()
    for name in ("map", "secret", "rows", "DCT", "cos", "lenet5", "iid"):
        (tmp_path / name).write_text("in the way")
    assert keys() == before
    (tmp_path / "w").write_bytes(b"two")
    assert [a == b for a, b in zip(keys(), before, strict=True)] == [False, True]
    (tmp_path / "w").write_bytes(b"one")
    assert keys() == before


def test_a_file_named_by_a_setting_counts_by_its_contents(tmp_path: Path) -> None:
    from splitbench.plan.components import resolve

    weights = tmp_path / "weights.safetensors"
    versions = []
    for content in (b"one", b"two", b"one"):
        weights.write_bytes(content)
        part, mistakes = resolve("models", {"roberta_base": {"weights": str(weights)}}, "model")
        assert part is not None, mistakes
        versions.append(part.version)
    assert versions[0] == versions[2] != versions[1]
