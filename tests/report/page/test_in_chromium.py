"""The page in a browser: silent, alone, and doing what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from splitbench.report.page.page import report
from tests.report.page import _chromium
from tests.report.page._store import GAUSSIAN, attack, small, spec, train

pytestmark = pytest.mark.skipif(_chromium.binary() is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    small(folder)
    for defenses in ((), (GAUSSIAN[1.0],)):
        run = spec(*defenses, dataset="mnist")
        train(folder, run)
        attack(folder, run, "mean_image", 0.1, bar=0.0)
        attack(folder, run, "inversion", 0.9)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report(folder).html, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_chromium.Page]:
    opened = _chromium.Page(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def visible(page: _chromium.Page, selector: str) -> int:
    count = page.ask(f"[...document.querySelectorAll({selector!r})].filter(e => e.offsetParent).length")
    return int(count)


OUTSIDE = """
[...document.querySelectorAll("svg text")].filter(text => {
  const own = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
  return own.left < all.left - 8 || own.right > all.right + 8 || own.top < all.top - 8 || own.bottom > all.bottom + 8;
}).map(text => text.textContent)
"""  # eight pixels: fonts differ


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_silent_asks_nothing_of_a_network_and_fits(
    page: _chromium.Page, html: Path, width: int, dark: bool
) -> None:
    page.open(html, width, dark=dark)
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("data:")] == [html.as_uri()]
    assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    assert page.ask(OUTSIDE) == []
    background = page.ask("getComputedStyle(document.body).backgroundColor")
    red = int(background.removeprefix("rgb(").split(",")[0])
    assert (red < 60) == dark


def test_the_galleries_show(page: _chromium.Page, html: Path) -> None:
    page.open(html)
    loaded = page.ask(
        "Promise.all([...document.images].map(i => { i.loading = 'eager'; return i.decode().then(() => "
        "i.naturalWidth > 0 && i.clientWidth > 0, () => false); }))"
    )
    assert len(loaded) == 9  # three defenses: originals, recovered, undefended
    assert all(loaded)


def test_filters_hide_what_is_of_another_kind_and_give_it_back(page: _chromium.Page, html: Path) -> None:
    page.open(html)
    before = visible(page, ".pair"), visible(page, ".run"), visible(page, ".plot-card")
    choose = (
        "(name, value) => { const s = document.querySelector(`select[name=${name}]`); s.value = value;"
        "s.dispatchEvent(new Event('change', {bubbles: true})); }"
    )
    page.ask(f"({choose})('dataset', 'mnist')")
    assert visible(page, ".pair") == 1
    assert visible(page, ".run") == 2
    assert 0 < visible(page, ".plot-card") < before[2]
    assert "1 galleries and 2 runs" in page.ask("document.getElementById('filtered').textContent")
    page.ask(f"({choose})('dataset', '')")
    page.ask(f"({choose})('defense', 'gaussian(sigma=2)')")
    assert visible(page, ".pair") == 1
    assert page.ask("document.querySelectorAll('.mark.dim').length") > 0
    assert page.ask("[...document.querySelectorAll('.mark.dim')].every(m => m.dataset.defense !== 'gaussian(sigma=2)')")
    page.ask("document.querySelector('button[type=reset]').click()")
    page.ask("new Promise(done => setTimeout(done, 50))")
    assert (visible(page, ".pair"), visible(page, ".run"), visible(page, ".plot-card")) == before
    assert page.complaints == []


def test_a_mark_says_what_it_is_under_the_pointer(page: _chromium.Page, html: Path) -> None:
    page.open(html)
    assert visible(page, "#tip") == 0
    page.hover("#price .mark[data-defense='gaussian(sigma=2)'] .dot")
    assert page.ask("document.getElementById('tip').hidden") is False
    assert "gaussian(sigma=2): accuracy 0.700" in page.ask("document.getElementById('tip').textContent")


def test_the_switch_turns_dark_to_light_and_back(page: _chromium.Page, html: Path) -> None:
    page.open(html)
    shown = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(shown)
    page.ask("document.getElementById('theme').click()")
    assert page.ask(shown) != light
    page.open(html)  # it is kept
    assert page.ask(shown) != light
    page.ask("document.getElementById('theme').click()")
    assert page.ask(shown) == light
    page.ask("localStorage.clear()")


def test_the_keyboard_reaches_everything_that_does_something(page: _chromium.Page, html: Path) -> None:
    page.open(html)
    seen = set()
    for _ in range(60):
        page.press("Tab")
        seen.add(page.ask("document.activeElement.id || document.activeElement.name || document.activeElement.tagName"))
    assert {"theme", "dataset", "defense", "attack", "A", "SUMMARY", "DIV"} <= seen


def test_on_paper_it_is_light_and_without_controls(page: _chromium.Page, html: Path) -> None:
    page.open(html, dark=True)
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    page.do("Emulation.setEmulatedMedia", media="print", features=[scheme])
    assert visible(page, ".filters") == visible(page, "nav") == 0
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.do("Emulation.setEmulatedMedia", media="", features=[])
