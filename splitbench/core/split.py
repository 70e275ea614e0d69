"""A network cut into stages with owners."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.party import Party


@dataclass(frozen=True)
class SplitModel:
    """Stages in the order data flows, and whose each is: client, server; or client, server, client for a U."""

    stages: tuple[nn.Module, ...]
    owners: tuple[Party, ...]

    def joined(self, x: Tensor) -> Tensor:
        """The same network, uncut: what every exchange must equal."""
        for stage in self.stages:
            x = stage(x)
        return x

    def owned_by(self, role: str) -> list[nn.Module]:
        return [stage for stage, owner in zip(self.stages, self.owners, strict=True) if owner.role == role]

    def parameters(self, role: str) -> int:
        return sum(p.numel() for stage in self.owned_by(role) for p in stage.parameters())

    def train(self, mode: bool = True) -> None:
        for stage in self.stages:
            stage.train(mode)

    def eval(self) -> None:
        self.train(False)


class _Outline(fx.Tracer):
    """Traces only the modules that contain a cut; all others stay whole, so their control flow is not touched."""

    def __init__(self, cuts: Sequence[str]) -> None:
        super().__init__(autowrap_functions=(_one_tensor,))  # a stage may be cut once more
        self.cuts = cuts

    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return not any(cut.startswith(name + ".") for cut in self.cuts)


def cut(network: nn.Module, after: Sequence[str]) -> tuple[nn.Module, ...]:
    """The network as stages, cut after the named submodules. No parameters are copied or renamed."""
    names = dict(network.named_modules())
    for name in after:
        if name not in names or not name:
            raise SplitbenchError(f"no submodule named '{name}' to cut after{nearest(name, names)}")
    graph = _outline(network, after)
    ends = [_only_call(graph, name) for name in after]
    order = list(graph.nodes)
    for earlier, later in itertools.pairwise(ends):
        if order.index(earlier) >= order.index(later):
            raise SplitbenchError(
                f"cannot cut after '{earlier.target}' and then after '{later.target}': "
                "name the cuts in the order data flows, each once"
            )
    output = next(node for node in graph.nodes if node.op == "output")
    stages: list[nn.Module] = []
    starts: list[fx.Node | None] = [None, *ends]
    for begin, end in zip(starts, [*ends, output], strict=True):
        stages.append(_stage(network, graph, begin, end))
    _assert_owned_once(stages)
    return tuple(stages)


def _outline(network: nn.Module, after: Sequence[str]) -> fx.Graph:
    mode = network.training
    # A network has one input here; what else its forward takes (an attention mask) keeps its default.
    _, *options = inspect.signature(network.forward).parameters.values()
    defaults = {option.name: option.default for option in options if option.default is not option.empty}
    graphs: list[fx.Graph] = []
    try:
        for training in (False, True):
            network.train(training)
            graphs.append(_Outline(after).trace(network, concrete_args=defaults))
    except (TypeError, fx.proxy.TraceError, AttributeError, RuntimeError, AssertionError) as error:
        raise SplitbenchError(
            f"{type(network).__name__} cannot be cut after {', '.join(after)}: its forward cannot be followed "
            f"({error}). Cut at a submodule of the outermost module, or wrap the network in nn.Sequential."
        ) from error
    finally:
        network.train(mode)
    evaluating, graph = graphs
    if str(evaluating) != str(graph):
        raise SplitbenchError(
            f"{type(network).__name__}.forward decides by self.training outside a submodule, which a cut would "
            "freeze; put that step (dropout, usually) into a submodule."
        )
    return graph


def _only_call(graph: fx.Graph, name: str) -> fx.Node:
    calls: list[fx.Node] = [node for node in graph.nodes if node.op == "call_module" and node.target == name]
    if len(calls) != 1:
        raise SplitbenchError(f"cannot cut after '{name}': the network uses it {len(calls)} times, not once")
    return calls[0]


def _stage(network: nn.Module, graph: fx.Graph, begin: fx.Node | None, end: fx.Node) -> nn.Module:
    """The part of the graph that `end` depends on, up to `begin`, whose value arrives from the stage before."""
    wanted: set[fx.Node] = set()
    waiting = [end]
    while waiting:
        node = waiting.pop()
        if node in wanted or node is begin:
            continue
        wanted.add(node)
        waiting.extend(node.all_input_nodes)
    part = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    if begin is not None:
        copies[begin] = part.placeholder("smashed")
    for node in graph.nodes:
        if node not in wanted or node.op == "output":
            continue
        if node.op == "placeholder":
            if begin is not None:
                raise SplitbenchError(
                    f"cannot cut after '{begin.target}': something flows around it to later layers "
                    "(a skip connection or a size read from the input)"
                )
            if copies:
                continue  # an option, held at its default
        copies[node] = part.node_copy(node, lambda n: copies[n])
    if end.op == "output":
        if not isinstance(end.args[0], fx.Node):
            raise SplitbenchError(f"{type(network).__name__} returns several things; it must return one tensor")
        part.output(copies[end.args[0]])
    else:
        part.output(part.call_function(_one_tensor, (copies[end], str(end.target))))
    stage = fx.GraphModule(network, part, class_name="Stage")
    if begin is not None:
        _work_out_of_place(stage, copies[begin])
    return stage


def _one_tensor(smashed: object, cut: str) -> Tensor:
    """What a layer returns is known only when it runs; a wire carries one tensor."""
    if not isinstance(smashed, Tensor):
        raise SplitbenchError(
            f"cannot cut after '{cut}': it returns a {type(smashed).__name__}, and only one tensor can cross a cut; "
            "choose a layer before or after it"
        )
    return smashed


def _work_out_of_place(stage: nn.Module, received: fx.Node) -> None:
    """What was received is a leaf and still belongs to the sender: the first layer must not write into it."""
    for user in received.users:
        if user.op == "call_module":
            for module in stage.get_submodule(str(user.target)).modules():
                if getattr(module, "inplace", False):
                    module.inplace = False  # type: ignore[assignment]


def _assert_owned_once(stages: Sequence[nn.Module]) -> None:
    seen: set[int] = set()
    for stage in stages:
        mine = {id(p) for p in stage.parameters()}
        if mine & seen:
            shared = [name for name, p in stage.named_parameters() if id(p) in seen]
            raise SplitbenchError(f"both sides of the cut use {', '.join(shared)}; a parameter has one owner")
        seen |= mine


def same_network(stages: Sequence[nn.Module]) -> SplitModel:
    """Stages with alternating owners, beginning with the client."""
    roles = ("client", "server")
    return SplitModel(tuple(stages), tuple(Party(roles[i % 2]) for i in range(len(stages))))  # type: ignore[arg-type]


@torch.no_grad()
def output_shape(stage: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> tuple[int, ...]:
    """The shape of one sample's smashed data."""
    mode = stage.training
    stage.eval()
    where = next((tensor.device for tensor in (*stage.parameters(), *stage.buffers())), torch.device("cpu"))
    z = stage(torch.zeros(1, *shape, dtype=dtype, device=where))
    stage.train(mode)
    return tuple(z.shape[1:])
