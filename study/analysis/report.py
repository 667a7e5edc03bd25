"""Comparison tables of sweeps, printed, and written with their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from study import files
from study.analysis.tables import Table
from study.errors import InputError
from study.folders import is_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from study.analysis.comparison import Compared
    from study.analysis.runs import Runs
    from study.sweep.spec import Spec

TABLES = {".tex": Table.latex, ".md": Table.markdown, ".csv": Table.csv}
PICTURES = (".svg", ".pdf", ".png")
"""Endings of files with a table, and with a figure."""


def report_sweep(spec: Spec, out: Path, to: Path | None = None) -> None:
    """Print the comparison table of a sweep and write table and figure.

    Args:
        spec: the sweep.
        out: folder of the runs, or a results folder.
        to: folder for table.{csv,md} and figure.{svg,csv} (default: `report/<name of the sweep>`, below `out` for own
            runs).

    Raises:
        InputError: a record cannot be used, or the sweep is not published.
        OSError: the folder cannot be written.
    """
    from study.analysis.comparison import compares
    from study.analysis.figures import style, sweep
    from study.analysis.runs import Runs

    if to is None and any((out / "report" / name).is_symlink() for name in ("", spec.name)):
        raise InputError(f"{out / 'report'}: expected a folder without links, got a link. Remove it, or give --out.")
    comparison = compared(spec, Runs(out))
    folder = to or (Path() if is_results(out) else out) / "report" / spec.name
    comparison.table.print()
    paths = comparison.table.write(folder)
    if compares(spec):
        facets = comparison.facets
        paths += style.write(sweep.draw(facets), sweep.points(facets), folder / "figure")
    print("\n".join(["", *map(str, paths)]))


def report_file(specs: Sequence[Spec], out: Path, to: Path | None) -> None:
    """Print sweeps as one table, and write it or their figure, by the ending of the file.

    Args:
        specs: the sweeps.
        out: folder of the runs, or a results folder.
        to: the file; None: nothing is written.

    Raises:
        InputError: a record cannot be used, a sweep is not published or named twice, or the ending is another one.
        OSError: the file cannot be written.
    """
    from study.analysis.figures import style
    from study.analysis.runs import Runs

    if to and to.suffix not in (*TABLES, *PICTURES):
        raise InputError(f"--out: expected a file that ends in {', '.join([*TABLES, *PICTURES])}, got {to}.")
    comparison = together(specs, Runs(out))
    picture = figure(specs, comparison) if to and to.suffix in PICTURES else None
    comparison.table.print()
    if to and picture:
        style.write_picture(picture, to)
    elif to:
        files.write(to, TABLES[to.suffix](comparison.table))
    print(f"\n{to}" if to else "")


def figure(specs: Sequence[Spec], comparison: Compared) -> Figure:
    """Return the figure of sweeps: every run a dot, with the intervals of the table.

    Raises:
        InputError: a sweep asks a question of single models, such as which heads can go.
    """
    from study.analysis.comparison import compares
    from study.analysis.figures import sweep

    for spec in specs:
        if not compares(spec):
            raise InputError(f"{spec.name}: expected arms to compare, got single models. See `study report --figures`.")
    return sweep.draw(comparison.facets)


def together(specs: Sequence[Spec], runs: Runs) -> Compared:
    """Return the comparisons of sweeps as one, for a paper; see `paper_table.join`.

    Raises:
        InputError: see `compared`; or two sweeps have one name.
    """
    from study.analysis.paper_table import join

    comparisons = {spec.name: compared(spec, runs) for spec in specs}
    if len(comparisons) < len(specs):
        raise InputError(f"SWEEP: expected sweeps of different names, got {', '.join(spec.name for spec in specs)}.")
    return join(comparisons)


def compared(spec: Spec, runs: Runs) -> Compared:
    """Return the comparison of a sweep; its notes begin with what was said when the sweep was published.

    Raises:
        InputError: a record cannot be used, or the runs are published and this sweep is not.
    """
    from study.analysis.comparison import compare_arms
    from study.store.manifest import Results

    if not is_results(runs.folder):
        return compare_arms(spec, runs)
    manifests = Results(runs.folder).manifests
    if spec.name not in manifests:
        expected = f"sweep: expected a published sweep ({', '.join(manifests) or 'none'}), got {spec.name}."
        raise InputError(f"{expected} `study publish {spec.path}` publishes it.")
    comparison = compare_arms(spec, runs)
    published = manifests[spec.name]
    notes: list[str] = []
    if published.partial:
        notes.append(f"Published in part, with runs missing or failed: {published.partial.reason}.")
    if len(published.code) > 1:
        states = ", ".join(f"{code.runs} runs of {code.state}" for code in published.code)
        notes.append(f"The code that decides numbers was changed between these runs, under one protocol: {states}.")
    table = comparison.table
    return comparison._replace(table=replace(table, notes=[*notes, *table.notes]))
