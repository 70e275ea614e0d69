"""An encoder's parts in a row: word embeddings, positions, layers, pooling, head; it can be cut between any two."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError


class Words(nn.Module):
    """Word embeddings alone: what SEAL leaves with the client."""

    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        self.words = words

    def forward(self, tokens: Tensor) -> Tensor:
        known = self.words.num_embeddings
        if not tokens.is_meta and tokens.numel() and int(tokens.max()) >= known:
            raise SplitbenchError(
                f"token {int(tokens.max())} is outside the model's vocabulary of {known}; "
                "give the data the model's tokenizer, or set `vocabulary` to the same number for both"
            )
        words: Tensor = self.words(tokens)
        return words


class Positions(nn.Module):
    """Positions and token types, if there are types, added to word embeddings; then layer norm and dropout."""

    def __init__(self, embeddings: Any, first: int) -> None:
        super().__init__()
        self.positions: nn.Embedding = embeddings.position_embeddings
        self.types: nn.Embedding | None = getattr(embeddings, "token_type_embeddings", None)
        self.norm: nn.LayerNorm = embeddings.LayerNorm
        self.dropout: nn.Dropout = embeddings.dropout
        self.first = first  # the number of the first token's position

    def forward(self, words: Tensor) -> Tensor:
        length, room = words.shape[1], self.positions.num_embeddings - self.first
        if length > room:
            raise SplitbenchError(f"texts of {length} tokens do not fit the model's `length` of {room}; shorten them")
        placed = words + self.positions.weight[self.first : self.first + length]
        if self.types is not None:
            placed = placed + self.types.weight[0]
        normed: Tensor = self.dropout(self.norm(placed))
        return normed


class Layer(nn.Module):
    """One transformer layer, without the attention mask that texts of equal length do not need."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        out: Tensor = y[0] if isinstance(y, tuple) else y  # a tuple before transformers 5
        return out


class Mean(nn.Module):
    """The mean over all tokens of a text."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class First(nn.Module):
    """The first token through a linear layer and tanh: BERT's pooling, for encoders published without it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.activation(self.dense(x[:, 0]))
        return pooled


class Encoder(nn.Module):
    """Token ids (N, L), none of them padding, to logits (N, classes); with no classes, to the pooled (N, D)."""

    def __init__(self, model: Any, pool: nn.Module, classes: int, dropout: float, first: int) -> None:
        super().__init__()
        layers = model.encoder.layer if hasattr(model, "encoder") else model.transformer.layer
        self.embeddings = Words(model.embeddings.word_embeddings)
        self.embedded = Positions(model.embeddings, first)
        self.layers = nn.Sequential(*map(Layer, layers))
        self.pool = pool
        self.head: nn.Module = nn.Identity()
        if classes:
            self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(model.config.hidden_size, classes))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embeddings(tokens)  # (N, L, D)
        x = self.embedded(x)
        x = self.layers(x)
        x = self.pool(x)  # (N, D)
        logits: Tensor = self.head(x)
        return logits
