"""What FORA, SDAR, FSA and FSHA share: features of the adversary's own are aligned with the client's, then decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.listening import Listening
from splitbench.attacks._alignment.matching import Matching, imitated, matched, settled, smashed_by
from splitbench.attacks._alignment.substitute import Substitute
from splitbench.attacks._decoding.decoder import Decoder
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.training import Pairs, Training, Wanted, decoded, fitting_noise, trained_decoder
from splitbench.core.view import Recovered, View


@dataclass
class Aligned(Listening):
    """The settings and the last step of these attacks."""

    phases: ClassVar[tuple[str, ...]] = ("warm", "steps", "decoder_steps")
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"ssim": {"mnist": 0.8, "fashion_mnist": 0.8, "cifar10": 0.7, "*": 0.6}}
    )

    steps: Annotated[int, Ge(0)] = 150  # of adversarial alignment
    batch: Annotated[int, Ge(2)] = 32  # samples a step; 64 to 256 in the papers
    warm: Annotated[int, Ge(0)] = 600  # steps of matching moments before; the paper has none
    warm_lr: Annotated[float, Gt(0)] = 1e-2  # of matching moments
    critic_width: Annotated[int, Ge(1)] = 32  # channels of the critic
    critic_blocks: Annotated[int, Ge(0)] = 1  # residual blocks of the critic
    decoder_steps: Annotated[int, Ge(0)] = 250  # of training the decoder
    decoder_lr: Annotated[float, Gt(0)] = 3e-3  # of the decoder, falling as a cosine after a short rise
    decoder_width: Annotated[int, Ge(1)] = 32  # channels of the decoder
    decoder_blocks: Annotated[int, Ge(0)] = 3  # residual blocks of the decoder
    structure: Annotated[float, Ge(0)] = 0.03  # weight of structural similarity beside squared error
    noise: Annotated[float, Ge(0)] | None = None  # on the features the decoder learns from; none given: as it fits

    def substitute(self, view: View, observed: Tensor, generator: Generator, blocks: int = 0) -> nn.Module:
        """A client of no known layers that sends what was observed, as far as moments tell."""
        how = Matching(self.warm, self.batch, self.warm_lr)
        return matched(Substitute.of(view, observed, blocks), view, how, generator, self.earlier)

    def like(self, client: nn.Module, teacher: nn.Module, view: View, generator: Generator) -> nn.Module:
        """A client of other layers that begins where the substitute has come to."""
        return imitated(client, teacher, view, Matching(self.warm // 3, self.batch, self.warm_lr), generator)

    def training(self, noise: float) -> Training:
        return Training(
            self.decoder_steps, 32, self.decoder_lr, self.decoder_width, self.decoder_blocks, self.structure, noise
        )

    def fitting(self, pairs: Pairs, client: nn.Module, targets: Tensor) -> float:
        """The noise that was asked for, or that fits."""
        return fitting_noise(pairs, client, targets) if self.noise is None else self.noise

    def decode(
        self,
        view: View,
        client: nn.Module,
        generator: Generator,
        labels: tuple[Tensor, Tensor] | None = None,
        further: Callable[[Decoder], Tensor] | None = None,
    ) -> Recovered:
        """The targets' images, by a decoder trained on what the adversary's client makes of public ones.

        `labels` are those of the public images and of the targets, if the decoder is told them.
        """
        assert view.auxiliary is not None
        x = view.auxiliary.x
        public, private = labels if labels is not None else (None, None)
        z = smashed_by(settled(client, x), x)
        pairs = Pairs(z, x, public, lambda z: view.imagine(z, generator), Grid.of_view(view))
        wanted = Wanted(view.merged, private)
        how = self.training(self.fitting(pairs, client, view.merged))
        decoder = trained_decoder(pairs, how, generator, "decoder", wanted, further)
        return Recovered(inputs=decoded(decoder, view.merged, private))
