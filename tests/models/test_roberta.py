"""RoBERTa in a row is transformers' RoBERTa; and what can go wrong with texts is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from _small_models import TOKENS, batch_for, model
from safetensors.torch import save_file

from splitbench.core.errors import SplitbenchError
from splitbench.models._encoders.build import _transformers


def theirs(**changes: int) -> torch.nn.Module:
    config, make = _transformers("roberta_small", "roberta")
    sizes = {"vocab_size": TOKENS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 10, "type_vocab_size": 1} | changes
    return make(config(**sizes, layer_norm_eps=1e-5))


def published(tmp_path: Path, **changes: int) -> tuple[torch.nn.Module, str]:
    """A checkpoint as it is published: a language model's names, its head too, and no pooler."""
    network = theirs(**changes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    state = {f"roberta.{k}": v.clone() for k, v in network.state_dict().items() if not k.startswith("pooler.")}
    save_file({**state, "lm_head.bias": torch.zeros(TOKENS)}, tmp_path / "model.safetensors")
    return network, str(tmp_path)


def loaded(weights: str, classes: int = 0) -> torch.nn.Module:
    from splitbench.models._encoders import build as _encoders

    configuration = _encoders.roberta(vocabulary=TOKENS, length=8, layers=2, width=16, heads=4)
    return _encoders.build("roberta_small", configuration, (8,), classes, weights)


def test_it_is_transformers_roberta_given_the_same_weights(tmp_path: Path) -> None:
    oracle, folder = published(tmp_path)
    ours = loaded(folder).eval()
    ours.pool.load_state_dict(oracle.pooler.state_dict())
    tokens = batch_for(model("roberta_small"))
    with torch.no_grad():
        expected = oracle.eval()(input_ids=tokens, attention_mask=torch.ones_like(tokens)).pooler_output
        torch.testing.assert_close(ours(tokens), expected)
    assert expected.std() > 0.01


def test_the_client_holds_word_embeddings_only() -> None:
    chosen = model("roberta_small")
    split = chosen.split(chosen.build((8,), 2), ("embeddings",))
    (table,) = split.stages[0].parameters()
    tokens = batch_for(chosen)
    assert torch.equal(split.stages[0](tokens), table[tokens])


def test_a_folder_or_a_file_of_weights_is_read_and_the_head_keeps_its_initialisation(tmp_path: Path) -> None:
    oracle, folder = published(tmp_path)
    for place in (folder, folder + "/model.safetensors"):
        ours = loaded(place, classes=3)
        assert torch.equal(ours.embeddings.words.weight, oracle.embeddings.word_embeddings.weight)
        assert ours.head[1].weight.abs().max() < 1


def test_weights_of_another_size_are_refused_with_both_sizes(tmp_path: Path) -> None:
    _, folder = published(tmp_path, vocab_size=TOKENS + 1)
    with pytest.raises(SplitbenchError, match=r"embeddings.words.weight is 41 x 16 there and 40 x 16 here"):
        loaded(folder)


def test_missing_weights_and_weights_that_are_not_safetensors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitbenchError, match=r"no weights at .*nowhere"):
        loaded(str(tmp_path / "nowhere"))
    pickled = tmp_path / "model.bin"
    torch.save({"a": torch.zeros(1)}, pickled)
    with pytest.raises(SplitbenchError, match="is not a safetensors file"):
        loaded(str(pickled))
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(SplitbenchError, match=r"no embeddings\.words\.weight in it.* and .* more"):
        loaded(str(tmp_path / "other.safetensors"))


def test_a_token_outside_the_vocabulary_is_named() -> None:
    network = model("roberta_small").build((8,), 2)
    tokens = torch.full((2, 8), TOKENS)
    with pytest.raises(SplitbenchError, match=f"token {TOKENS} is outside the model's vocabulary of {TOKENS}"):
        network(tokens)


def test_texts_longer_than_the_model_are_refused_when_built_and_when_run() -> None:
    chosen = model("roberta_small")
    with pytest.raises(SplitbenchError, match="texts of 9 tokens do not fit length=8"):
        chosen.build((9,), 2)
    with pytest.raises(SplitbenchError, match="texts of 9 tokens do not fit the model's `length` of 8"):
        chosen.build((8,), 2)(torch.zeros(1, 9, dtype=torch.int64))


def test_without_transformers_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SplitbenchError, match=r"roberta_small needs transformers.*pip install 'splitbench\[text\]'"):
        model("roberta_small").build((8,), 2)
