"""Encoders from a folder are those of transformers, given the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from splitbench.core.errors import SplitbenchError
from splitbench.core.registry import load
from splitbench.models._adopt import adopt

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {**SIZES, "max_position_embeddings": 12, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0},
    "roberta": {**SIZES, "max_position_embeddings": 14, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "distilbert": {
        "vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 32, "max_position_embeddings": 12,
        "pad_token_id": 0,
    },
}  # fmt: skip
CLASSES = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
TOKENS = torch.randint(2, 40, (3, 9), generator=torch.Generator().manual_seed(0))


def publish(folder: Path, kind: str, prefix: str = "", half: bool = False, **changes: Any) -> torch.nn.Module:
    """A folder as transformers saves it, with a language model's names if there is a prefix; returns the original."""
    config = getattr(transformers, f"{CLASSES[kind]}Config")(**CONFIGS[kind] | changes)
    torch.manual_seed(1)
    network = getattr(transformers, f"{CLASSES[kind]}Model")(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
            if half:
                parameter.copy_(parameter.half())
    folder.mkdir(exist_ok=True)
    state = {f"{prefix}{k}": (v.half() if half else v).clone() for k, v in network.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({**config.to_dict(), "model_type": kind}))
    return network.eval()


def states(network: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return network(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS)).last_hidden_state


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("prefixed", [False, True], ids=["bare", "prefixed"])
def test_the_mean_of_all_tokens_is_that_of_transformers(tmp_path: Path, kind: str, prefixed: bool) -> None:
    oracle = publish(tmp_path / "encoder", kind, f"{kind}." if prefixed else "")
    chosen = load("models", str(tmp_path / "encoder"))()
    ours = chosen.build((9,), 0).eval()
    torch.testing.assert_close(ours(TOKENS), states(oracle).mean(1))
    assert chosen.modality == "text"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_pooled_first_token_is_that_of_transformers(tmp_path: Path, kind: str) -> None:
    oracle = publish(tmp_path, kind)
    ours = load("models", str(tmp_path))(pooling="first").build((9,), 0).eval()
    with torch.no_grad():
        expected = oracle(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS)).pooler_output
    torch.testing.assert_close(ours(TOKENS), expected)


def test_an_encoder_without_a_pooler_gets_one_untrained(tmp_path: Path) -> None:
    oracle = publish(tmp_path, "distilbert")
    ours = load("models", str(tmp_path))(pooling="first").build((9,), 0).eval()
    torch.testing.assert_close(ours(TOKENS), torch.tanh(ours.pool.dense(states(oracle)[:, 0])))


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_cut_of_a_folder_joins_to_the_whole(tmp_path: Path, kind: str) -> None:
    publish(tmp_path, kind)
    chosen = load("models", str(tmp_path))()
    network = chosen.build((9,), 3).eval()
    assert list(chosen.cuts) == ["embeddings", "embedded", "layer1", "layer2", "pool"]
    for cut in chosen.cuts:
        split = chosen.split(network, (cut,))
        split.eval()
        torch.testing.assert_close(split.joined(TOKENS), network(TOKENS))
    client = chosen.split(network, ("embeddings",)).stages[0]
    assert [p.shape for p in client.parameters()] == [(40, 16)]


def test_weights_stored_in_half_precision_become_single(tmp_path: Path) -> None:
    oracle = publish(tmp_path, "bert", half=True)
    ours = load("models", str(tmp_path))().build((9,), 0).eval()
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    torch.testing.assert_close(ours(TOKENS), states(oracle).mean(1))


def test_the_version_of_a_folder_is_its_contents(tmp_path: Path) -> None:
    publish(tmp_path / "one", "bert")
    publish(tmp_path / "same", "bert")
    publish(tmp_path / "other", "bert", half=True)
    one, same, other = (load("models", str(tmp_path / name)).version for name in ("one", "same", "other"))
    assert one == same != other
    (tmp_path / "one" / "tokenizer.json").write_text("{}")
    assert load("models", str(tmp_path / "one")).version == one, "the network does not read it"


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("{", "config.json cannot be read"),
        ("[]", "it holds a list"),
        ('{"model_type": "gpt2"}', "model_type is 'gpt2'; encoders of bert, roberta, distilbert can be built"),
        ('{"model_type": "bert"}', "vocab_size must be a whole number of at least 1, got None"),
        (
            json.dumps({"model_type": "bert", **CONFIGS["bert"], "hidden_size": "wide"}),
            "hidden_size must be .*got 'wide'",
        ),
        (
            json.dumps({"model_type": "bert", **CONFIGS["bert"], "position_embedding_type": "relative_key"}),
            "relative_key",
        ),
    ],
)
def test_a_configuration_that_describes_no_encoder_is_named(tmp_path: Path, contents: str, said: str) -> None:
    (tmp_path / "config.json").write_text(contents)
    with pytest.raises(SplitbenchError, match=said):
        load("models", str(tmp_path))


def test_folders_that_are_none_and_missing_weights_are_named(tmp_path: Path) -> None:
    publish(tmp_path / "encoder", "bert")
    with pytest.raises(SplitbenchError, match=r"no model at '.*encodr': it is no folder; did you mean '.*encoder'"):
        load("models", str(tmp_path / "encodr"))
    with pytest.raises(SplitbenchError, match=r"it holds no config\.json"):
        load("models", str(tmp_path))
    (tmp_path / "encoder" / "model.safetensors").unlink()
    with pytest.raises(SplitbenchError, match=r"no weights at .*model\.safetensors"):
        load("models", str(tmp_path / "encoder"))().build((9,), 2)
    assert adopt("no_such_encoder", None) is None


def test_what_does_not_fit_the_encoder_is_said_when_it_is_built(tmp_path: Path) -> None:
    publish(tmp_path, "roberta")
    chosen = load("models", str(tmp_path))()
    with pytest.raises(SplitbenchError, match="texts of 13 tokens do not fit length=12"):
        chosen.build((13,), 2)
    with pytest.raises(SplitbenchError, match="takes texts"):
        chosen.build((3, 8, 8), 2)
    with pytest.raises(SplitbenchError, match="token 40 is outside the model's vocabulary of 40"):
        chosen.build((9,), 2)(torch.full((1, 9), 40))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_attention_heads": 3}))
    with pytest.raises(SplitbenchError, match="width=16 is not a multiple of heads=3"):
        load("models", str(tmp_path))().build((9,), 2)


# MiniLM.


def test_minilm_has_the_published_number_of_parameters() -> None:
    layer = 4 * (384 * 384 + 384) + 2 * 384 * 1536 + 1536 + 384 + 4 * 384
    words, rest = 30522 * 384, (512 + 2) * 384 + 2 * 384 + 6 * layer
    chosen = load("models", "minilm")(weights="none")
    with torch.device("meta"):
        split = chosen.split(chosen.build((128,), 0), ("embeddings",))
    assert (split.parameters("client"), split.parameters("server")) == (words, rest)
    assert list(chosen.cuts) == ["embeddings", "embedded", *(f"layer{i}" for i in range(1, 7)), "pool"]


def test_minilm_says_where_it_looked_for_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBENCH_DATA", str(tmp_path))
    chosen = load("models", "minilm")()
    assert chosen.read_paths() == ()
    with pytest.raises(SplitbenchError, match="SPLITBENCH_DATA names no folder with weights/minilm"):
        chosen.build((9,), 2)
    with pytest.raises(SplitbenchError, match=r"no config\.json in .*nowhere"):
        load("models", "minilm")(weights=str(tmp_path / "nowhere")).build((9,), 2)
    publish(tmp_path / "two", "bert")
    with pytest.raises(SplitbenchError, match="has 2 layers, minilm has 6; give the folder itself as the model"):
        load("models", "minilm")(weights=str(tmp_path / "two")).build((9,), 2)


def test_minilm_finds_its_weights_in_the_data_folders_or_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "weights").mkdir(parents=True)
    oracle = publish(tmp_path / "data" / "weights" / "minilm", "bert", num_hidden_layers=6)
    monkeypatch.setenv("SPLITBENCH_DATA", f"{tmp_path / 'other'}:{tmp_path / 'data'}")
    found = load("models", "minilm")()
    told = load("models", "minilm")(weights=str(tmp_path / "data" / "weights" / "minilm"))
    for chosen in (found, told):
        torch.testing.assert_close(chosen.build((9,), 0).eval()(TOKENS), states(oracle).mean(1))
        assert [path.name for path in chosen.read_paths()] == ["config.json", "model.safetensors"]
        assert all(path.is_file() for path in chosen.read_paths())


def test_the_pretrained_minilm_is_the_one_that_transformers_loads(shared_data: Path) -> None:
    folder = shared_data / "weights" / "minilm"
    if not folder.is_dir():
        pytest.skip("no weights/minilm in the data")
    oracle = transformers.BertModel.from_pretrained(str(folder), dtype=torch.float32).eval()
    ours = load("models", "minilm")(weights=str(folder)).build((9,), 0).eval()
    tokens = TOKENS + 2000
    with torch.no_grad():
        expected = oracle(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state.mean(1)
        torch.testing.assert_close(ours(tokens), expected)
    by_path = load("models", str(folder))()
    assert list(by_path.cuts) == list(load("models", "minilm")(weights=str(folder)).cuts)
