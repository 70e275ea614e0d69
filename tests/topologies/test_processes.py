"""The programs of a topology know nothing of each other: each runs in a process of its own, over pipes."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from torch.testing import assert_close

from splitbench.core.defense import Composed
from splitbench.core.party import MIXER
from splitbench.core.topology import Topology
from splitbench.defenses.gaussian import Gaussian
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed
from splitbench.topologies.standalone import Standalone
from splitbench.topologies.u_shaped import UShaped
from splitbench.topologies.vanilla import Vanilla
from tests.topologies._processes import trained_apart
from tests.topologies._small import Pairs, Scene, every_topology, label, network, scene, state


def build(topology: Topology, sizes: tuple[int, ...], mixing: bool) -> Scene:
    """With everything that draws: the order of samples, dropout, noise, and a mixer's ratios."""
    parts = (Gaussian(0.1), Pairs(drawn=True)) if mixing else (Gaussian(0.1),)
    return scene(topology, net=network(dropout=0.3), defense=Composed(parts), sizes=sizes, batch=3, epochs=2)


CASES = [
    (Vanilla(), (6, 3, 4), False),
    (UShaped(), (5, 4), False),
    (Parallel(), (6, 4), False),
    (Parallel(), (6, 4), True),
    (SplitFed(), (6, 4), False),
    (SplitFed(), (6, 4), True),
    (Standalone(), (5, 4), False),
]
NAMES = [label(topology) + " with a mixer" * mixing for topology, _, mixing in CASES]


@pytest.mark.parametrize(("topology", "sizes", "mixing"), CASES, ids=NAMES)
def test_parties_in_processes_of_their_own_end_with_the_same_weights(topology, sizes, mixing):
    make = functools.partial(build, topology, sizes, mixing)
    split = make()
    assert (MIXER in split.members) == mixing
    traffic = split.train().traffic
    found = trained_apart(make, list(split.members))
    for party, (weights, _) in found.items():
        assert_close(weights, state(split.members[party].stages), rtol=0, atol=1e-6)
    assert sum((sent for _, sent in found.values()), Counter()) == traffic


def test_no_topology_is_left_out():
    assert {type(topology) for topology in every_topology()} == {type(topology) for topology, _, _ in CASES}
