"""Comparison table of one sweep, printed, and written with its figure."""

from __future__ import annotations

from collections.abc import Sequence
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
    from study.tracking.reports import Question


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


def questions(runs: Path, sweeps: Path, asked: Sequence[str]) -> list[Question]:
    """Return what reports in W&B show of sweeps: verdicts and comparison.

    Args:
        runs: folder of the records.
        sweeps: folder of the sweep files.
        asked: names of sweeps, or sweep files; none: all that have records.

    Raises:
        InputError: there is no such sweep, or a record cannot be used.
    """
    from study.analysis.comparison import compare_arms, compares
    from study.analysis.figures import style
    from study.analysis.figures import sweep as figure
    from study.analysis.runs import Runs
    from study.claims import costs, schema, table
    from study.claims.evaluate import evaluate
    from study.tracking.reports import Question

    found = Runs(runs, sweeps)
    specs = [found.spec(name) for name in asked or sorted(file.stem for file in sweeps.glob("*.yaml"))]
    there = set(found.store.ids() if found.store else ())
    measured = costs.read(runs / "benchmarks" if is_results(runs) else None)
    verdicts = evaluate(schema.read_all(), found, measured, by_score=True)
    made = []
    for spec in (spec for spec in specs if any(cell.id in there for cell in spec.runnable)):
        own = [one for one in verdicts if one.question.sweep == spec.name]
        lines = [
            f"**{one.claim.statement}** {row.cells['asked']}: "
            f"**{row.cells['verdict']}{', fragile' * bool(one.other_outcomes)}** ({row.cells['finding']}). "
            f"{row.cells['contrast']}: {row.cells['estimate']}, 95% CI {row.cells['interval']}, "
            f"90% CI {row.cells['inner']}; margin {row.cells['margin']}; {row.cells['n']} seeds."
            for one, row in zip(own, table.table(own).rows, strict=True)
        ]
        comparison = compare_arms(spec, found)
        drawn = style.png(figure.draw(comparison.facets)) if compares(spec) else None
        text = comparison.table.markdown()
        made.append(Question(spec.name, spec.description, "/".join(spec.metric[:2]), lines, text, figure=drawn))
    return made


def remarked(found: Compared, manifest: PublishedSweep | None) -> Compared:
    """Return the comparison with what was said when the sweep was published before its notes."""
    notes = []
    if manifest and manifest.partial:
        notes.append(f"Published in part, with runs missing or failed: {manifest.partial.reason}.")
    if manifest and len(manifest.code) > 1:
        states = ", ".join(f"{code.runs} runs of {code.state}" for code in manifest.code)
        notes.append(f"The code that decides numbers was changed between these runs, under one protocol: {states}.")
    return found._replace(table=replace(found.table, notes=[*notes, *found.table.notes]))
