"""Comparison table of one sweep, printed, and written with its figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from study.errors import InputError
from study.folders import is_results

if TYPE_CHECKING:
    from study.analysis.comparison import Compared
    from study.analysis.runs import Runs
    from study.sweep.spec import Spec


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
