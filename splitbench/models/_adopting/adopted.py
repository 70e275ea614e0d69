"""What adopted networks share: they declare no cuts, so the places are found by trying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import Model
from splitbench.core.split import cut


@dataclass
class Memory:
    """What was last built, and the places found in it."""

    shape: tuple[int, ...]
    classes: int
    fields: tuple[Field, ...] = ()
    places: dict[str, str] | None = None


@dataclass(frozen=True)
class Adopted(Model):
    """A network whose cuts are its direct children; any other submodule may be named as well."""

    memory: list[Memory] = field(default_factory=list, init=False, repr=False, compare=False)

    def usual(self) -> tuple[int, ...]:
        """The shape of a sample, as far as it is known before the data is."""
        raise NotImplementedError

    def make(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        raise NotImplementedError

    def build(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        network = self.make(shape, classes, fields)
        wanted = Memory(shape, classes, tuple(fields))
        if not self.memory or replace(self.memory[0], places=None) != wanted:
            self.try_out(network, shape)
            self.memory[:] = [wanted]
        return network

    def try_out(self, network: nn.Module, shape: tuple[int, ...]) -> None:
        """Called with the first network built for a shape, to find out before training what does not fit."""

    @property
    def cuts(self) -> Mapping[str, str]:
        known = self.memory[0] if self.memory else Memory(self.usual(), classes=10)
        if known.places is None:
            network = self._sketch(known)
            dtype = torch.int64 if self.modality == "text" else torch.float32
            known.places = places(network, torch.zeros(2, *known.shape, dtype=dtype, device="meta")) if network else {}
            self.memory[:] = [known]
        return known.places

    def _sketch(self, known: Memory) -> nn.Module | None:
        """The network without its numbers, costing neither memory nor random draws; None if it cannot be made."""
        try:
            with torch.device("meta"):
                return self.make(known.shape, known.classes, known.fields)
        except SplitbenchError:
            raise
        except Exception:  # whatever a stranger's constructor cannot do without numbers
            pass
        with suppress(Exception), torch.random.fork_rng(devices=[]):  # nor, perhaps, for a shape that was a guess
            return self.make(known.shape, known.classes, known.fields).to("meta")
        return None


def places(network: nn.Module, sample: Tensor) -> dict[str, str]:
    """The direct children after which one tensor carries everything on to layers that learn, as data flows.

    Cutting sets layers to work out of place, so give it a network that is not otherwise used.
    """
    found: dict[str, int] = {}
    for name, _ in network.named_children():
        try:
            before, after = cut(network, [name])
            with suppress(RuntimeError, ValueError, TypeError):  # some layers cannot run without numbers
                before.eval()(sample)
        except SplitbenchError:
            continue
        if any(True for _ in after.parameters()):
            # A later cut has all that an earlier one has before it, and more.
            found[name] = len(list(before.modules()))
    return {name: name for name in sorted(found, key=lambda name: found[name])}
