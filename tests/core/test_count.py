"""MACs equal what can be derived by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from splitbench.core import count
from splitbench.core.count import Counter, self_test
from splitbench.core.errors import SplitbenchError
from splitbench.edge.operation import Operation
from splitbench.edge.step import take_step
from tests.edge._cases import case


def macs(operations: list[Operation], component: str = "layers") -> dict[str, int]:
    mine = [op for op in operations if op.owner.component == component]
    return {phase: sum(op.macs for op in mine if op.phase == phase) for phase in ("forward", "backward")}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (1, 2), (4, 1)])
def test_a_convolution(device: str, groups: int, stride: int) -> None:
    layer = nn.Conv2d(4, 8, 3, stride=stride, padding=1, groups=groups, bias=False).to(device)
    x = torch.ones(2, 4, 6, 6, device=device, requires_grad=True)
    with Counter() as forward:
        y = layer(x)
    by_hand = 2 * 8 * (6 // stride) ** 2 * (4 // groups) * 3 * 3
    assert forward.macs == by_hand
    with Counter() as backward:
        y.sum().backward()
    assert backward.macs == 2 * by_hand  # one for the slope of the weights, one for that of the input


def test_a_linear_layer() -> None:
    layer, x = nn.Linear(5, 7), torch.ones(3, 5, requires_grad=True)
    with Counter() as forward:
        y = layer(x)
    with Counter() as backward:
        y.sum().backward()
    assert (forward.macs, backward.macs) == (3 * 5 * 7, 2 * 3 * 5 * 7)


@pytest.mark.parametrize("grad", [True, False])
def test_attention_fused_or_not_with_and_without_gradients(grad: bool) -> None:
    q, k = torch.ones(2, 3, 10, 8, requires_grad=grad), torch.ones(2, 3, 14, 8)
    with torch.set_grad_enabled(grad), Counter() as counter:
        F.scaled_dot_product_attention(q, k, k)
    assert counter.macs == 2 * 3 * 10 * 14 * 8 * 2


def test_a_fourier_transform_by_its_butterflies() -> None:
    with Counter() as complex_:
        torch.fft.fft(torch.ones(3, 8, dtype=torch.complex64))
    assert complex_.macs == 3 * (8 // 2) * 3 * 4  # lines, butterflies in each of log2(8) stages, real products in each
    with Counter() as real:
        torch.fft.rfft(torch.ones(3, 8))
    assert real.macs == complex_.macs // 2
    with Counter() as plane:
        torch.fft.fft2(torch.ones(16, 8, dtype=torch.complex64))
    assert plane.macs == 8 * (16 // 2) * 4 * 4 + 16 * (8 // 2) * 3 * 4


def test_a_permutation_and_a_sort_move_and_do_not_multiply() -> None:
    x = torch.rand(32, 16)
    with Counter() as counter:
        x[torch.randperm(32)].sort(dim=1)
    assert counter.macs == 0


def test_seal_is_two_separable_transforms_and_back() -> None:
    step = take_step(case("lenet5", "conv1", "seal", batch=4))
    maps, height, width = 4 * 6, 28, 28
    products = 2 * maps * (height * height * width + height * width * width)
    found = macs(step.operations(), "defense")
    # The energy of each map, and that of the first 64 coefficients one by one.
    assert found["forward"] == products + maps * (height * width + 64)
    assert found["backward"] == products


def test_the_first_layer_owes_nobody_a_slope() -> None:
    found = macs(take_step(case("resnet18", "stem", shape="3x32x32", batch=2)).operations())
    assert found["forward"] == found["backward"] == 2 * 64 * 16 * 16 * 3 * 7 * 7


@pytest.mark.parametrize(
    ("model", "cut", "billions"), [("resnet18", "stem", 1.814), ("vit_base_patch16_224", "patch_embed", 17.56)]
)
def test_published_counts_at_224(model: str, cut: str, billions: float) -> None:
    step = take_step(case(model, cut, shape="3x224x224", classes=1000, batch=1))
    whole = sum(op.macs for op in step.trace.operations if op.phase == "forward")
    assert whole / 1e9 == pytest.approx(billions, abs=0.005)


def test_torch_counts_the_same_where_it_has_a_formula() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    x = torch.rand(2, 3, 8, 8)
    with FlopCounterMode(display=False) as theirs, Counter() as ours:
        layers(x).sum().backward()
    assert 2 * ours.macs == theirs.get_total_flops()


def test_thop_agrees_on_convolutions_and_misses_attention() -> None:
    from splitbench.edge.thop_count import difference, thop_macs

    pytest.importorskip("thop")
    for model, cut, shape, differs in (("lenet5", "conv1", "1x28x28", False), ("vit_tiny", "block1", "3x32x32", True)):
        step = take_step(case(model, cut, shape=shape, batch=2))
        ours, theirs = macs(step.operations())["forward"], thop_macs(step.scene, 2)
        assert theirs is not None
        assert bool(difference(ours, theirs)) == differs


def test_a_torch_that_hides_attention_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    self_test.cache_clear()
    hidden = {k: v for k, v in count._OWN.items() if "attention" not in k}
    monkeypatch.setattr(count, "_OWN", hidden)
    monkeypatch.setattr(count, "flop_registry", {})
    with pytest.raises(SplitbenchError, match="cannot be counted: 0 MACs forward"):
        self_test()
    monkeypatch.undo()
    self_test.cache_clear()
    self_test()
