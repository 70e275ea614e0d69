"""The dual input-aware factorization machine against the paper's formulas, written out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from _small_models import FIELDS, batch_for, model, network_for
from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.metric import Truth
from splitbench.core.model import build_for, build_network
from splitbench.core.registry import load
from splitbench.data._folders import search

Row = list[float]


def table(parameter: Tensor) -> list[Row]:
    return parameter.tolist()


def matrix(weights: list[Row], x: Row, bias: Row | None = None) -> Row:
    return [sum(w * v for w, v in zip(row, x, strict=True)) + (bias[i] if bias else 0) for i, row in enumerate(weights)]


def by_hand(network: nn.Module, x: Row, heads: int) -> float:
    """The logit of one row, with numbers and loops: section 3 of the paper."""
    embeddings, weights = [], []
    for i, field in enumerate(FIELDS):
        layer = network.fields.embeddings[i]
        if field.categories:
            both = table(layer.weight)[int(x[i])]
        else:
            both = [w[0] * x[i] + b for w, b in zip(table(layer.weight), layer.bias.tolist(), strict=True)]
        embeddings.append(both[:-1])
        weights.append(both[-1])
    count = len(FIELDS)

    # The bit-wise factors: a perceptron on all embeddings, then a matrix.
    hidden = [value for embedding in embeddings for value in embedding]
    for layer in network.bitwise.perceptron:
        if isinstance(layer, nn.Linear):
            hidden = [max(0, value) for value in matrix(table(layer.weight), hidden, layer.bias.tolist())]
    bitwise = matrix(table(network.bitwise.factor.weight), hidden)

    # The vector-wise factors: attention between embeddings, a residual, ReLU, then a matrix.
    part = network.vectorwise
    q, k, v, own = (
        [matrix(table(layer.weight), embedding) for embedding in embeddings]
        for layer in (part.queries, part.keys, part.values, part.residual)
    )
    wide = len(q[0]) // heads
    attended = []
    for i in range(count):
        for head in range(heads):
            of = range(head * wide, (head + 1) * wide)
            scores = [math.exp(sum(q[i][d] * k[j][d] for d in of) / math.sqrt(wide)) for j in range(count)]
            mixed = [sum(scores[j] * v[j][d] for j in range(count)) / sum(scores) for d in of]
            attended += [max(0, value + own[i][d]) for value, d in zip(mixed, of, strict=True)]
    vectorwise = matrix(table(part.factor.weight), attended)

    # A factorization machine on what the sums of both factors have scaled.
    factors = [a + b for a, b in zip(bitwise, vectorwise, strict=True)]
    logit = network.head.bias.item() + sum(m * w for m, w in zip(factors, weights, strict=True))
    for i in range(count):
        for j in range(i + 1, count):
            product = sum(a * b for a, b in zip(embeddings[i], embeddings[j], strict=True))
            logit += factors[i] * factors[j] * product
    return logit


def shaken(classes: int = 2) -> nn.Module:
    """Far from its small beginnings, so that every part matters."""
    torch.manual_seed(0)
    network = network_for(model("difm"), classes).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.7)
    return network.eval()


def test_it_is_what_the_paper_says() -> None:
    network, x = shaken(), batch_for(model("difm"))
    logits = network(x)
    assert logits.shape == (3, 2)
    for sample in range(3):
        expected = by_hand(network, x[sample].tolist(), heads=2)
        assert logits[sample].tolist() == pytest.approx([0, expected])
    assert logits[:, 1].std() > 0.1


def test_what_the_bitwise_part_passes_on_is_embedding_weight_and_factor_of_each_field() -> None:
    chosen, network, x = model("difm"), shaken(), batch_for(model("difm"))
    z = chosen.split(network, ("bitwise",)).stages[0](x)
    assert z.shape == (3, len(FIELDS), 3 + 2)
    assert torch.equal(z[..., :-1], network.fields(x))
    hidden = network.bitwise.perceptron(z[..., :3].flatten(1))
    torch.testing.assert_close(z[..., -1], hidden @ network.bitwise.factor.weight.T)
    assert chosen.layout("edge", network, (4, 4), (4,)) == Layout("fields", (4, 4))


def test_the_prediction_does_not_depend_on_the_order_of_fields() -> None:
    chosen, x = model("difm"), batch_for(model("difm"))
    for classes in (2, 5):
        client, server = chosen.split(shaken(classes), ("edge",)).stages
        z = client(x)
        torch.testing.assert_close(server(z[:, [2, 0, 3, 1]]), server(z))
        assert (server(z.flip(0)) - server(z)).abs().max() > 1e-3


def test_shuffled_fields_keep_what_they_are_and_get_another_places_vectorwise_factor() -> None:
    chosen, network, x = model("difm"), shaken(), batch_for(model("difm"))
    assert chosen.tokens == "bitwise"
    front, back = chosen.split(network, (chosen.tokens,)).stages
    z = front(x)
    order = [2, 0, 3, 1]
    moved, still = (network.vectorwise(each) for each in (z[:, order], z))
    # Directions of embedding and weight together are the field's own; only lengths and signs differ.
    cosine = F.cosine_similarity(moved, still[:, order], dim=-1)
    torch.testing.assert_close(cosine.abs(), torch.ones_like(cosine))
    assert (moved - still[:, order]).abs().max() > 1e-2
    assert (back(z[:, order]) - back(z)).abs().max() > 1e-2


def test_fields_shuffled_after_the_vectorwise_part_predict_what_they_did() -> None:
    chosen, network, x = model("difm", shuffled="after"), shaken(), batch_for(model("difm"))
    front, back = chosen.split(network, (chosen.tokens,)).stages
    torch.testing.assert_close(back(front(x)[:, [2, 0, 3, 1]]), network(x))


def test_it_has_the_parameters_that_its_fields_need() -> None:
    network = build_network(load("models", "difm")(), (4,), 2, FIELDS)
    embeddings = (5 + 3) * 5 + 2 * (5 + 5)
    bitwise = (16 + 1) * 256 + (256 + 1) * 128 + 128 * 4
    vectorwise = 4 * 4 * 64 + 4 * 64 * 4
    assert sum(p.numel() for p in network.parameters()) == embeddings + bitwise + vectorwise + 1


def test_it_learns_a_rule_of_a_category_and_a_number() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.stack([torch.randn(400, generator=generator), torch.randint(4, (400,), generator=generator).float()], 1)
    y = ((x[:, 0] > 0) ^ (x[:, 1] == 2)).long()  # neither field alone says anything
    torch.manual_seed(0)
    network = network_for_two_fields()
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
    assert (network(x).argmax(1) == y).float().mean() > 0.95


def network_for_two_fields() -> nn.Module:
    return build_network(load("models", "difm")(hidden=(16,)), (2,), 2, (FIELDS[0], FIELDS[1]))


def test_what_it_does_not_take_is_said() -> None:
    with pytest.raises(SplitbenchError, match=r"shape \(5,\) and 4 fields"):
        build_network(model("difm"), (5,), 2, FIELDS)
    with pytest.raises(SplitbenchError, match="rows of 5 columns for a network of 4 fields"):
        network_for(model("difm"), 2)(torch.zeros(2, 5))


def test_a_few_seconds_of_criteo_beat_chance(shared_data: Path) -> None:
    criteo = load("data", "criteo")
    if search(criteo.files, (shared_data,)) is None:
        pytest.skip(f"none of {', '.join(criteo.files)} in {shared_data}")
    data = criteo(categories=100).load((shared_data,))
    torch.manual_seed(11)
    network = build_for(load("models", "difm")(), data)
    optimizer = torch.optim.AdamW(network.parameters(), 4e-3)
    for _ in range(2):
        for rows in torch.randperm(len(data.train)).split(256):
            optimizer.zero_grad()
            F.cross_entropy(network(data.train.x[rows]), data.train.y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        area = load("metrics", "auroc")()(network.eval()(data.test.x), Truth(data.test.y, modality="tabular"))
    assert float(area) > 0.67
