"""Comparison table of one sweep, printed, and written with its figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from study.errors import InputError
from study.store import Store, is_results

if TYPE_CHECKING:
    from study.analysis.comparison import Compared
    from study.analysis.runs import Runs
    from study.analysis.tables import Table
    from study.publish.results import Manifest, Results
    from study.sweep.spec import Spec
    from study.tracking.reports import Question


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
    from study.analysis.comparison import compares
    from study.analysis.figures import sweep as figure

    table, facets, _ = compared(spec, out)
    table.print()
    folder = to or out / "report" / spec.name
    written = {}
    try:
        written["table"] = table.write(folder, latex=latex)
        if compares(spec):
            written["figure"] = figure.write(facets, folder / "figure")
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror}). Name another folder with --out.") from None
    print()
    for what, paths in written.items():
        print(f"{what:<7} {paths[0].with_suffix('')}.{{{','.join(path.suffix[1:] for path in paths)}}}")
    runs = f"{Store(out).folder}/<arm>.json" if is_results(out) else f"{out}/<id>/"
    print(f"{'runs':<7} {runs}")


def report_published(spec: Spec, root: Path) -> None:
    """Print the comparison table of a published sweep and write table and figure where `study reproduce` does.

    Raises:
        InputError: the sweep is not published, or a record cannot be used.
    """
    from study.analysis.runs import Runs
    from study.publish.results import Results

    results = Results(root)
    if spec.name not in results.manifests:
        there = ", ".join(results.manifests) or "none"
        raise InputError(
            f"sweep: expected a published sweep ({there}), got {spec.name}. `study publish {spec.path}` publishes it."
        )
    table, paths = write_comparison(results, results.manifests[spec.name], Runs(root))
    table.print()
    print()
    for path in paths:
        print(path)


def compared(spec: Spec, out: Path) -> Compared:
    """Return the comparison table of a sweep, and what is behind it.

    Raises:
        InputError: a record cannot be used.
    """
    from study.analysis.comparison import compare_arms
    from study.analysis.runs import Runs
    from study.publish.results import Results

    found = compare_arms(spec, Runs(out))
    if is_results(out) and (manifest := Results(out).manifests.get(spec.name)):
        return found._replace(table=remarked(found.table, manifest))
    return found


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
    specs = [spec for spec in specs if any(cell.id in there for cell in spec.runnable)]
    measured = costs.read(runs / "benchmarks" if (runs / "runs").is_dir() else None)
    verdicts = evaluate(schema.read_all(), found, measured, by_score=True)
    questions = []
    for spec in specs:
        own = [one for one in verdicts if one.question.sweep == spec.name]
        rows = [row.cells for block in table.table(own).blocks for row in block.rows]
        lines = [
            f"**{one.claim.statement}** {row['asked']}: **{row['verdict']}{', fragile' if one.fragile else ''}** "
            f"({row['finding']}). {row['contrast']}: {row['estimate']}, 95% CI {row['interval']}, "
            f"90% CI {row['inner']}; margin {row['margin']}; {row['n']} seeds."
            for one, row in zip(own, rows, strict=True)
        ]
        comparison = compare_arms(spec, found)
        drawn = style.png(figure.draw(comparison.facets)) if compares(spec) else None
        metric = "/".join(spec.metric[:2])
        questions.append(
            Question(spec.name, spec.description, metric, lines, comparison.table.markdown(), figure=drawn)
        )
    return questions


def write_comparison(results: Results, manifest: Manifest, runs: Runs) -> tuple[Table, list[Path]]:
    """One sweep's table, and the files of it and of its figure: `tables/<name>.*` and `figures/sweep-<name>.*`.

    There is no figure where arms are not compared.

    Raises:
        InputError: a record cannot be used.
    """
    from study.analysis.comparison import compare_arms, compares
    from study.analysis.figures import sweep as figure

    spec = results.spec(manifest)
    table, facets, _ = compare_arms(spec, runs)
    table = remarked(table, manifest)
    paths = table.write(results.root / "tables", manifest.name)
    if compares(spec):
        paths += figure.write(facets, results.root / "figures" / f"sweep-{manifest.name}", png=False)
    return table, paths


def remarked(table: Table, manifest: Manifest) -> Table:
    """Return the table with what was said when the sweep was published before its notes."""
    notes = []
    if manifest.partial:
        notes.append(f"Published in part, with runs missing or failed: {manifest.partial.reason}.")
    if len(manifest.code) > 1:
        states = ", ".join(f"{code.runs} runs of {code.state}" for code in manifest.code)
        notes.append(f"The code that decides numbers was changed between these runs, under one protocol: {states}.")
    return replace(table, notes=[*notes, *table.notes])
