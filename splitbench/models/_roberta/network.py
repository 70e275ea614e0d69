"""RoBERTa's parts in a row: word embeddings, positions, layers, pooler, head; it can be cut between any two."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError

PAD = 1  # RoBERTa numbers positions from the one after its padding token


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
                "set the model's `vocabulary` to the data's"
            )
        words: Tensor = self.words(tokens)
        return words


class Positions(nn.Module):
    """Positions and token types added to word embeddings, then layer norm and dropout."""

    def __init__(self, embeddings: Any) -> None:
        super().__init__()
        self.positions: nn.Embedding = embeddings.position_embeddings
        self.types: nn.Embedding = embeddings.token_type_embeddings
        self.norm: nn.LayerNorm = embeddings.LayerNorm
        self.dropout: nn.Dropout = embeddings.dropout

    def forward(self, words: Tensor) -> Tensor:
        length, room = words.shape[1], self.positions.num_embeddings - PAD - 1
        if length > room:
            raise SplitbenchError(f"texts of {length} tokens do not fit the model's `length` of {room}; raise it")
        first = PAD + 1
        placed = words + self.positions.weight[first : first + length] + self.types.weight[0]
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


class Roberta(nn.Module):
    """Token ids (N, L), none of them padding, to logits (N, classes); with no classes, to the pooled (N, D)."""

    def __init__(self, model: Any, classes: int, dropout: float) -> None:
        super().__init__()
        self.embeddings = Words(model.embeddings.word_embeddings)
        self.embedded = Positions(model.embeddings)
        self.layers = nn.Sequential(*map(Layer, model.encoder.layer))
        self.pool: nn.Module = model.pooler
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
