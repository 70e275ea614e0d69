"""From a token to its patch, in closed form.

A patch embedding is linear and a transformer block adds to it, so that a linear map undoes most of both. It needs
pairs of tokens and patches; where the queries come back shuffled, the pairs are found on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.attacks._jigsaw.board import unfolded

_PENALTY = 1e-6  # relative to the mean variance of a feature
_START = 1e-2  # the same for the means of images, of which there are few
_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # of its own image in a row
_CELLS = 8_000_000  # of a matrix of distances at a time
_ROWS = 16_384  # at a time, in double precision


@dataclass(frozen=True)
class Ridge:
    """An affine map from tokens (..., D) to patches (..., P)."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, z: Tensor, x: Tensor, penalty: float = _PENALTY) -> Ridge:
        """From tokens (..., D) and the patches (..., P) they came from."""
        z, x = z.flatten(0, -2), x.flatten(0, -2)
        centre, mean = z.double().mean(0), x.double().mean(0)
        left, right = _sums(z, x, centre, mean)
        # Where every token is the same, nothing is learned and every patch is the mean; without the 1, 0 / 0.
        level = float(left.diagonal().mean()) or 1.0
        eye = torch.eye(len(left), dtype=left.dtype, device=left.device)
        weight = torch.linalg.solve(left + penalty * level * eye, right)
        return cls(weight.float(), (mean - centre @ weight).float())

    def __call__(self, z: Tensor) -> Tensor:
        return z @ self.weight + self.bias


def _sums(z: Tensor, x: Tensor, centre: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens by tokens (D, D) and tokens by patches (D, P), summed in double: they nearly cancel."""
    left, right = centre.new_zeros(len(centre), len(centre)), centre.new_zeros(len(centre), len(mean))
    for a, b in zip(torch.split(z, _ROWS), torch.split(x, _ROWS), strict=True):
        centred = a.double() - centre
        left += centred.T @ centred
        right += centred.T @ (b.double() - mean)
    return left, right


def blind(z: Tensor, x: Tensor, together: int = 1, rounds: int = 3) -> tuple[Ridge, Tensor, Tensor]:
    """The map from tokens (M, L, D) whose order is not known, and the patches (M, L, P) of the same images.

    With it, the tokens (K, D) and patches (K, P) that it takes for pairs. Tokens were mixed among `together` images.
    The mean of a row does not depend on the order, and is that of its image or, if mixed, of its image and its
    batch in some share. So the map from mean patch to mean token, the noise of sampling on its far side, is where it
    begins. Then tokens and patches of a batch that are nearest to each other are pairs, and the map back is made of
    these.
    """
    whole = max(1, len(z) // together) * together
    groups = (-1, min(together, len(z)))
    z, x = unfolded(z[:whole], 0, groups), unfolded(x[:whole], 0, groups)  # (G, B, L, D) and (G, B, L, P)
    forth = _of_means(z.mean(2), x.mean(2))
    z, x = z.flatten(1, 2), x.flatten(1, 2)
    tokens, patches = _nearest_both_ways(z, forth(x), z, x)
    found = Ridge.of(tokens, patches)
    for _ in range(rounds - 1):
        tokens, patches = _nearest_both_ways(found(z), x, z, x)
        found = Ridge.of(tokens, patches)
    return found, tokens, patches


def _of_means(z: Tensor, x: Tensor) -> Ridge:
    """From mean patches (G, B, P) to mean tokens (G, B, D), with the share of a row's own image that explains most."""
    batch = x.mean(1, keepdim=True)
    half = max(1, len(x) // 2)
    shares = _SHARES if x.shape[1] > 1 and len(x) > 1 else (1.0,)

    def wrong(share: float) -> float:
        mixed = share * x + (1 - share) * batch
        return float((Ridge.of(mixed[:half], z[:half], _START)(mixed[half:]) - z[half:]).square().mean())

    share = min(shares, key=wrong) if len(shares) > 1 else shares[0]
    return Ridge.of(share * x + (1 - share) * batch, z, _START)


def _nearest_both_ways(a: Tensor, b: Tensor, tokens: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
    """Of groups of tokens and patches (G, T, ...), those whose `a` and `b` are each other's nearest."""
    size = max(1, _CELLS // a.shape[1] ** 2)
    kept = []
    for part in (slice(start, start + size) for start in range(0, len(a), size)):
        far = torch.cdist(b[part], a[part])  # (G, patches, tokens)
        token, patch = far.argmin(2), far.argmin(1)
        both = patch.gather(1, token) == torch.arange(token.shape[1], device=token.device)
        chosen = tokens[part].gather(1, token[..., None].expand(-1, -1, tokens.shape[-1]))
        kept.append((chosen[both], patches[part][both]))
    first, second = zip(*kept, strict=True)
    return torch.cat(first), torch.cat(second)
