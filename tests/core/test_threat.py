from __future__ import annotations

import re
import shlex
from dataclasses import asdict, fields, replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.threat import ANY, KNOWLEDGE, ThreatModel, is_party

threats = st.builds(
    ThreatModel,
    labels=st.booleans(),
    architecture=st.booleans(),
    auxiliary=st.integers(0, 3),
    queries=st.integers(0, 3),
    transcript=st.booleans(),
    tampers=st.booleans(),
    knowledge=st.sampled_from(KNOWLEDGE),
    rounds=st.integers(1, 3),
    party=st.sampled_from(["server", "mixer", "client0", "client1"]),
)


def less(has: object, needs: object, name: str) -> bool:
    if name == "knowledge":
        return KNOWLEDGE.index(has) < KNOWLEDGE.index(needs)  # type: ignore[arg-type]
    return has != needs if name == "party" else has < needs  # type: ignore[operator]


@given(threats)
def test_a_threat_model_grants_itself_and_the_weakest(threat):
    assert threat.lacks(threat) is None
    assert threat.lacks(ThreatModel(party=threat.party)) is None


@given(threats, threats)
def test_what_is_missing_is_named_and_nothing_else_is(has, needs):
    missing = {f.name for f in fields(ThreatModel) if less(getattr(has, f.name), getattr(needs, f.name), f.name)}
    sentence = has.lacks(needs) or ""
    assert {f.name for f in fields(ThreatModel) if f"needs {f.name}=" in sentence} == missing


@given(threats, threats)
def test_following_the_advice_is_enough(has, needs):
    """What the sentence says to add, on the command line or in a recipe, grants what was missing."""
    sentence = has.lacks(needs)
    if sentence is None:
        return
    found = re.search(r"; add (.*), or in a recipe threat: ({.*})$", sentence)
    assert found is not None
    in_recipe = yaml.safe_load(found[2])
    assert replace(has, **in_recipe).lacks(needs) is None
    words, said = shlex.split(found[1]), {}
    while words:
        name = words.pop(0).removeprefix("--")
        flag = isinstance(asdict(has)[name], bool)
        said[name] = True if flag else yaml.safe_load(words.pop(0))
    assert said == in_recipe


def test_the_sentence_says_what_is_needed_what_is_granted_and_what_to_add():
    needed = ThreatModel(auxiliary=1000, tampers=True)
    assert ThreatModel(auxiliary=10).lacks(needed) == (
        "needs auxiliary=1000 but the threat model grants auxiliary=10; "
        "needs tampers=true but the threat model grants tampers=false; "
        "add --auxiliary 1000 --tampers, or in a recipe threat: {auxiliary: 1000, tampers: true}"
    )
    assert "add --knowledge family, or" in str(ThreatModel().lacks(ThreatModel(knowledge="family")))
    assert "add --rounds 2, or" in str(ThreatModel().lacks(ThreatModel(rounds=2)))


@pytest.mark.parametrize(
    ("needed", "party", "fits"),
    [
        ("client", "client0", True),
        ("client", "client12", True),
        ("client1", "client1", True),
        ("client1", "client0", False),
        ("client", "server", False),
        ("server", "client0", False),
        ("server", "mixer", False),
        ("mixer", "mixer", True),
        (ANY, "mixer", True),
        (ANY, "client3", True),
    ],
)
def test_an_attack_may_need_a_role_or_one_party(needed: str, party: str, fits: bool) -> None:
    said = ThreatModel(party=party).lacks(ThreatModel(party=needed))
    assert (said is None) is fits
    if not fits:
        wanted = "client0" if needed == "client" else needed
        assert f"needs party={needed} but the threat model grants party={party}; add --party {wanted}," in str(said)


def test_parties_are_a_server_a_mixer_and_numbered_clients() -> None:
    assert all(map(is_party, ("server", "mixer", "client0", "client10")))
    assert not any(map(is_party, ("client", "server0", "any", "", "clients1", "client-1")))
