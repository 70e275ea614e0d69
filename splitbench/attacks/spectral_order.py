"""The order of shuffled spectral patches, which a spectrum gives away by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.linear_inverse import LinearInverse
from splitbench.attacks._jigsaw.ridge import Ridge
from splitbench.attacks._spectral.crops import Crops
from splitbench.attacks._spectral.magnitudes import likened, smoothest
from splitbench.attacks._spectral.sorting import Usual, by_magnitudes, by_symmetry, by_truth
from splitbench.attacks._steps.descent import draw
from splitbench.core.attack import Attack
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import by_rank
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View
from splitbench.methods.shuffling.patches import patched, unpatched

_FOLDED = 3  # channels of the image into which tokens are folded
_NEARER = 0.8  # how much nearer an answer is to its own spectrum than to another's, if it is one
_SYMMETRIC = 0.25  # of a set's energy that may contradict a real image; half of it does in a random order
_EXACT = 0.01  # of the energy: what rounding leaves, and much more
_LOOK = 16  # images by which the reading is found out


@dataclass(frozen=True)
class Pairs:
    """Public images (N, C, H, W), and what the client answered, (R, N, ...)."""

    x: Tensor
    rounds: Tensor

    def first(self, count: int) -> Pairs:
        return Pairs(self.x[:count], self.rounds[:, :count])


@dataclass(frozen=True)
class SpectralOrder(Attack):
    """Sort shuffled patches of a spectrum by its conjugate symmetry, and transform it back.

    Against the spectral shuffling (PS+) of Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over
    Transformers", ICDM 2022, section IV-D. https://github.com/dixiyao/PatchShuffling
    Not of the paper, which holds that values at different frequencies are not correlated. Those at opposite ones are
    equal but for a sign, so that every patch of an even spectrum says which are its neighbours: exactly, without
    training and, if the image itself was transformed (R1), without any data. If its folded embedding was (R2), queries
    give the embedding's inverse by ridge regression. Where symmetry is gone, as where a client of R1 keeps half of the
    spectrum back, patches are sorted by how strong each frequency usually is; the better way is chosen for each image.
    Tokens that are no spectrum are taken as they lie and inverted linearly, as `inversion` begins.
    """

    needs: ClassVar[ThreatModel] = ThreatModel()
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"ssim": {"celeba": 0.6, "lfw": 0.6, "*": 0.5}}
    )

    reading: Literal["auto", "R1", "R2"] = "auto"  # what was transformed: the image, the folded embedding, or find out
    examples: Annotated[int, Ge(1)] = 1024  # queries at most by which a spectrum is read; a linear inverse takes all

    def run(self, view: View, generator: Generator) -> Recovered:
        layout = view.layout or by_rank(view.targets.shape[2:])
        pairs = self._asked(view, generator)
        image, folded = (Crops.of(layout, view.shape, channels) for channels in (view.shape[0], _FOLDED))
        tokens = view.targets.flatten(0, 1)[:, layout.prefix :] if image or folded else view.targets
        if image and self._of_the_image(image, pairs, view.batch):
            x = _from_images(tokens, image, view, pairs and pairs.first(self.examples))
        elif folded and pairs and self._of_the_embedding(folded, tokens, view.batch):
            x = _from_embeddings(
                tokens, folded, view, pairs.first(self.examples // view.batch * view.batch or view.batch)
            )
        elif pairs:
            inverse = LinearInverse(Grid.of_view(view), view.shape, view.merge(pairs.rounds), pairs.x)
            return Recovered(inputs=inverse(view.merged))
        else:
            raise SplitbenchError(
                "spectral_order: what is sent is not the spectrum of an image, and undoing anything else takes pairs; "
                "grant auxiliary samples and queries"
            )
        return Recovered(inputs=x.view(len(view.targets), len(view), *x.shape[1:]).mean(0))

    def _asked(self, view: View, generator: Generator) -> Pairs | None:
        if view.auxiliary is None or view.query is None or not min(len(view.auxiliary), view.query.left):
            return None
        x = draw(view.auxiliary.x, view.query.left, generator)
        return Pairs(x, view.query(x))

    def _of_the_image(self, crops: Crops, pairs: Pairs | None, together: int) -> bool:
        """Whether the spectra are those of images; who has nothing to compare takes it that they are."""
        if self.reading != "auto":
            return self.reading == "R1"
        if crops.half and together > 1:
            return False
        return not pairs or _told(pairs, crops, together)

    def _of_the_embedding(self, crops: Crops, tokens: Tensor, together: int) -> bool:
        if crops.half:  # which does not say how it belongs together
            return False
        if self.reading != "auto":
            return self.reading == "R2"
        some = tokens[: max(_LOOK, together)]
        return crops.tied and float(crops.asymmetry(by_symmetry(some, crops, together)).mean()) < _SYMMETRIC


def _told(pairs: Pairs, crops: Crops, together: int) -> bool:
    """Whether what the client answers to an image is nearer to its spectrum than to another's."""
    count = max(_LOOK, together)
    z, x = pairs.rounds[0, :count, -crops.places :], pairs.x[:count]
    if together > 1:
        z = by_symmetry(z, crops, together)
    true = crops.sent(x)
    own, other = ((by_truth(z, one) - one).square().mean() for one in (true, true.roll(1, 0)))
    return bool(own < _NEARER * other)


def _from_images(tokens: Tensor, crops: Crops, view: View, pairs: Pairs | None) -> Tensor:
    """R1: the spectra are those of images."""
    if crops.tied:
        tokens = smoothest(by_symmetry(tokens, crops, view.batch), crops)
        if float(crops.asymmetry(tokens).max()) < _EXACT:
            return crops.images(tokens)
    if view.auxiliary is None or view.batch > 1:  # nothing to compare with, or the tokens of several images mixed
        if not crops.tied:
            raise SplitbenchError(_untied(crops))
        return crops.images(tokens)
    x = pairs.x if pairs else view.auxiliary.x
    known = crops.sent(x)
    if pairs:
        known = by_truth(pairs.rounds[0, :, -crops.places :], known)
    usual = Usual.of(known, crops)
    tokens = usual.better(tokens, crops) if crops.tied else by_magnitudes(tokens, usual.magnitudes, crops)
    return _restored(crops.images(tokens), crops.images(known), x, crops)


def _untied(crops: Crops) -> str:
    whole = f"{'half of ' if crops.half else ''}a spectrum of {crops.shape[1]} x {crops.shape[2]}"
    return (
        f"spectral_order: crops of {crops.height} x {crops.width} of {whole} are not tied by symmetry; grant auxiliary "
        "samples, whose spectra say how strong each frequency usually is"
    )


def _restored(images: Tensor, like: Tensor, x: Tensor, crops: Crops) -> Tensor:
    """Images as the public ones `x` become when they are linearly made of what came back of them, patch by patch."""
    made, true, seen = (patched(one, crops.rows, crops.columns) for one in (like, x, images))
    return unpatched(Ridge.of(made, true)(seen), x.shape[1:], crops.rows, crops.columns)


def _from_embeddings(tokens: Tensor, crops: Crops, view: View, pairs: Pairs) -> Tensor:
    """R2: the spectra are those of images folded from the tokens of an embedding, which is linear."""
    x, asked = pairs.x, pairs.rounds[0, :, -crops.places :]
    both = [by_symmetry(part, crops, view.batch) for part in (asked, tokens)]
    # By a shift common to all, each value of a token has one sign for all tokens: the ridge does not mind.
    spectra = likened(torch.cat(both), crops)
    folded = crops.images(spectra)
    return _restored(folded[len(x) :], folded[: len(x)], x, crops)
