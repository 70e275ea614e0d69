"""An image cut into a grid of patches, of each of which one token is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.view import View
from splitbench.methods.shuffling.patches import patched, unpatched


@dataclass(frozen=True)
class Board:
    """`rows` x `columns` patches of images of `shape` (C, H, W)."""

    rows: int
    columns: int
    shape: tuple[int, ...]
    layout: Layout

    @classmethod
    def of_view(cls, view: View, attack: str) -> Board:
        """Tokens lie on their grid, and the places of maps count as tokens; anything else is refused."""
        layout = view.layout or by_rank(view.targets.shape[2:])
        if layout.plane is None:
            raise SplitbenchError(
                f"{attack} needs tokens that lie on a grid over the image, and what is sent here is "
                f"{layout.kind} of shape {layout.shape}; cut a vision transformer (vit_tiny at block1, say)"
            )
        rows, columns = layout.plane
        if len(view.shape) != 3 or view.shape[1] % rows or view.shape[2] % columns:
            raise SplitbenchError(
                f"{attack} needs a whole patch of pixels for each token: inputs of shape {tuple(view.shape)} cannot be "
                f"cut into {rows} x {columns} patches"
            )
        return cls(rows, columns, tuple(view.shape), layout)

    @property
    def places(self) -> int:
        return self.rows * self.columns

    @property
    def patch(self) -> tuple[int, int, int]:
        """Channels, height and width of a patch."""
        return self.shape[0], self.shape[1] // self.rows, self.shape[2] // self.columns

    def tokens(self, z: Tensor) -> Tensor:
        """(N, L, D), without those that stand for no place."""
        z = z.float()
        return z.flatten(2).transpose(1, 2) if self.layout.kind == "maps" else z[:, self.layout.prefix :]

    def patches(self, x: Tensor) -> Tensor:
        """(N, L, P), place by place."""
        return patched(x, self.rows, self.columns)

    def images(self, patches: Tensor) -> Tensor:
        """The inverse of `patches`."""
        return unpatched(patches, self.shape, self.rows, self.columns)

    def tiles(self, patches: Tensor) -> Tensor:
        """Patches (..., P) with their pixels in place, (..., C, p, q)."""
        return unfolded(patches, -1, self.patch)


def placed(patches: Tensor, order: Tensor) -> Tensor:
    """For each place (N, L) the patch of which the order says that it belongs there."""
    return patches.gather(1, order[..., None].expand(-1, -1, patches.shape[-1]))


def unfolded(x: Tensor, axis: int, sizes: Sequence[int]) -> Tensor:
    """One axis as several; torch's own is not typed."""
    found: Tensor = x.unflatten(axis, tuple(sizes))  # type: ignore[no-untyped-call]
    return found
