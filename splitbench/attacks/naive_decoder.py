"""The lower bound of what a defense gives away: a decoder that has never heard of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from splitbench.attacks.oracle_decoder import OracleDecoder


@dataclass(frozen=True)
class NaiveDecoder(OracleDecoder):
    """A bound: train a decoder on true pairs of the undefended twin, and apply it as it is.

    What the defense does to an adversary that had every pair and learned nothing from what it now sees. Set beside
    `oracle_decoder`, as FORA trains beside itself (https://arxiv.org/abs/2405.04115), it tells hiding from confusing.
    """

    asks: ClassVar[Literal["client", "twin"]] = "twin"
