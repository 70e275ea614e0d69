"""What holds for a metric by its being in the folder."""

from __future__ import annotations

import pytest

from splitbench.core import registry
from splitbench.core.component import settings_of, validated
from splitbench.core.metric import Metric


@pytest.mark.parametrize("name", registry.names("metrics"))
def test_a_metric_declares_its_contract(name):
    metric = registry.load("metrics", name)
    assert issubclass(metric, Metric)
    assert (metric.__doc__ or "").strip().split("\n")[0].endswith((".", ":"))
    assert metric.goal in ("inputs", "labels", "membership", "attributes")
    assert metric.modality in (None, "image", "text", "tabular")
    assert metric.leaks_when in ("high", "low")
    low, high = metric.bounds
    assert low < high
    settings, mistakes = validated(metric, {}, name)
    assert not mistakes
    assert settings.keys() == settings_of(metric).keys()


def test_the_folder_holds_the_metrics_of_the_papers():
    assert {"mse", "psnr", "ssim", "accuracy", "mcc"} <= set(registry.names("metrics"))
