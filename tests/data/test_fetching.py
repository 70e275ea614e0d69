"""Downloads: checked, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest

from splitbench.core.data import Data
from splitbench.core.errors import SplitbenchError
from splitbench.core.progress import reporting
from splitbench.core.registry import load, names
from splitbench.data._download import fetch as _fetch
from splitbench.data._download.fetch import fetch
from splitbench.data._download.source import Source


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("published")


@pytest.fixture(scope="module")
def server(published) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(published))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def tar(members: dict[str, bytes], **links: str) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in links.items():
            member = tarfile.TarInfo(f"set/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return raw.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return raw.getvalue()


@pytest.fixture
def publish(published, server, monkeypatch):
    """A data set `thing` of one file, with whatever digest is claimed."""

    def publish(content: bytes, kind="file", place="set", digest=None, file="set/a.bin"):
        (published / "thing").write_bytes(content)

        class Thing(Data):
            files = (file if kind != "file" else place,)
            sources = (Source(f"{server}/thing", digest or f"md5:{hashlib.md5(content).hexdigest()}", place, kind),)

        monkeypatch.setattr(_fetch, "load", lambda kind, name: Thing)

    return publish


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_file_arrives_whole_and_says_how_far_it_is(tmp_path, publish, algorithm):
    content = bytes(range(256)) * 10_000
    publish(content, place="deep/set.bin", digest=f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}")
    told = []
    with reporting(lambda what, done, total, note: told.append((what, done, total))):
        path = fetch("thing", tmp_path / "new" / "folder")
    assert path.read_bytes() == content
    assert left(tmp_path) == ["new/folder/deep/set.bin"]
    assert told[-1] == ("fetching deep/set.bin", len(content), len(content))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert len(told) > 1


@pytest.mark.parametrize(("kind", "pack"), [("tar", tar), ("zip", zipped)])
def test_an_archive_is_unpacked_and_not_kept(tmp_path, publish, kind, pack):
    publish(pack({"set/a.bin": b"aaa", "set/deep/b.bin": b"b"}), kind)
    assert fetch("thing", tmp_path) == tmp_path / "set" / "a.bin"
    assert left(tmp_path) == ["set/a.bin", "set/deep/b.bin"]


def test_what_is_there_is_not_fetched_again(tmp_path, publish):
    publish(tar({"set/a.bin": b"aaa"}), "tar")
    fetch("thing", tmp_path)

    def never(url):
        raise AssertionError("asked the network")

    assert fetch("thing", tmp_path, never) == tmp_path / "set" / "a.bin"


def test_a_wrong_digest_is_refused_and_nothing_is_kept(tmp_path, publish):
    publish(b"tampered", digest=f"md5:{hashlib.md5(b'honest').hexdigest()}")
    with pytest.raises(SplitbenchError, match="thrown away") as error:
        fetch("thing", tmp_path)
    for content in (b"tampered", b"honest"):
        assert hashlib.md5(content).hexdigest() in str(error.value)
    assert left(tmp_path) == []


def test_a_download_cut_short_is_refused(tmp_path, publish):
    publish(b"x" * 100)

    class Short(io.BytesIO):
        headers = {"Content-Length": "100"}  # noqa: RUF012

    with pytest.raises(SplitbenchError, match="after 60 of 100 bytes"):
        fetch("thing", tmp_path, lambda url: Short(b"x" * 60))
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("tar", tar({"set/a.bin": b"a", "../escaped": b"x"})),
        ("tar", tar({"set/a.bin": b"a", "set/../../escaped": b"x"})),
        ("tar", tar({"set/a.bin": b"a"}, link="/etc")),
        ("tar", tar({"set/a.bin": b"a"}, link="../../..")),
        ("zip", zipped({"set/a.bin": b"a", "../escaped": b"x"})),
        ("zip", zipped({"set/a.bin": b"a", "set/../../escaped": b"x"})),
        ("zip", zipped({"set/a.bin": b"a", "/escaped": b"x"})),
        ("tar", tar({"set/a.bin": b"a" * 5000})[:-20]),
        ("zip", zipped({"set/a.bin": b"a" * 5000})[:-20]),
        ("tar", b"not an archive"),
        ("zip", b"not an archive"),
    ],
    # Archives hold the time, and tests that run side by side must have the same names.
    ids=lambda value: value if isinstance(value, str) else "archive",
)
def test_an_archive_that_reaches_outside_or_is_damaged_is_refused_and_nothing_is_kept(tmp_path, publish, kind, content):
    publish(content, kind)
    with pytest.raises(SplitbenchError, match="was not unpacked"):
        fetch("thing", tmp_path / "in" / "folder")
    assert left(tmp_path) == []


def test_an_absolute_name_in_a_tar_stays_inside(tmp_path, publish):
    """The standard library strips the leading slash; what matters is where the file lands."""
    publish(tar({"set/a.bin": b"a", f"{tmp_path}/escaped": b"x"}), "tar")
    fetch("thing", tmp_path / "folder")
    assert not (tmp_path / "escaped").exists()


def test_an_archive_of_something_else_is_refused(tmp_path, publish):
    publish(tar({"other/a.bin": b"a"}), "tar")
    with pytest.raises(SplitbenchError, match="held no 'set'"):
        fetch("thing", tmp_path)
    assert left(tmp_path) == []


def test_an_answer_of_the_server_is_passed_on(tmp_path, publish, published):
    publish(b"x")
    (published / "thing").unlink()
    with pytest.raises(SplitbenchError, match="cannot be had: 404 "):
        fetch("thing", tmp_path)


@pytest.mark.parametrize(
    "failure",
    [
        URLError(OSError(errno.ENETUNREACH, "Network is unreachable")),
        TimeoutError("timed out"),
        ConnectionResetError("reset"),
    ],
)
def test_without_a_network_it_says_what_to_do(tmp_path, publish, failure):
    publish(b"x")

    def fail(url):
        raise failure

    with pytest.raises(SplitbenchError, match=r"cannot be had: .*(unreachable|timed out|reset).*SPLITBENCH_DATA"):
        fetch("thing", tmp_path, fail)


def test_a_connection_that_breaks_off_midway_is_refused(tmp_path, publish):
    publish(b"x")

    class Breaks(io.BytesIO):
        headers: dict[str, str] = {}  # noqa: RUF012

        def read(self, size=-1):
            raise ConnectionResetError("reset by peer")

    with pytest.raises(SplitbenchError, match="reset by peer"):
        fetch("thing", tmp_path, lambda url: Breaks())
    assert left(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is a thing of Linux")
def test_a_full_disk_is_said_to_be_full(tmp_path, publish, monkeypatch):
    publish(b"x" * 100_000)
    original = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, mode="r", *a, **k: original(Path("/dev/full") if mode == "wb" else self, mode, *a, **k),
    )
    with pytest.raises(SplitbenchError, match=r"no room in .* MB free\); nothing was kept"):
        fetch("thing", tmp_path)
    assert left(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path, publish):
    publish(b"x")
    (tmp_path / "file").touch()
    with pytest.raises(SplitbenchError, match="file/folder cannot be written"):
        fetch("thing", tmp_path / "file" / "folder")


def test_celeba_gets_instructions_and_what_ships_needs_no_download(tmp_path):
    with pytest.raises(SplitbenchError, match=r"Google Drive.*img_align_celeba into .*/celeba") as error:
        fetch("celeba", tmp_path)
    assert str(tmp_path) in str(error.value)
    with pytest.raises(SplitbenchError, match="needs no download"):
        fetch("fashion_mnist_mini", tmp_path)
    with pytest.raises(SplitbenchError, match="no data set named 'cifar1O'; did you mean 'cifar10'"):
        fetch("cifar1O", tmp_path)


@pytest.mark.parametrize("name", names("data"))
def test_what_is_fetched_is_what_is_read(name):
    """Every source becomes something that the data set looks for, or one of the parts beside it."""
    component = load("data", name)
    sources = getattr(component, "sources", ())
    assert sources or name in ("celeba", "criteo", "fashion_mnist_mini")
    for source in sources:
        algorithm, _, digest = source.digest.partition(":")
        assert len(digest) == 2 * hashlib.new(algorithm).digest_size
        folder = source.place.split("/")[0]
        assert any(file.split("/")[0] == folder for file in component.files)
