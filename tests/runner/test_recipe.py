"""A recipe is validated whole, and expands into the cells it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.plan.cells import SCALES, RunSpec
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
