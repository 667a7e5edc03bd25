"""Comparison table of one sweep, printed, and written with its figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from study.errors import InputError
from study.store import is_results

if TYPE_CHECKING:
    from study.analysis.comparison import Compared
    from study.analysis.runs import Runs
    from study.publish.results import PublishedSweep
    from study.sweep.spec import Spec


def report_sweep(spec: Spec, out: Path, to: Path | None = None) -> None:
    """Print the comparison table of a sweep and write table and figure.

    Args:
        spec: the sweep.
        out: folder of the runs, or a results folder.
        to: folder for table.{csv,md} and figure.{svg,png,csv} (default: `out/report/<name of the sweep>`; of published
            runs the table that `study reproduce` writes, and no figure).

    Raises:
        InputError: a record cannot be used, the sweep is not published, or the folder cannot be written.
    """
    from study.analysis.comparison import compares
    from study.analysis.figures import sweep
    from study.analysis.runs import Runs
    from study.publish.results import Results

    found = compared(spec, Runs(out))
    if is_results(out) and to is None:
        if spec.name not in (known := Results(out).manifests):
            there = f"sweep: expected a published sweep ({', '.join(known) or 'none'}), got {spec.name}."
            raise InputError(f"{there} `study publish {spec.path}` publishes it.")
        folder, name, figure = out / "tables", spec.name, False
    else:
        folder, name, figure = to or out / "report" / spec.name, "table", compares(spec)
    found.table.print()
    try:
        paths = found.table.write(folder, name)
        paths += sweep.write(found.facets, folder / "figure") if figure else []
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror}). Name another folder with --out.") from None
    print("\n".join(["", *map(str, paths)]))


def compared(spec: Spec, runs: Runs) -> Compared:
    """Return the comparison of a sweep; its notes begin with what was said when the sweep was published.

    Raises:
        InputError: a record cannot be used.
    """
    from study.analysis.comparison import compare_arms
    from study.publish.results import Results

    found = compare_arms(spec, runs)
    published = Results(runs.folder).manifests if runs.folder and is_results(runs.folder) else {}
    return remarked(found, published.get(spec.name))


def remarked(found: Compared, manifest: PublishedSweep | None) -> Compared:
    """Return the comparison with what was said when the sweep was published before its notes."""
    notes = []
    if manifest and manifest.partial:
        notes.append(f"Published in part, with runs missing or failed: {manifest.partial.reason}.")
    if manifest and len(manifest.code) > 1:
        states = ", ".join(f"{code.runs} runs of {code.state}" for code in manifest.code)
        notes.append(f"The code that decides numbers was changed between these runs, under one protocol: {states}.")
    return found._replace(table=replace(found.table, notes=[*notes, *found.table.notes]))
