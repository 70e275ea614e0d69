from __future__ import annotations

import pytest

from splitbench.core.party import CLIENT, MIXER, SERVER, Party, client


def test_parties_are_told_apart_by_role_and_number():
    assert len({CLIENT, SERVER, MIXER, client(0), client(1)}) == 4
    assert client(0) == CLIENT


def test_clients_are_printed_with_their_number_and_the_others_without():
    assert [str(party) for party in (client(3), SERVER, MIXER)] == ["client3", "server", "mixer"]


def test_clients_sort_by_number():
    assert sorted([client(10), client(2)]) == [client(2), client(10)]


@pytest.mark.parametrize("party", [client(0), client(12), SERVER, MIXER])
def test_a_printed_name_is_read_back(party):
    assert Party.named(str(party)) == party


def test_a_client_without_a_number_is_the_first():
    assert Party.named("client") == client(0)


@pytest.mark.parametrize("name", ["", "server1", "clients", "client-1", "Client0", "mixer 0"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="there is server, mixer, client0, client1"):
        Party.named(name)
