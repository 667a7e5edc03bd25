"""One table, formatted once: its numbers as CSV, its texts as Markdown, LaTeX, in a terminal and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import latex
from study.errors import shown
from study.files import write

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text

DECIMALS = 4
"""Numbers are rounded before they are written, so that machines agree to the byte."""
SMALL = ("p", "holm", "false_discovery", "learning_rate")
DIGITS = 3
"""Columns of small numbers keep so many significant digits instead, and with them their exponents."""
LEFT = ("arm", "family", "conclusion")
"""Columns of texts. They line up on the left and may fold; others line up on the right."""


@dataclass(frozen=True)
class Row:
    """One row: texts by column key, which of them are bold, and the unrounded numbers for the CSV.

    Attributes:
        block: heading of the rows with which it stands together; may be empty.
        numbers: by column of the CSV; the last one has the ids of the runs behind the row.
    """

    cells: Mapping[str, str]
    block: str = ""
    bold: frozenset[str] = frozenset()
    numbers: Mapping[Any, Any] = field(default_factory=dict)

    def markdown(self, key: str) -> str:
        """Return one of its texts as Markdown."""
        text = escaped(self.cells[key])
        return f"**{text}**" if key in self.bold else text

    def latex(self, key: str) -> str:
        """Return one of its texts as LaTeX."""
        text = latex.escaped(self.cells[key])
        return rf"\textbf{{{text}}}" if key in self.bold else text

    def rich(self, key: str) -> Text:
        """Return one of its texts for a terminal."""
        from rich.text import Text

        return Text(shown(self.cells[key]), "bold" if key in self.bold else "")


@dataclass(frozen=True)
class Table:
    """A formatted table. Notes are what a reader must know to read it, and are part of every rendering.

    Attributes:
        columns: key of the cells ↦ heading.
        rows: those of one block stand one after another.
    """

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def write(self, folder: Path, stem: str = "table") -> list[Path]:
        """Write the table as .csv and .md; the paths written."""
        texts = {folder / f"{stem}.csv": self.csv(), folder / f"{stem}.md": self.markdown()}
        for path, text in texts.items():
            write(path, text)
        return list(texts)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The numbers of all rows; see `rounded`."""
        return rounded([row.numbers for row in self.rows])

    def csv(self) -> str:
        """The numbers, one line a row."""
        return as_csv(self.frame)

    def markdown(self) -> str:
        """Return a GitHub table per block, notes below. A notebook shows it."""
        import pandas as pd

        heads = list(map(escaped, self.columns.values()))
        right = [head for key, head in zip(self.columns, heads, strict=True) if key not in LEFT]
        title = shown(self.title).replace("<", "\\<")
        lines = [f"**{title}**"]
        for block, rows in groupby(self.rows, attrgetter("block")):
            if block:
                lines += ["", f"*{escaped(block)}*"]
            texts = [list(map(row.markdown, self.columns)) for row in rows]
            lines += ["", markdown(pd.DataFrame(texts, columns=heads), right)]
        for note in self.notes:
            lines += ["", escaped(note)]
        return "\n".join(lines) + "\n"

    _repr_markdown_ = markdown

    def latex(self) -> str:
        """Return a `tabular` for LaTeX with the package booktabs: a heading for each block, and the notes below."""
        columns = "".join("l" if key in LEFT else "r" for key in self.columns)
        heads = " & ".join(map(latex.heading, self.columns.values(), columns))
        lines = [f"% {latex.escaped(self.title)}", r"% Needs \usepackage{booktabs}."]
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", heads + r" \\"]
        for block, rows in groupby(self.rows, attrgetter("block")):
            lines.append(r"\midrule")
            if block:
                lines.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{latex.escaped(block)}}}}} \\")
            lines += [" & ".join(map(row.latex, self.columns)) + r" \\" for row in rows]
        notes = "\n\n".join(map(latex.escaped, self.notes))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", "", rf"{{\footnotesize {notes}\par}}", ""])

    def print(self) -> None:
        """Print the table to a terminal, or as text of 100 columns. Texts on the left are folded, numbers are not."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
        for key, head in self.columns.items():
            words = [*head.split(), *(row.cells[key] for row in self.rows)]
            least = None if key in LEFT else max(map(len, words))
            grid.add_column(head, justify="left" if key in LEFT else "right", width=least, overflow="fold")
        for block, rows in groupby(self.rows, attrgetter("block")):
            if block:
                grid.add_row(Text(f"\n{shown(block)}", style="italic"))
            for row in rows:
                grid.add_row(*map(row.rich, self.columns))
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 100
        wide = console.options.update(width=1000)
        if console.measure(grid, options=wide).minimum > console.width:
            grid.padding = (0, 0, 0, 0)
        console.width = max(console.width, console.measure(grid, options=wide).minimum)
        notes = (Text(shown(note), style="dim") for note in self.notes)
        console.print(Text(shown(self.title), style="bold"), grid, "", *notes, sep="\n")


def rounded(rows: Sequence[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as a table, rounded to `DECIMALS`, p values to `DIGITS`. Whole numbers stay whole, empty texts go."""
    import pandas as pd

    frame = pd.DataFrame(list(map(dict, rows)))
    for name in frame:
        if name in SMALL:
            frame[name] = [p if pd.isna(p) else float(f"{p:.{DIGITS}g}") for p in frame[name]]
        elif {type(row.get(str(name))) for row in rows} in ({int}, {int, type(None)}):
            frame[name] = frame[name].astype("Int64")  # whole numbers stay whole where some are missing
    return frame.round(dict.fromkeys(frame.columns.drop([*SMALL], errors="ignore"), DECIMALS)).replace("", None)


def as_csv(frame: pd.DataFrame) -> str:
    """Return a table as it is written."""
    return frame.to_csv(index=False, lineterminator="\n")


def markdown(texts: pd.DataFrame, right: Collection[str] = ()) -> str:
    """A GitHub table of texts that are Markdown already.

    `DataFrame.to_markdown` pads every column to its longest text, so that one new text changes every line.

    Args:
        texts: one row for each row.
        right: the columns that line up on the right.
    """
    lines: list[Any] = [list(texts), ["--:" if name in right else "---" for name in texts]]
    lines += texts.itertuples(index=False)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(text: str) -> str:
    """Return a text whose marks are no Markdown, and whose control characters can be seen."""
    return re.sub(r"([\\*_|<`\[\]])", r"\\\1", shown(text))
