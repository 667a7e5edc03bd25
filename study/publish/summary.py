"""The end of a sweep: its table on the screen, table and figure on disk, and where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from study.analysis.inference import Facet
    from study.analysis.tables import Table
    from study.sweep.spec import Spec


def report_sweep(spec: Spec, out: Path, to: Path | None = None, latex: bool = False) -> None:
    """Print the comparison table of a sweep and write table and figure.

    Args:
        spec: the sweep.
        out: folder of the runs.
        to: folder for table.{csv,md,json} and figure.{svg,png,csv} (default: `out/report/<name of the sweep>`).
        latex: whether to write table.tex, too.

    Raises:
        InputError: a record cannot be used, or the folder cannot be written.
    """
    from study.analysis import prunings
    from study.analysis.figures import sweep as figure
    from study.errors import InputError
    from study.store import Store, is_results

    table, facets, _ = compared(spec, out)
    table.print()
    folder = to or out / "report" / spec.name
    written = {}
    try:
        written["table"] = table.write(folder, latex=latex)
        if prunings.compares(spec):
            written["figure"] = figure.write(facets, folder / "figure")
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror}). Name another folder with --out.") from None
    print()
    for what, paths in written.items():
        print(f"{what:<7} {paths[0].with_suffix('')}.{{{','.join(path.suffix[1:] for path in paths)}}}")
    runs = f"{Store(out).folder}/<arm>.json" if is_results(out) else f"{out}/<id>/"
    print(f"{'runs':<7} {runs}")


class Compared(NamedTuple):
    """The arms of a sweep, compared."""

    table: Table
    facets: list[Facet]
    frame: pd.DataFrame
    """One row for each declared run."""


def compared(spec: Spec, out: Path) -> Compared:
    """Return the comparison table of a sweep, and what is behind it.

    Raises:
        InputError: a record cannot be used.
    """
    from study.analysis.comparison import analyse, comparison_table, shown_metrics
    from study.analysis.runs import Runs
    from study.publish.reproduce import remarked
    from study.publish.store import Results
    from study.store import is_results

    frame = Runs(out).table(spec, shown_metrics(spec))
    facets = analyse(spec, frame)
    table = comparison_table(spec, frame, facets)
    if is_results(out) and (manifest := Results(out).manifests.get(spec.name)):
        table = remarked(table, manifest)
    return Compared(table, facets, frame)


def report_published(spec: Spec, root: Path) -> None:
    """Print the comparison table of a published sweep and write table and figure where `study reproduce` does.

    Raises:
        InputError: the sweep is not published, or a record cannot be used.
    """
    from study.analysis.runs import Runs
    from study.errors import InputError
    from study.publish.reproduce import write_comparison
    from study.publish.store import Results

    results = Results(root)
    if spec.name not in results.manifests:
        there = ", ".join(results.manifests) or "none"
        raise InputError(
            f"{spec.name}: expected a published sweep ({there}). `study publish {spec.path}` publishes it."
        )
    table, paths = write_comparison(results, results.manifests[spec.name], Runs(root))
    table.print()
    print()
    for path in paths:
        print(path)
