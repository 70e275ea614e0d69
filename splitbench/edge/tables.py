"""Profiles as grids to print."""

from __future__ import annotations

from collections.abc import Sequence

from splitbench.edge.measure import Measured
from splitbench.edge.memory import USES
from splitbench.edge.operation import Operation
from splitbench.edge.profile import Profile
from splitbench.edge.roofline import seconds_of
from splitbench.edge.units import between, count, duration, energy, size

Rows = tuple[tuple[str, ...], ...]
Sheet = tuple[str, tuple[str, ...], Rows]  # title, columns, rows


def heading(profile: Profile) -> str:
    case = profile.case
    who = f"{case.clients} clients" if case.clients > 1 else "1 client"
    shape = " x ".join(map(str, case.shape))
    return (
        f"{case.document()['model']} cut at {case.cut} · {case.defense} · {case.work} · batch {case.batch} · "
        f"{shape} · {case.topology.name}, {who} · {profile.device.title}"
    )


def verdict(profile: Profile) -> str:
    """The answer in a sentence."""
    device, memory = profile.device, profile.memory
    needs = f"{size(memory.value)} of the {size(device.available)} that are free"
    if not profile.fits:
        return f"does not fit {device.name}: {profile.case.work} needs {needs}"
    step = f"a step takes {between(profile.seconds)}, {duration(profile.link)} of it on the wire"
    rounds = f"a round {duration(profile.round_seconds.value)} and {energy(profile.round_joules.value)}"
    return f"fits {device.name}: {profile.case.work} needs {needs}; {step}; {rounds}"


def sheets(profile: Profile) -> list[Sheet]:
    return [_work(profile), _memory(profile), _traffic(profile)]


def _work(profile: Profile) -> Sheet:
    rows = [
        (
            f"{share.party} {share.component}",
            count(share.parameters) if share.parameters else "–",
            count(share.forward),
            count(share.backward),
            size(share.memory),
            duration(share.seconds) if share.seconds is not None else "–",
            energy(share.joules) if share.joules is not None else "–",
        )
        for share in profile.shares
    ]
    columns = ("per step", "parameters", "MACs forward", "MACs backward", "peak memory", "time", "energy")
    return heading(profile), columns, tuple(rows)


def _memory(profile: Profile) -> Sheet:
    rows: list[tuple[str, ...]] = [(use, size(profile.peak.uses[use])) for use in USES]
    rows += [("peak of tensors", size(profile.peak.total)), ("freed but kept", size(profile.kept))]
    rows += [("Python and torch", size(profile.runtime))]
    rows += [("resident", between(profile.memory, size)), ("free on the device", size(profile.device.available))]
    return "Peak memory of the client", ("", "bytes"), tuple(rows)


def _traffic(profile: Profile) -> Sheet:
    rows = []
    for name, what in (("step", "per step"), ("round", "per round"), ("epoch", "per epoch, all clients")):
        traffic = getattr(profile.volumes, name)
        time, joules = "–", "–"
        if name == "step":
            time, joules = between(profile.seconds), between(profile.joules, energy)
        if name == "round":
            time, joules = between(profile.round_seconds), between(profile.round_joules, energy)
        rows.append((what, size(traffic.up), size(traffic.down), time, joules))
    return "Traffic, time and energy of the client", ("", "up", "down", "time", "energy"), tuple(rows)


def side_by_side(profiles: Sequence[Profile], axes: Sequence[str]) -> Sheet:
    """One row per case, named by what differs between them or by the axes asked for."""
    documents = [profile.case.document() | {"device": profile.device.name} for profile in profiles]
    names = list(axes) or [key for key in documents[0] if len({str(d[key]) for d in documents}) > 1] or ["model"]
    rows = [
        (
            " · ".join(str(document[name]) for name in names),
            count(row["client_parameters"]),
            count(row["macs_forward"]),
            count(row["macs_backward"]),
            size(row["memory_peak"]),
            size(row["memory_resident"]),
            size(row["bytes_up_step"]),
            size(row["bytes_down_step"]),
            between(profile.seconds),
            energy(row["joules_step"]),
            "yes" if row["fits"] else "no",
        )
        for profile, document in zip(profiles, documents, strict=True)
        for row in (profile.record(),)
    ]
    columns = (" · ".join(names), "client parameters", "MACs forward", "MACs backward", "peak of tensors", "resident",
               "up", "down", "per step", "energy", "fits")  # fmt: skip
    common = [
        str(value) for key, value in documents[0].items() if key not in names and key in ("model", "cut", "device")
    ]
    return f"A client's step side by side · {' · '.join(common)}", columns, tuple(rows)


def layers(profile: Profile) -> Sheet:
    """What the client spends where, in the order in which modules are first used."""
    found: dict[str, list[Operation]] = {}
    for op in profile.operations:
        name = op.owner.path if op.owner.component == "layers" else op.owner.component
        found.setdefault(name or op.name, []).append(op)
    rows = []
    for name, ops in found.items():
        kinds = sorted({op.kind.removesuffix("_backward") for op in ops if op.macs}) or sorted({op.kind for op in ops})
        time = sum(seconds_of(op, profile.device) for op in ops)
        macs = [sum(op.macs for op in ops if op.phase == phase) for phase in ("forward", "backward")]
        rows.append((name, ", ".join(kinds), *map(count, macs), size(sum(op.bytes for op in ops)), duration(time)))
    columns = ("module", "kind", "MACs forward", "MACs backward", "bytes moved", "time")
    return "Where the client spends it", columns, tuple(rows)


def predicted_and_measured(
    pairs: Sequence[tuple[Profile, Measured, Measured]], axes: Sequence[str]
) -> tuple[str, tuple[str, ...], Rows, tuple[str, ...]]:
    """Of each case: what was predicted, and that divided by what was measured."""
    rows = []
    for profile, real, frugal in pairs:
        document = profile.case.document()
        both = [(profile.forward, real.forward), (profile.backward, real.backward)]
        used = frugal.resident - frugal.before
        rows.append(
            (
                " · ".join(str(document[name]) for name in ("model", "cut", "defense")),
                *(f"{duration(p)} / {duration(m)} = {p / m:.2f}" if m else "–" for p, m in both),
                f"{profile.computing / real.seconds:.2f}",
                f"{size(profile.peak.total)} / {size(used)} = {profile.peak.total / max(used, 1):.2f}",
                f"{size(profile.resident)} / {size(real.resident)} = {profile.resident / real.resident:.2f}",
            )
        )
    ratios = [profile.computing / real.seconds for profile, real, _ in pairs]
    each = [r for p, m, _ in pairs for r in (p.forward / m.forward, p.backward / m.backward if m.backward else 1.0)]
    fine = sum(all(0.7 <= r <= 1.3 for r in each[2 * i : 2 * i + 2]) for i in range(len(pairs)))
    memory = [profile.resident / real.resident for profile, real, _ in pairs]
    notes = (
        f"{fine} of {len(pairs)} within 30 % forward and backward, "
        f"{sum(0.7 <= r <= 1.3 for r in ratios)} over the whole step; "
        f"{sum(0.9 <= r <= 1.1 for r in memory)} resident sets within 10 %",
        "measured: the shortest of a client's steps in a fresh process whose allocator keeps what is freed, processor "
        "time if on one thread",
        "tensors: beside the growth of a process that gives freed memory back at once",
    )
    columns = ("predicted / measured", "forward", "backward", "step", "tensors", "resident")
    device = pairs[0][0].device
    return f"A client's step, predicted and measured · {device.title}", columns, tuple(rows), notes
