"""Pretraining on public data: the weights with which a network begins, made once, stored and reused."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor, nn

from splitbench.core import device
from splitbench.core.data import DataSet, Samples, as_input
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import Model, build_for
from splitbench.core.progress import tell
from splitbench.core.randomness import derive, generator, seeded
from splitbench.core.split import cut, output_shape
from splitbench.data._allocation.allocate import Allocation
from splitbench.methods.shuffling.patches import patched
from splitbench.plan import components
from splitbench.plan.cells import RunSpec
from splitbench.runner.augment import augmented
from splitbench.store.store import Store

Start = Callable[[nn.Module], None]

_BATCH = 25
_RATE = 5e-4
_MASKED = 0.6  # of an image's tokens, hidden from the encoder
_RISE = 0.2  # of the steps, in which the rate rises
_WIDTH, _HEADS, _DEPTH = 128, 4, 2  # of the decoder that masked autoencoding throws away
_KEPT = 4  # of this process' pretrainings, those that are remembered

_store: ContextVar[Store | None] = ContextVar("store", default=None)
_made: dict[str, dict[str, Tensor]] = {}


@contextmanager
def keeping_pretrained(store: Store) -> Iterator[None]:
    """What is pretrained inside is kept in the store, and taken from there if it is."""
    token = _store.set(store)
    try:
        yield
    finally:
        _store.reset(token)


def pretraining(spec: RunSpec, data: DataSet, allocation: Allocation) -> Start | None:
    """What gives a network its pretrained weights; None if the run asks for none.

    The public samples are the adversary's auxiliary ones, so that nothing private is used.
    """
    kind = spec.training.pretrain
    if kind == "none":
        return None
    public = allocation.samples("auxiliary")
    key = _key(spec, allocation)
    if key not in _made:
        store = _store.get()
        file = store.path / "pretrained" / f"{key}.safetensors" if store is not None else None
        weights = _read(file) if file is not None else None
        if weights is None:
            weights = pretrained(spec, data, public)
            if store is not None and file is not None:
                store.put_beside(file, functools.partial(save_file, weights))
        while len(_made) >= _KEPT:
            _made.pop(next(iter(_made)))
        _made[key] = weights

    def start(whole: nn.Module) -> None:
        whole.load_state_dict(_made[key])

    return start


def _key(spec: RunSpec, allocation: Allocation) -> str:
    """Of everything that decides the weights: the defense and the private samples do not."""
    training = spec.training
    document = {
        "model": spec.model.document(),
        "data": spec.data_digest,
        "public": allocation.digests["auxiliary"],
        "kind": training.pretrain,
        "epochs": training.pretrain_epochs,
        "augment": [list(training.augment), training.crop],
        "seed": spec.seed,
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def _read(file: Path) -> dict[str, Tensor] | None:
    try:
        return load_file(file) if file.is_file() else None
    except (OSError, SafetensorError):
        return None  # damaged: it is made again


def pretrained(spec: RunSpec, data: DataSet, public: Samples) -> dict[str, Tensor]:
    """The weights of the uncut network after learning from public samples."""
    architecture: Model = components.build(spec.model)
    draws = generator(spec.seed, "pretraining")
    if not len(public):
        raise SplitbenchError("there are no auxiliary samples to pretrain on; set samples.auxiliary")
    with seeded(derive(spec.seed, "pretraining"), "layers"):
        whole = build_for(architecture, data).to(device.current())
        if spec.training.pretrain == "masked":
            _masked(spec, architecture, whole, data, public, draws)
        else:
            _supervised(spec, whole, data, public, draws)
    return {name: value.detach().cpu().contiguous().clone() for name, value in whole.state_dict().items()}


def _supervised(spec: RunSpec, whole: nn.Module, data: DataSet, public: Samples, draws: Generator) -> None:
    if spec.auxiliary is not None and spec.auxiliary_digest != spec.data_digest:
        raise SplitbenchError(
            f"the labels of {spec.auxiliary.name} are not those of {spec.data.name}, so nothing can be pretrained on "
            "them; use pretrain: masked"
        )
    several = data.task == "attributes"

    def loss(rows: Tensor) -> Tensor:
        logits, wanted = whole(_images(spec, public.x[rows], draws)), public.y[rows].to(device.current())
        if several:
            return F.binary_cross_entropy_with_logits(logits, wanted.to(logits.dtype))
        return F.cross_entropy(logits, wanted, label_smoothing=spec.training.label_smoothing)

    _learn(spec, whole, len(public), loss, draws)


def _masked(
    spec: RunSpec, architecture: Model, whole: nn.Module, data: DataSet, public: Samples, draws: Generator
) -> None:
    """He et al., "Masked autoencoders are scalable vision learners", 2022: the network up to its last norm sees some
    of the tokens, and a small decoder guesses the pixels of the others. https://arxiv.org/abs/2111.06377"""
    if not architecture.tokens or "norm" not in architecture.cuts:
        raise SplitbenchError(
            f"{spec.model.name} has no tokens to mask; use pretrain: supervised, or a vision transformer such as "
            "vit_tiny or t2t_vit"
        )
    front, middle, _ = cut(whole, [architecture.tokens, architecture.cuts["norm"]])
    shape = output_shape(front, data.shape, torch.float32)
    layout = architecture.layout("norm", whole, shape, data.shape)
    if layout.grid is None:
        raise SplitbenchError(f"the tokens of {spec.model.name} do not lie on a grid; use pretrain: supervised")
    rows, columns = layout.grid
    prefix, places, width = layout.prefix, layout.places, layout.channels
    pixels = data.shape[0] * (data.shape[1] // rows) * (data.shape[2] // columns)
    decoder = _Decoder(width, places, pixels).to(device.current())
    visible = max(1, round(places * (1 - _MASKED)))

    def loss(numbers: Tensor) -> Tensor:
        x = _images(spec, public.x[numbers], draws)
        order = torch.rand(len(x), places, generator=draws).argsort(1).to(x.device)
        seen, hidden = order[:, :visible], order[:, visible:]
        tokens = front(x)
        ahead = tokens[:, :prefix]
        kept = tokens[:, prefix:].gather(1, seen[:, :, None].expand(-1, -1, width))
        code = middle(torch.cat((ahead, kept), 1))[:, prefix:]
        guess = decoder(code, seen).gather(1, hidden[:, :, None].expand(-1, -1, pixels))
        truth = patched(x, rows, columns).gather(1, hidden[:, :, None].expand(-1, -1, pixels))
        return F.mse_loss(guess, truth)

    _learn(spec, nn.ModuleList([whole, decoder]), len(public), loss, draws)


class _Decoder(nn.Module):
    """Pixels of every place, from what the encoder made of some."""

    def __init__(self, width: int, places: int, pixels: int) -> None:
        super().__init__()
        self.inward = nn.Linear(width, _WIDTH)
        self.mask = nn.Parameter(torch.zeros(1, 1, _WIDTH))
        self.positions = nn.Parameter(torch.randn(1, places, _WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 2 * _WIDTH, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, _DEPTH, enable_nested_tensor=False)
        self.outward = nn.Linear(_WIDTH, pixels)

    def forward(self, code: Tensor, seen: Tensor) -> Tensor:
        known = self.inward(code)
        every = self.mask.expand(len(code), self.positions.shape[1], -1)
        tokens = every.scatter(1, seen[:, :, None].expand(-1, -1, _WIDTH), known) + self.positions
        out: Tensor = self.outward(self.blocks(tokens))
        return out


def _images(spec: RunSpec, x: Tensor, draws: Generator) -> Tensor:
    if x.dim() == 4 and spec.training.augment:
        x = augmented(x, spec.training.augment, spec.training.crop, draws)
    return as_input(x.to(device.current()))


def _learn(spec: RunSpec, learned: nn.Module, count: int, loss: Callable[[Tensor], Tensor], draws: Generator) -> None:
    """AdamW with a short rise and a cosine, whatever the training afterwards is."""
    epochs = spec.training.pretrain_epochs
    batches = max(1, count // _BATCH)
    total = epochs * batches
    optimizer = torch.optim.AdamW((p for p in learned.parameters() if p.requires_grad), _RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=total, pct_start=_RISE)
    learned.train()
    for done in range(total):
        if done % batches == 0:
            order = torch.randperm(count, generator=draws)
        value = loss(order[done % batches * _BATCH :][:_BATCH])
        optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        tell("pretrain", done + 1, total, f"loss {value.item():.3f}")
    learned.eval()
