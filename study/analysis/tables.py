"""One table, formatted once, written as CSV (numbers), Markdown, LaTeX (booktabs), JSON (texts) and for a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from study.files import write

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table as RichTable

DECIMALS = 4
"""Numbers are rounded before they are written, so that machines agree to the byte."""
P_VALUES = ("p", "holm", "model p")
DIGITS = 3
"""Columns of p values keep so many significant digits instead, and with them their exponents."""

GAP = 2
"""Blanks between columns in a terminal."""
FEWEST = 3
"""Columns that are printed however narrow the terminal is."""


@dataclass(frozen=True)
class Column:
    """One column: the key of its cells, its heading, the side on which it lines up, and where its texts may break."""

    key: str
    head: str
    align: Literal["left", "right"] = "right"
    fold: str | None = None
    """In a narrow terminal a text may break after this."""


@dataclass(frozen=True)
class Row:
    """One row: texts by column key, which of them are bold, and the unrounded numbers for the CSV."""

    cells: Mapping[str, str]
    bold: frozenset[str] = frozenset()
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Rows that belong together; the heading may be empty."""

    head: str
    rows: Sequence[Row]
    fields: str = ""
    """The heading by names of fields; empty if it is the same."""


@dataclass(frozen=True)
class Table:
    """A formatted table. Notes are what a reader must know to read it, and are part of every rendering."""

    title: str
    columns: Sequence[Column]
    blocks: Sequence[Block]
    notes: Sequence[str] = ()

    def write(self, folder: Path, stem: str = "table", latex: bool = False) -> list[Path]:
        """Write the table as .csv, .md, .json and, on request, .tex; the paths written."""
        texts = {"csv": self.csv, "md": self.markdown, "json": self.json} | ({"tex": self.latex} if latex else {})
        for suffix, text in texts.items():
            write(folder / f"{stem}.{suffix}", text())
        return [folder / f"{stem}.{suffix}" for suffix in texts]

    def csv(self) -> str:
        """The numbers, one line a row, rounded to `DECIMALS`, p values to `DIGITS`."""
        import pandas as pd

        numbers = [dict(row.numbers) for block in self.blocks for row in block.rows]
        rows = pd.DataFrame(numbers)
        for name in rows:  # whole numbers stay whole where some are missing
            if all(type(row.get(str(name))) in (int, type(None)) for row in numbers) and rows[name].notna().any():
                rows[name] = rows[name].astype("Int64")
        for name in P_VALUES:
            if name in rows:
                rows[name] = [p if pd.isna(p) else f"{p:.{DIGITS}g}" for p in rows[name]]
        return rows.round(DECIMALS).to_csv(index=False, lineterminator="\n")

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers, with the columns of the CSV."""
        import io

        import pandas as pd

        text = self.csv()
        if not text.strip():  # no row
            return pd.DataFrame()
        return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])

    def records_json(self) -> str:
        """Return the numbers as a JSON list with an object per row, with the columns of the CSV as keys."""
        return self.frame.to_json(orient="records", force_ascii=False, indent=1) + "\n"

    def html(self) -> str:
        """The texts as HTML, a table per block, notes below."""
        lines = [f"<p><strong>{escape(self.title)}</strong></p>"]
        for block in self.blocks:
            lines += [f"<p><em>{escape(block.head)}</em></p>"] if block.head else []
            heads = "".join(f'<th style="text-align: {c.align}">{escape(c.head)}</th>' for c in self.columns)
            lines.append(f"<table><thead><tr>{heads}</tr></thead><tbody>")
            for row in block.rows:
                texts = zip(self.columns, self._texts(row, escape, "<strong>{}</strong>"), strict=True)
                cells = "".join(f'<td style="text-align: {c.align}">{text}</td>' for c, text in texts)
                lines.append(f"<tr>{cells}</tr>")
            lines.append("</tbody></table>")
        return "\n".join([*lines, *(f"<p><small>{escape(note)}</small></p>" for note in self.notes)]) + "\n"

    _repr_html_ = html
    """A notebook shows the texts."""

    def json(self) -> str:
        """The texts, for documents that lay them out themselves."""
        tree = {
            "title": self.title,
            "columns": [{"key": c.key, "head": c.head, "align": c.align} for c in self.columns],
            "blocks": [
                {
                    "head": block.head,
                    "fields": block.fields or block.head,
                    "rows": [
                        {"cells": dict(row.cells), "bold": sorted(row.bold), "fields": self._fields(row)}
                        for row in block.rows
                    ],
                }
                for block in self.blocks
            ],
            "notes": list(self.notes),
        }
        return json.dumps(tree, ensure_ascii=False, indent=1) + "\n"

    def _fields(self, row: Row) -> str:
        """Return the name of a row by names of fields, which documents find it by."""
        return str(row.numbers.get("arm") or row.numbers.get("contrast") or row.cells[self.columns[0].key])

    def markdown(self) -> str:
        """A GitHub table per block, notes below."""
        rule = ["---" if column.align == "left" else "--:" for column in self.columns]
        lines = [f"**{self.title}**"]
        for block in self.blocks:
            lines += ["", f"*{_markdown(block.head)}*"] if block.head else []
            lines += ["", _pipes(_markdown(column.head) for column in self.columns), _pipes(rule)]
            lines += [_pipes(self._texts(row, _markdown, "**{}**")) for row in block.rows]
        return "\n".join([*lines, *(f"\n{_markdown(note)}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        r"""A `tabular` for the booktabs package; rows end in `\tabularnewline`, so that no text reads as its option."""
        width = len(self.columns)
        lines = [rf"\begin{{tabular}}{{@{{}}{''.join(c.align[0] for c in self.columns)}@{{}}}}", r"\toprule"]
        lines.append(_ampersands(_latex(column.head) for column in self.columns))
        for block in self.blocks:
            lines.append(r"\midrule")
            if block.head:
                lines.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{\emph{{{_latex(block.head)}}}}} \tabularnewline")
            lines += [_ampersands(self._texts(row, _latex, r"\textbf{{{}}}")) for row in block.rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *(rf"\par{{\footnotesize {_latex(note)}}}" for note in self.notes)]) + "\n"

    def print(self, file: IO[str] | None = None, width: int | None = None) -> None:
        """Print the table to a terminal, or as plain text of 100 columns.

        If the terminal is narrow, the first column stands on lines of its own above the others. If it is narrower
        still, columns are left out from the right, and a line names them. No number is folded.
        """
        from rich.console import Console
        from rich.text import Text

        console = Console(file=file, width=width, highlight=False)
        if width is None and not console.is_terminal:
            console = Console(file=file, width=100, highlight=False)
        console.print(Text(self.title, style="bold"))
        stacked = _room(self._widths()) > console.width
        shown = self
        while stacked and _room(shown._widths()[1:]) + GAP > console.width and len(shown.columns) > FEWEST:
            shown = replace(shown, columns=shown.columns[:-1])
        shown._print(console, stacked)
        if left := [column.head for column in self.columns[len(shown.columns) :]]:
            console.print(Text(f"Not shown in {console.width} columns: {', '.join(left)}.", style="dim"))
        for note in self.notes:
            console.print(Text(note, style="dim"))

    def _print(self, console: Console, stacked: bool) -> None:
        """Print head, rule and rows. Stacked: the first column above the others."""
        from rich.padding import Padding
        from rich.text import Text

        columns, indent = self.columns[stacked:], GAP * stacked
        widths = self._widths()[stacked:]
        console.print(Padding(self._grid(columns, widths, show_header=True), (0, 0, 0, indent)))
        console.print("─" * (_room(widths) + indent))
        for i, block in enumerate(self.blocks):
            if block.head:
                console.print(Text(f"{chr(10) if i else ''}{block.head}", style="italic"))
            grid = self._grid(columns, widths, show_header=False)
            for row in block.rows:
                styled = [(_folded(row.cells[c.key], c), "bold" if c.key in row.bold else "") for c in columns]
                grid.add_row(*(Text(text, style=style) for text, style in styled))
                if stacked:
                    console.print(Text(row.cells[self.columns[0].key]))
                    console.print(Padding(grid, (0, 0, 0, indent)))
                    grid = self._grid(columns, widths, show_header=False)
            if not stacked:
                console.print(grid)
        console.print()

    def _widths(self) -> list[int]:
        """Width that the texts of each column need."""
        widths = []
        for column in self.columns:
            texts = [row.cells[column.key] for block in self.blocks for row in block.rows]
            parts = [part for text in texts for part in (text.split(column.fold) if column.fold else [text])]
            comma = len((column.fold or "").rstrip())
            widths.append(max([*map(len, column.head.split()), *(len(part) + comma for part in parts)]))
        return widths

    @staticmethod
    def _grid(columns: Sequence[Column], widths: Sequence[int], show_header: bool) -> RichTable:
        from rich.table import Table as RichTable

        grid = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=show_header)
        for column, width in zip(columns, widths, strict=True):
            grid.add_column(column.head, justify=column.align, width=width, overflow="fold")
        return grid

    def _texts(self, row: Row, escape: Any, bold: str) -> list[str]:
        texts = ((column.key, escape(row.cells[column.key])) for column in self.columns)
        return [bold.format(text) if key in row.bold else text for key, text in texts]


def _room(widths: Sequence[int]) -> int:
    """Width of columns side by side."""
    return sum(widths) + GAP * (len(widths) - 1)


def _folded(text: str, column: Column) -> str:
    return text.replace(column.fold, f"{column.fold.rstrip()}\n") if column.fold else text


def _pipes(texts: Any) -> str:
    return f"| {' | '.join(texts)} |"


def _ampersands(texts: Any) -> str:
    return rf"{' & '.join(texts)} \tabularnewline"


def _markdown(text: str) -> str:
    for mark in "\\*_|<`[]":
        text = text.replace(mark, f"\\{mark}")
    return text


LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {mark: rf"\{mark}" for mark in "_%&#$"} | {
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "−": "$-$",
    "±": r"$\pm$",
}
LATEX |= {"†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "Δ": r"$\Delta$", "–": "--", "—": "---", "√": r"$\surd$"}
LATEX |= {"≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "·": r"$\cdot$", "…": r"\dots{}"}


def _latex(text: str) -> str:
    return "".join(LATEX.get(mark, mark) for mark in text)
