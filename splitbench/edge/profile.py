"""The answer: what a case costs each party, and whether a device can do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from splitbench.edge import roofline
from splitbench.edge.case import Case
from splitbench.edge.device import Device
from splitbench.edge.memory import Peak
from splitbench.edge.operation import COMPONENTS, Component, Operation, Who
from splitbench.edge.roofline import Range
from splitbench.edge.step import Step, take_step
from splitbench.edge.traffic import Traffic, Volumes, volumes

KEPT = 0.5  # of the peak of small blocks: between a fifth and three quarters in what --measure showed, by glibc
MEMORY_FACTOR = 1.1  # what operators borrow inside themselves, and what KEPT is off by


@dataclass(frozen=True)
class Share:
    """What one component of one party costs in a step."""

    party: Who
    component: Component
    parameters: int
    forward: int  # MACs
    backward: int
    memory: int  # bytes at the party's peak
    seconds: float | None  # on the device; none for a party that is not on it
    joules: float | None


@dataclass(frozen=True)
class Profile:
    case: Case
    device: Device
    step: Step

    @cached_property
    def volumes(self) -> Volumes:
        return volumes(self.case, self.step.scene, self.step.traffic)

    @cached_property
    def operations(self) -> list[Operation]:
        """Of the client, which is what runs on the device."""
        return self.step.operations("client")

    @cached_property
    def peak(self) -> Peak:
        return self.step.trace.ledger.peak("client")

    @cached_property
    def shares(self) -> list[Share]:
        found = [self._share("client", component) for component in COMPONENTS]
        parties: list[Who] = ["server", "mixer"]
        others = [self._share(party, part) for party in parties for part in COMPONENTS if self._works(party, part)]
        return [
            share for share in found if share.component == "layers" or self._works("client", share.component)
        ] + others

    def _works(self, party: Who, component: Component) -> bool:
        return any(op.owner.component == component for op in self.step.operations(party))

    def _share(self, party: Who, component: Component) -> Share:
        mine = [op for op in self.step.operations(party) if op.owner.component == component]
        macs = {phase: sum(op.macs for op in mine if op.phase == phase) for phase in ("forward", "backward")}
        time = roofline.seconds(mine, self.device) if party == "client" else None
        return Share(
            party,
            component,
            self.step.scene.models[0].parameters(party) if component == "layers" else 0,
            macs["forward"],
            macs["backward"],
            self.step.trace.ledger.peak(party).components[component],
            time,
            None if time is None else roofline.joules(time, 0.0, self.device),
        )

    # -- the device ------------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> int:
        """Bytes of a process that has loaded what the network needs, and done nothing."""
        loaded = [
            self.device.runtime["torch"],
            *(self.device.runtime[p] for p in self.device.runtime if p in self._packages),
        ]
        return round(max(figure.value for figure in loaded))

    @property
    def _packages(self) -> frozenset[str]:
        return self.step.scene.packages

    @property
    def kept(self) -> int:
        """Bytes that were freed and that the allocator keeps for later."""
        return round(KEPT * self.peak.heap)

    @property
    def resident(self) -> int:
        return self.runtime + self.peak.total + self.kept

    @property
    def memory(self) -> Range:
        return Range(self.resident, MEMORY_FACTOR)

    @property
    def fits(self) -> bool:
        return self.memory.high <= self.device.available

    def _seconds(self, phases: Sequence[str]) -> float:
        return roofline.seconds((op for op in self.operations if op.phase in phases), self.device)

    @cached_property
    def forward(self) -> float:
        return self._seconds(("forward",))

    @cached_property
    def backward(self) -> float:
        """With the update of the weights."""
        return self._seconds(("backward", "update"))

    @property
    def computing(self) -> float:
        return self.forward + self.backward

    @property
    def link(self) -> float:
        return self.link_of(self.step.traffic)

    def link_of(self, traffic: Traffic) -> float:
        return roofline.link_seconds(traffic.up, traffic.down, self.device)

    @property
    def seconds(self) -> Range:
        """One step of one client: computing and the wire; the server is not waited for."""
        return Range(self.computing + self.link, self.device.uncertainty.value)

    @property
    def joules(self) -> Range:
        return Range(roofline.joules(self.computing, self.link, self.device), self.device.uncertainty.value)

    @property
    def steps(self) -> float:
        """Of one client in a round, a smaller last batch as the part of a step that it is."""
        return self.case.sizes[0] / self.case.batch

    @property
    def round_seconds(self) -> Range:
        # Every step has its own messages, and so its own latency.
        transfer = self.link_of(self.volumes.round) + (self.steps - 1) * 2 * self.device.latency.value
        return Range(self.computing * self.steps + max(0.0, transfer), self.device.uncertainty.value)

    @property
    def round_joules(self) -> Range:
        computing = self.computing * self.steps
        whole = roofline.joules(computing, self.round_seconds.value - computing, self.device)
        return Range(whole, self.device.uncertainty.value)

    def record(self) -> dict[str, Any]:
        """One flat row: what Parquet, CSV and comparisons hold."""
        client = [share for share in self.shares if share.party == "client"]
        by = {share.component: share for share in client}
        row: dict[str, Any] = {"device": self.device.name, **self.case.document()}
        row |= {"client_parameters": sum(s.parameters for s in client)}
        row |= {"server_parameters": sum(s.parameters for s in self.shares if s.party == "server")}
        for component in COMPONENTS:
            share = by.get(component)
            row |= {
                f"{component}_macs_forward": share.forward if share else 0,
                f"{component}_macs_backward": share.backward if share else 0,
                f"{component}_seconds": share.seconds if share else 0.0,
            }
        row |= {
            "macs_forward": sum(s.forward for s in client),
            "macs_backward": sum(s.backward for s in client),
            "server_macs_forward": sum(s.forward for s in self.shares if s.party == "server"),
            "server_macs_backward": sum(s.backward for s in self.shares if s.party == "server"),
        }
        row |= {f"memory_{use}": size for use, size in self.peak.uses.items()}
        row |= {
            "memory_runtime": self.runtime,
            "memory_kept": self.kept,
            "memory_peak": self.peak.total,
            "memory_resident": self.resident,
        }
        for name in ("step", "round", "epoch"):
            traffic: Traffic = getattr(self.volumes, name)
            row |= {f"bytes_up_{name}": traffic.up, f"bytes_down_{name}": traffic.down}
        row |= {
            "seconds_forward": self.forward,
            "seconds_backward": self.backward,
            "seconds_link": self.link,
            "seconds_step": self.seconds.value,
            "seconds_round": self.round_seconds.value,
            "joules_step": self.joules.value,
            "joules_round": self.round_joules.value,
            "uncertainty": self.device.uncertainty.value,
            "fits": self.fits,
            "note": self.step.note,
        }
        return row


def profile(case: Case, device: Device) -> Profile:
    return Profile(case, device, take_step(case))
