"""Which memory is alive at its peak: a ledger of every storage, counted once however many tensors share it.

No measurement: sizes are those that torch asks for, and so the same on every machine. What an operator borrows inside
itself and what the allocator keeps back are not in it; `--measure` shows how much that is.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from splitbench.edge.operation import Component, Owner, Who
from splitbench.runner.allocator import HEAP

Use = Literal["weights", "gradients", "optimizer", "activations", "inputs", "workspace"]
USES: tuple[Use, ...] = ("weights", "gradients", "optimizer", "activations", "inputs", "workspace")
# A storage that is several things is the first of these.
_FIRST: tuple[Use, ...] = ("weights", "optimizer", "gradients", "inputs", "activations", "workspace")


@dataclass
class Block:
    """One storage."""

    size: int
    owner: Owner
    use: Use = "workspace"


@dataclass(frozen=True)
class Peak:
    """What a party holds when its memory peaks."""

    total: int
    uses: Mapping[Use, int]
    components: Mapping[Component, int]
    heap: int  # the most that was alive at once of small blocks, which an allocator keeps when they are freed


@dataclass
class Ledger:
    blocks: list[Block] = field(default_factory=list)
    events: list[tuple[int, bool]] = field(default_factory=list)  # which block, and whether it came or went
    _known: dict[int, int] = field(default_factory=dict)  # storages that are alive
    _watches: dict[int, weakref.finalize[..., object]] = field(default_factory=dict)

    def reserve(self, size: int, owner: Owner, use: Use) -> None:
        """Memory that is held all the time and that no operation of the step returns."""
        self.blocks.append(Block(size, owner, use))
        self.events.append((len(self.blocks) - 1, True))

    def see(self, tensors: Iterable[Tensor], owner: Owner, use: Use = "workspace") -> None:
        """Tensors that an operation returned; a storage already known is nothing new."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata in self._known:
                continue
            block = len(self.blocks)
            self.blocks.append(Block(storage.nbytes(), owner, use))
            self.events.append((block, True))
            self._known[storage._cdata] = block
            self._watches[block] = weakref.finalize(storage, self._gone, storage._cdata, block)

    def _gone(self, address: int, block: int) -> None:
        if self._known.get(address) == block:
            del self._known[address]
            self.events.append((block, False))
        self._watches.pop(block, None)

    def mark(self, tensor: Tensor, use: Use) -> None:
        """Says what a storage is for."""
        block = self._known.get(tensor.untyped_storage()._cdata)
        if block is None:
            return
        known = self.blocks[block]
        known.use = min(known.use, use, key=_FIRST.index)

    def replace(self, old: Sequence[Tensor], new: Sequence[Tensor], owner: Owner) -> None:
        """The new tensors stand where the old ones were."""
        for tensor in old:
            address = tensor.untyped_storage()._cdata
            if not tensor.is_meta and address in self._known:
                self._gone(address, self._known[address])
        self.see(new, owner)

    def close(self) -> None:
        """What is freed from now on is no part of the step."""
        for watch in list(self._watches.values()):
            watch.detach()
        self._watches.clear()

    def peak(self, party: Who) -> Peak:
        """The most that was alive at once of what the party holds, and what it was."""
        alive: set[int] = set()
        most, when = self._most(party)
        for block, came in self.events[: when + 1]:
            if self.blocks[block].owner.party == party:
                (alive.add if came else alive.discard)(block)
        held = [self.blocks[block] for block in alive]
        uses = {use: sum(b.size for b in held if b.use == use) for use in USES}
        names: tuple[Component, ...] = ("layers", "defense", "penalty")
        components = {name: sum(b.size for b in held if b.owner.component == name) for name in names}
        return Peak(most, uses, components, self._most(party, HEAP)[0])

    def _most(self, party: Who, below: float = float("inf")) -> tuple[int, int]:
        """The peak of blocks smaller than this, and when it was."""
        total = most = when = 0
        for at, (block, came) in enumerate(self.events):
            size = self.blocks[block].size
            if self.blocks[block].owner.party == party and size < below:
                total += size if came else -size
                if total > most:
                    most, when = total, at
        return most, when
