"""One table, formatted once: pandas writes its numbers as CSV and JSON, and its texts as HTML and LaTeX (booktabs)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from study.files import write

if TYPE_CHECKING:
    import pandas as pd
    from pandas.io.formats.style import Styler
    from rich.console import Console
    from rich.table import Table as RichTable

DECIMALS = 4
"""Numbers are rounded before they are written, so that machines agree to the byte."""
P_VALUES = ("p", "holm", "false_discovery")
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
    """One row: texts by column key, which of them are bold, the unrounded numbers for the CSV, and the runs behind."""

    cells: Mapping[str, str]
    bold: frozenset[str] = frozenset()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    runs: Sequence[str] = ()
    """Ids of the runs that the row is computed from."""


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

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The numbers, rounded to `DECIMALS`, p values to `DIGITS`, and `runs`: the ids of the runs behind each row."""
        import pandas as pd

        rows = [row for block in self.blocks for row in block.rows]
        frame = pd.DataFrame([dict(row.numbers) for row in rows])
        for name in frame:
            known = frame[name].dropna()
            if name in P_VALUES:
                frame[name] = [p if pd.isna(p) else float(f"{p:.{DIGITS}g}") for p in frame[name]]
            elif len(known) and all(type(row.numbers.get(str(name))) in (int, type(None)) for row in rows):
                frame[name] = frame[name].astype("Int64")  # whole numbers stay whole where some are missing
        if any(row.runs for row in rows):
            frame["runs"] = [" ".join(dict.fromkeys(row.runs)) for row in rows]
        return frame.round({name: DECIMALS for name in frame if name not in P_VALUES}).replace("", None)

    def csv(self) -> str:
        """The numbers, one line a row."""
        return self.frame.to_csv(index=False, lineterminator="\n")

    def records_json(self) -> str:
        """Return the numbers as a JSON list with an object per row, with the columns of the CSV as keys."""
        return self.frame.to_json(orient="records", force_ascii=False, indent=1) + "\n"

    def html(self) -> str:
        """Return the texts as HTML, a table per block, notes below."""
        lines = [f"<p><strong>{escape(self.title)}</strong></p>"]
        for block in self.blocks:
            lines += [f"<p><em>{escape(block.head)}</em></p>"] if block.head else []
            styled = self._styled(block, "html")
            for column in self.columns:
                styled = styled.set_properties([column.head], **{"text-align": column.align})
            lines.append(styled.to_html())
        return "\n".join([*lines, *(f"<p><small>{escape(note)}</small></p>" for note in self.notes)]) + "\n"

    _repr_html_ = html
    """A notebook shows the texts."""

    def latex(self) -> str:
        """A `tabular` per block for the booktabs package, notes below."""
        shape, lines = "".join(column.align[0] for column in self.columns), []
        for block in self.blocks:
            lines += [rf"\par\emph{{{block.head.translate(LATEX)}}}", ""] if block.head else []
            table = self._styled(block, "latex").to_latex(column_format=shape, hrules=True, convert_css=True)
            lines.append(table.translate(MARKS))
        return "\n".join([*lines, *(rf"\par{{\footnotesize {note.translate(LATEX)}}}" for note in self.notes)]) + "\n"

    def _texts(self, block: Block) -> pd.DataFrame:
        import pandas as pd

        keys = [column.key for column in self.columns]
        texts = [[row.cells[key] for key in keys] for row in block.rows]
        return pd.DataFrame(texts, columns=[column.head for column in self.columns])

    def _styled(self, block: Block, escape: Literal["html", "latex"]) -> Styler:
        import pandas as pd

        texts = self._texts(block)
        weights = [["font-weight: bold" * (c.key in row.bold) for c in self.columns] for row in block.rows]
        bold = pd.DataFrame(weights, texts.index, texts.columns)
        return (
            texts.style.hide(axis="index")
            .format(escape=escape)
            .format_index(escape=escape, axis="columns")
            .apply(lambda _: bold, axis=None)
        )

    def json(self) -> str:
        """Return the texts, for documents that lay them out themselves."""
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
        lines, right = [f"**{self.title}**"], [escaped(c.head) for c in self.columns if c.align == "right"]
        for block in self.blocks:
            texts = self._texts(block).map(escaped).rename(columns=escaped)
            for column, name in zip(self.columns, texts, strict=True):
                bold = (column.key in row.bold for row in block.rows)
                texts[name] = [f"**{text}**" if b else text for text, b in zip(texts[name], bold, strict=True)]
            lines += ["", f"*{escaped(block.head)}*"] if block.head else []
            lines += ["", markdown(texts, right)]
        return "\n".join([*lines, *(f"\n{escaped(note)}" for note in self.notes)]) + "\n"

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
        """Return the width that the texts of each column need."""
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


def _room(widths: Sequence[int]) -> int:
    """Return the width of columns side by side."""
    return sum(widths) + GAP * (len(widths) - 1)


def _folded(text: str, column: Column) -> str:
    return text.replace(column.fold, f"{column.fold.rstrip()}\n") if column.fold else text


def markdown(texts: pd.DataFrame, right: Collection[str] = ()) -> str:
    """A GitHub table of texts that are Markdown already.

    `DataFrame.to_markdown` pads every column to its longest text, so that one new text changes every line.

    Args:
        texts: one row for each row.
        right: the columns that line up on the right.
    """
    lines: list[Any] = [
        list(texts),
        ["--:" if name in right else "---" for name in texts],
        *texts.itertuples(index=False),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """Return a text whose marks are no Markdown."""
    return re.sub(r"([\\*_|<`\[\]])", r"\\\1", text)


MARKS = str.maketrans(
    {
        "−": "$-$",
        "±": r"$\pm$",
        "†": r"\textdagger{}",
        "‡": r"\textdaggerdbl{}",
        "–": "--",
        "—": "---",
        "Δ": r"$\Delta$",
    }
    | {"√": r"$\surd$", "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "·": r"$\cdot$", "…": r"\dots{}"}
)
"""Characters that pdfLaTeX does not know."""
LATEX = MARKS | str.maketrans(
    {mark: rf"\{mark}" for mark in "_%&#${}"}
    | {"<": "$<$", ">": "$>$", "|": r"\textbar{}", "\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}"}
)
"""The same, and characters that LaTeX reads as its own."""
