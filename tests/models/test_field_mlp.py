"""The network for tables, and building any model for any data."""

from __future__ import annotations

import pytest
import torch
from _small_models import FIELDS, batch_for, model, network_for
from torch import Tensor

from splitbench.core.data import DataSet, Field, Samples, as_input
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import build_for, build_network
from splitbench.core.registry import load


def table(fields: tuple[Field, ...] = FIELDS) -> DataSet:
    x = torch.zeros(4, len(fields))
    samples = Samples(x, torch.tensor([0, 1, 0, 1]))
    return DataSet("rows", samples, samples, 2, modality="tabular", fields=fields)


def test_a_category_looks_its_embedding_up_and_a_number_scales_a_vector() -> None:
    chosen = model("field_mlp")
    network = network_for(chosen, 2).double()
    x = batch_for(chosen)
    z = chosen.split(network, ("fields",)).stages[0](x)
    assert z.shape == (3, 4, 3)
    tables = network.fields.embeddings
    for i, field in enumerate(FIELDS):
        for sample in range(3):
            if field.categories:
                expected = tables[i].weight[int(x[sample, i])]
            else:
                expected = x[sample, i] * tables[i].weight[:, 0] + tables[i].bias
            torch.testing.assert_close(z[sample, i], expected)


def test_it_has_the_parameters_that_its_fields_need() -> None:
    network = build_network(load("models", "field_mlp")(width=3, hidden=5), (4,), 2, FIELDS)
    embeddings = (5 + 3) * 3 + 2 * (3 + 3)
    assert sum(p.numel() for p in network.parameters()) == embeddings + (12 * 5 + 5) + (5 * 5 + 5) + (5 * 2 + 2)


def test_it_learns_a_rule_of_a_category_and_a_number() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.stack([torch.randn(400, generator=generator), torch.randint(4, (400,), generator=generator).float()], 1)
    y = ((x[:, 0] > 0) ^ (x[:, 1] == 2)).long()  # neither field alone says anything
    torch.manual_seed(0)
    network = build_network(load("models", "field_mlp")(width=4, hidden=16), (2,), 2, (Field("n"), Field("c", 4)))
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    assert (network(x).argmax(1) == y).float().mean() > 0.95


@pytest.mark.parametrize("wrong", [-1.0, 5.0, torch.nan])
def test_a_category_that_the_network_does_not_know_is_named(wrong: float) -> None:
    network = network_for(model("field_mlp"), 2)
    x: Tensor = torch.zeros(2, 4)
    x[1, 1] = wrong
    with pytest.raises(SplitbenchError, match=r"field 'town' holds the category .*; the network knows 0 to 4"):
        network(x)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(SplitbenchError, match="rows of 5 columns for a network of 4 fields"):
        network_for(model("field_mlp"), 2)(torch.zeros(2, 5))
    with pytest.raises(SplitbenchError, match=r"shape \(5,\) and 4 fields"):
        build_network(model("field_mlp"), (5,), 2, FIELDS)
    with pytest.raises(SplitbenchError, match="takes tables"):
        build_network(model("field_mlp"), (3, 32, 32), 2)


def test_without_fields_every_column_is_a_number() -> None:
    network = build_network(model("field_mlp"), (6,), 2)
    assert network(torch.full((2, 6), -7.5)).shape == (2, 2)


def test_any_model_is_built_for_data_of_its_kind_and_for_no_other() -> None:
    pixels = Samples(torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.tensor([0, 1]))
    tokens = Samples(torch.zeros(2, 8, dtype=torch.int64), torch.tensor([0, 1]))
    sets = {
        "image": DataSet("pictures", pixels, pixels, 2),
        "text": DataSet("texts", tokens, tokens, 2, modality="text"),
        "tabular": table(),
    }
    models = {"image": model("lenet5"), "text": model("roberta_small"), "tabular": model("field_mlp")}
    for kind, chosen in models.items():
        for modality, data in sets.items():
            if kind == modality:
                assert build_for(chosen, data)(as_input(data.train.x)).shape == (len(data.train), 2)
            else:
                with pytest.raises(SplitbenchError, match=f"'{data.name}' consists of .*; choose a model for"):
                    build_for(chosen, data)
