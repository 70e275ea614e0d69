from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.threat import ThreatModel

threats = st.builds(
    ThreatModel,
    labels=st.booleans(),
    architecture=st.booleans(),
    auxiliary=st.integers(0, 3),
    queries=st.integers(0, 3),
    transcript=st.booleans(),
    tampers=st.booleans(),
)


@given(threats)
def test_a_threat_model_grants_itself_and_the_weakest(threat):
    assert threat.lacks(threat) is None
    assert threat.lacks(ThreatModel()) is None


@given(threats, threats)
def test_what_is_missing_is_named_and_nothing_else_is(has, needs):
    missing = {f.name for f in fields(ThreatModel) if getattr(needs, f.name) > getattr(has, f.name)}
    sentence = has.lacks(needs) or ""
    assert {f.name for f in fields(ThreatModel) if f"needs {f.name}=" in sentence} == missing


def test_the_sentence_says_what_is_needed_and_what_is_granted():
    needed = ThreatModel(auxiliary=1000, tampers=True)
    assert ThreatModel(auxiliary=10).lacks(needed) == (
        "needs auxiliary=1000 but the threat model grants auxiliary=10; "
        "needs tampers=true but the threat model grants tampers=false"
    )
