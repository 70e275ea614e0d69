r"""A table in LaTeX, to be put into any document with \usepackage{booktabs}; a wide one needs graphicx as well."""

from __future__ import annotations

import unicodedata

from splitbench.report.tables.sheet import HasSheet, Sheet, Shown, first_of_group, spans

_LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': "''",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "–": "--",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "§": r"$\S$",
    "…": r"\ldots{}",
    "\u00a0": "~",
    "’": "'",
    "“": "``",
    "”": "''",
    **{
        letter: f"$\\{name}$"
        for letter, name in {
            "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "μ": "mu",
            "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega", "Ω": "Omega", "Δ": "Delta",
        }.items()
    },
}  # fmt: skip
_MANY = 8  # columns, from which on they are made to fit the line


def text(value: str) -> str:
    return "".join(map(_character, value.replace("\n", " ")))


def _character(c: str) -> str:
    if c in _LATEX:
        return _LATEX[c]
    if c.isascii():
        return c if c.isprintable() else " "
    # What TeX's own fonts have, it also reads; anything else would stop it.
    plain = unicodedata.normalize("NFD", c)
    return c if len(plain) == 2 and plain[0].isascii() and plain[0].isalpha() and c < "ſ" else f"[U+{ord(c):04X}]"


def latex(shown: HasSheet) -> str:
    sheet = shown.sheet()
    caption = ". ".join(part for part in (sheet.title, sheet.caption) if part)
    wide = len(sheet.columns) >= _MANY
    kinds = r">{\raggedright\arraybackslash}p{0.19\linewidth}" if sheet.prose else "r"
    packages = ["booktabs", *(["graphicx"] if wide else []), *(["array"] if sheet.prose else [])]
    lines = [
        rf"% needs \usepackage{{{','.join(packages)}}}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{text(caption)}}}",
        *([r"  \resizebox{\linewidth}{!}{%"] if wide else []),
        *([r"  \scriptsize"] if sheet.prose else []),
        rf"  \begin{{tabular}}{{{'l' * len(sheet.corner)}{kinds * len(sheet.columns)}}}",
        r"  \toprule",
        *_heads(sheet),
        r"  \midrule",
        *_body(sheet),
        r"  \bottomrule",
        r"  \end{tabular}" + ("}" if wide else ""),
    ]
    lines += [rf"  \par\smallskip{{\footnotesize\raggedright {text(note)}\par}}" for note in sheet.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _heads(sheet: Sheet) -> list[str]:
    levels = len(sheet.columns[0]) if sheet.columns else 1
    first = len(sheet.corner)
    lines = []
    for level in range(levels):
        last = level == levels - 1
        corner = [text(name) if last else "" for name in sheet.corner]
        groups = spans(sheet.columns, level)
        heads = [text(name) if last else rf"\multicolumn{{{count}}}{{c}}{{{text(name)}}}" for name, count in groups]
        lines.append("  " + " & ".join([*corner, *heads]) + r" \\")
        if not last:
            at, rules = first + 1, []
            for _, count in groups:
                rules.append(rf"\cmidrule(lr){{{at}-{at + count - 1}}}")
                at += count
            lines.append("  " + " ".join(rules))
    return lines


def _body(sheet: Sheet) -> list[str]:
    def cell(value: Shown) -> str:
        return (rf"\textbf{{{text(value.text)}}}" if value.bold else text(value.text)) + text(value.after)

    lines = []
    for i, row in enumerate(sheet.rows):
        names = [text(name) if first_of_group(sheet.rows, i, level) else "" for level, name in enumerate(row)]
        if (len(row) > 1 or sheet.prose) and i and first_of_group(sheet.rows, i, 0):
            lines.append(r"  \addlinespace")
        lines.append("  " + " & ".join([*names, *map(cell, sheet.cells[i])]) + r" \\")
    return lines
