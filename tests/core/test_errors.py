from __future__ import annotations

from splitbench.core.errors import Mistake, SplitbenchError, nearest


def test_one_thing_wrong_is_one_sentence():
    assert str(SplitbenchError("no such thing")) == "no such thing"


def test_all_mistakes_are_listed_with_their_places_in_one_column():
    error = SplitbenchError(
        [Mistake("attacks[0]", "no attack named 'unspilt'"), Mistake("defenses[1].weight", "too small", line=7)],
        source="recipes/inversion.yaml",
    )
    assert str(error).splitlines() == [
        "recipes/inversion.yaml",
        "  attacks[0]                   no attack named 'unspilt'",
        "  defenses[1].weight (line 7)  too small",
        "2 mistakes. Nothing was run.",
    ]


def test_a_single_mistake_with_a_place_keeps_its_place():
    assert str(SplitbenchError([Mistake("seed", "expected a number")])) == (
        "  seed  expected a number\n1 mistake. Nothing was run."
    )


def test_the_nearest_name_is_offered_and_else_what_there_is():
    assert nearest("unspilt", ["unsplit", "fsha"]) == "; did you mean 'unsplit'?"
    assert nearest("zzz", ["unsplit", "fsha"]) == "; there is fsha, unsplit"
    assert nearest("zzz", []) == ""
