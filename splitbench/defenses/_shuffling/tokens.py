"""A client whose tokens can be shuffled: frozen, and without positions."""

from __future__ import annotations

from dataclasses import replace

from torch import Generator, Tensor, nn

from splitbench.core.defense import Context, Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.imagined import Imagined
from splitbench.core.split import SplitModel, cut
from splitbench.core.threat import Knowledge
from splitbench.core.tokens import Reordered
from splitbench.defenses._shuffling.imagined import Orders, Shuffled
from splitbench.methods.shuffling.orders import within_images

_POSITIONS = "pos_embed"
_KINDS = ("tokens", "fields")


class Shuffling(Defense):
    """Puts a client's tokens in another order, between the layer that makes them and the layers that follow."""

    @property
    def disguises(self) -> bool:
        return True

    @property
    def called(self) -> str:
        """As a recipe names it: the name of its file."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def orders(self) -> Orders:
        """What draws them, and leads to nothing of this client's."""
        return within_images

    @property
    def prefix(self) -> int:
        """Tokens that keep their place, ahead of all others."""
        return self.context.layout.prefix if self.context.layout is not None else 0

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        return Imagined() if rung == "none" else Shuffled(self.prefix, self.orders)

    def sent(self, z: Tensor, generator: Generator | None) -> Tensor:
        # Shuffled as if no layer followed: where one does, and rows are mixed, that is not quite what it sends.
        return Shuffled(self.prefix, self.orders).simulate(z, generator)

    def prepare(self, model: SplitModel) -> SplitModel:
        if len(model.stages) < 2:
            return model  # nothing crosses, so nothing is hidden
        places(self.context, self.called)
        front, back = opened(model.stages[0], self.context)
        without_positions(front)
        layout = self.context.layout
        assert layout is not None
        client = Reordered(front, back, layout.prefix).requires_grad_(False)
        return replace(model, stages=(client, *model.stages[1:]))


def places(context: Context, what: str) -> int:
    """How many tokens a sample has; refused where there are none."""
    layout = context.layout
    if layout is None or layout.kind not in _KINDS or not context.tokens or layout.places < 1:
        raise SplitbenchError(
            f"{what} shuffles tokens, and what crosses this cut is none; take a model that has tokens (vit_tiny, "
            "t2t_vit or, for tables, difm) and cut it at its embedding or after a block"
        )
    return layout.places


def opened(stage: nn.Module, context: Context) -> tuple[nn.Module, nn.Module]:
    """The client's layers up to its first tokens, and those behind."""
    if context.tokens not in dict(stage.named_modules()):
        raise SplitbenchError(
            f"the cut is before '{context.tokens}', where the network first holds tokens; cut at its embedding or later"
        )
    front, back = cut(stage, [context.tokens])
    return front, back


def without_positions(stage: nn.Module) -> None:
    """Nothing is added to a token for where it stands."""
    for name, parameter in [*stage.named_parameters(), *stage.named_buffers()]:
        if name.rpartition(".")[2] == _POSITIONS:
            nn.init.zeros_(parameter)
