"""Whatever the names and values are, every format stays what it is."""

from __future__ import annotations

import csv
import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.report.tables import render
from splitbench.report.tables.sheet import Sheet, Shown
from tests.report.test_paper_table import Heads

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@st.composite
def sheets(draw: st.DrawFn) -> Sheet:
    levels, across = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rows = draw(st.lists(st.tuples(*[text] * levels), min_size=1, max_size=4))
    columns = draw(st.lists(st.tuples(*[text] * across), min_size=1, max_size=4))
    cell = st.builds(Shown, text, st.booleans(), text)
    cells = tuple(tuple(draw(cell) for _ in columns) for _ in rows)
    records = tuple({"row": r[0], "note": draw(text), "keys": [draw(text)]} for r in rows)
    return Sheet(draw(text), draw(text), tuple(draw(text) for _ in range(levels)), tuple(rows), tuple(columns), cells,
                 tuple(draw(st.lists(text, max_size=2))), records)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(sheets())
def test_html_is_balanced_and_every_row_is_as_wide_as_the_table(sheet: Sheet) -> None:
    heads = Heads()
    heads.feed(render.html(sheet))
    assert not heads.open
    assert max(heads.widths) == len(sheet.corner) + len(sheet.columns)


@settings(max_examples=40, deadline=None)
@given(sheets())
def test_markdown_rows_have_their_columns(sheet: Sheet) -> None:
    lines = render.markdown(sheet).split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("| ---"))
    table = lines[begin - 1 : begin + 1 + len(sheet.rows)]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert bars == {1 + len(sheet.corner) + len(sheet.columns)}


@settings(max_examples=40, deadline=None)
@given(sheets())
def test_latex_is_balanced_and_has_no_character_that_tex_stops_at(sheet: Sheet) -> None:
    body = render.latex(sheet)
    bare = re.sub(r"\\[{}\\%&#$_]", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert all(c.isascii() or (c.isalpha() and c < "ſ") for c in body)
    assert body.count("\n  \\bottomrule\n") == 1


@settings(max_examples=40, deadline=None)
@given(sheets())
def test_csv_comes_back(sheet: Sheet) -> None:
    rows = list(csv.DictReader(io.StringIO(render.comma_separated(sheet), newline="")))
    assert [row["note"] for row in rows] == [record["note"].replace("\r", " ") for record in sheet.records]
