"""Device files: each figure has a source, and a broken file is told whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from splitbench.core.errors import SplitbenchError
from splitbench.edge import device as devices

NAMES = ("rpi4", "rpi4_2gb", "rpi4_4gb", "rpi5", "rpi_zero2", "jetson_nano", "jetson_orin_nano", "phone", "laptop")
KINDS = ("http", "derived:", "estimated:", "measured:", "SEAL", "The Official")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPLITBENCH_DEVICES", str(tmp_path / "devices"))
    return tmp_path / "devices"


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_every_device_has_a_source(name: str) -> None:
    device = devices.load(name)
    assert device.name == name
    figures = [value for _, value in device if hasattr(value, "source")] + list(device.runtime.values())
    assert len(figures) == 16
    assert all(figure.source.startswith(KINDS) for figure in figures)
    # A guess is called one, and whoever cites an address has something to show there.
    assert all(
        "estimated" in f.source
        or "derived" in f.source
        or "http" in f.source
        or "SEAL" in f.source
        or "Guide" in f.source
        for f in figures
    )


def test_the_papers_board() -> None:
    rpi4 = devices.load("rpi4")
    assert rpi4.memory.value == 8e9
    assert rpi4.peak.value == 4 * 1.5e9 * 4
    assert devices.load("rpi4_2gb").peak == rpi4.peak
    assert devices.load("rpi4_2gb").memory.value == 2e9
    assert {*NAMES, "local"} == set(devices.names())


def test_an_unknown_device_is_told_the_nearest_name() -> None:
    with pytest.raises(SplitbenchError, match="no device named 'rpi44'; did you mean 'rpi4'"):
        devices.load("rpi44")
    with pytest.raises(SplitbenchError, match="no device file 'nowhere"):
        devices.load("nowhere.yaml")
    with pytest.raises(SplitbenchError, match="--calibrate"):
        devices.load("local")


def test_a_broken_file_is_told_every_mistake_with_its_line(tmp_path: Path) -> None:
    good = Path(devices.__file__).parent / "devices" / "rpi4.yaml"
    lines = good.read_text().splitlines()
    peak, idle, active = (lines.index(f"{key}:") for key in ("peak", "idle", "active"))
    lines[peak + 1] = "  value: -3"
    lines[idle + 2] = ""  # its source
    lines[active] = "actve:"
    lines[lines.index("bandwidth:") + 1] = "  value: .nan"
    broken = tmp_path / "mine.yaml"
    broken.write_text("\n".join([*lines, "speeds: {convv: {product: 1}}"]))
    with pytest.raises(SplitbenchError) as caught:
        devices.load(str(broken))
    text = str(caught.value)
    assert text.startswith(str(broken))
    for said in (
        f"peak.value (line {peak + 2})",
        f"idle.source (line {idle + 1})",
        f"actve (line {active + 1})",
        "did you mean 'active'?",
        "did you mean 'conv'?",
        "bandwidth.value",
        "6 mistakes",
    ):
        assert said in text, said


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "name: [", "name: x\nname: y\n", "like: rpi9\n"])
def test_what_is_no_device_is_a_mistake_and_no_crash(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(SplitbenchError):
        devices.load(str(path))


def test_a_file_of_ones_own_works_by_path_and_by_name(elsewhere: Path, tmp_path: Path) -> None:
    own = {"name": "mine", "title": "my board", "like": "rpi4", "memory": {"value": 1e9, "source": "measured: free -b"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(own))
    assert devices.load(str(tmp_path / "mine.yaml")).memory.value == 1e9
    elsewhere.mkdir()
    (elsewhere / "mine.yaml").write_text(yaml.safe_dump(own))
    assert devices.load("mine").title == "my board"
    assert "mine" in devices.names()
