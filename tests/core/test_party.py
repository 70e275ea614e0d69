from __future__ import annotations

from splitbench.core.party import CLIENT, MIXER, SERVER, client


def test_parties_are_told_apart_by_role_and_number():
    assert len({CLIENT, SERVER, MIXER, client(0), client(1)}) == 4
    assert client(0) == CLIENT


def test_clients_are_printed_with_their_number_and_the_others_without():
    assert [str(party) for party in (client(3), SERVER, MIXER)] == ["client3", "server", "mixer"]


def test_clients_sort_by_number():
    assert sorted([client(10), client(2)]) == [client(2), client(10)]
