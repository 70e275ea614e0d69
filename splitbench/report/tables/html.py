"""A table in HTML, with heads that a screen reader can follow. Names and values are escaped."""

from __future__ import annotations

from html import escape

from splitbench.report.tables.sheet import HasSheet, Sheet, first_of_group, spans


def html(shown: HasSheet) -> str:
    sheet = shown.sheet()
    title = f"<strong>{escape(sheet.title)}</strong><br>" if sheet.title else ""
    lines = [
        '<table class="splitbench">',
        f"<caption>{title}{escape(sheet.caption)}</caption>",
        "<thead>",
        *_heads(sheet),
        "</thead>",
        "<tbody>",
        *_body(sheet),
        "</tbody>",
        "</table>",
    ]
    if sheet.notes:
        lines += ['<ul class="notes">', *(f"<li>{escape(note)}</li>" for note in sheet.notes), "</ul>"]
    return "\n".join(lines) + "\n"


def _heads(sheet: Sheet) -> list[str]:
    levels = len(sheet.columns[0]) if sheet.columns else 1
    down = f' rowspan="{levels}"' if levels > 1 else ""
    lines = []
    for level in range(levels):
        corner = [f'<th scope="col"{down}>{escape(name)}</th>' for name in sheet.corner] if level == 0 else []
        heads = [
            f'<th scope="col">{escape(name)}</th>'
            if level == levels - 1
            else f'<th scope="colgroup" colspan="{count}">{escape(name)}</th>'
            for name, count in spans(sheet.columns, level)
        ]
        lines.append("<tr>" + "".join([*corner, *heads]) + "</tr>")
    return lines


def _body(sheet: Sheet) -> list[str]:
    counts: list[dict[int, int]] = []
    for level in range(len(sheet.corner)):
        at, begins = 0, {}
        for _, count in spans(sheet.rows, level):
            begins[at] = count
            at += count
        counts.append(begins)
    lines = []
    for i, row in enumerate(sheet.rows):
        cells = []
        for level, name in enumerate(row):
            if first_of_group(sheet.rows, i, level):
                count = counts[level][i]
                down = f' scope="rowgroup" rowspan="{count}"' if count > 1 else ' scope="row"'
                cells.append(f"<th{down}>{escape(name)}</th>")
        for c in sheet.cells[i]:
            own = f"<strong>{escape(c.text)}</strong>" if c.bold else escape(c.text)
            cells.append(f"<td>{own}{escape(c.after)}</td>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return lines
