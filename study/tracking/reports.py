"""Reports of W&B: one for each sweep, with its verdicts, its table, and its runs grouped by arm."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from study.errors import INSTALL, InputError
from study.tracking import run as tracking
from study.tracking.push import Project
from study.tracking.view import Label

CURVES = ("train/loss", "valid/loss", "valid/greedy_exact", "attention/cross/entropy", "attention/aer")
"""Learning curves of a report."""
FIGURE = "comparison/figure"
"""Name of the figure in the run that has it."""
DRAWN = "figure_sha256"
"""Field of the summary of that run: SHA-256 of the figure."""
MOST = 100
"""Runs that a plot shows; more than a sweep has in one facet."""


@dataclass(frozen=True)
class Question:
    """Texts and table of the report on a sweep.

    Attributes:
        sweep: name of the sweep.
        text: its question.
        metric: the score that decides, as the summary of a run names it.
        verdicts: verdicts on claims, each a line of Markdown.
        table: the comparison table, in Markdown.
        figure: the comparison figure, a PNG; None for a sweep whose arms are not compared.
    """

    sweep: str
    text: str
    metric: str
    verdicts: Sequence[str]
    table: str
    figure: bytes | None = None

    @property
    def title(self) -> str:
        """Title of the report, by which it is found again."""
        return f"{self.sweep}: {self.text}"[:128].rstrip(": ")


def write(question: Question, project: Project) -> tuple[str, str]:
    """Write the report of a question into a project, or replace what it says; comments on it stay.

    A report shows pictures of runs only. So the figure is sent first, to the run `report-SWEEP` of job type `report`,
    which has no tag and so is in no comparison. A figure that the run has is not sent again.

    Args:
        question: the question.
        project: has the runs.

    Returns:
        `made` or `updated`, and the address.

    Raises:
        InputError: wandb-workspaces is not installed.
        Exception: W&B cannot be reached, or refuses.
    """
    import wandb

    wr = _library()
    title, own = question.title, f"{project.entity}/{project.name}"
    there: list[Any] = []
    exists = False
    with suppress(ValueError):  # no such project: saving is refused
        there = [one for one in wandb.Api().reports(own) if one.display_name == title]
        exists = True
    if there:
        report = wr.Report.from_url(there[0].url)
    else:
        report = wr.Report(project=project.name, entity=project.entity, title=title)
    report.description = question.text
    drawn = None if question.figure is None or not exists else _send(question, question.figure, project)
    report.blocks = blocks(question, project.entity or "", project.name, drawn)
    report.save()
    return ("updated" if there else "made"), report.url


def _send(question: Question, figure: bytes, project: Project) -> str:
    """Send a figure unless its run has it; return the run's id."""
    import wandb

    digest, path = hashlib.sha256(figure).hexdigest(), project.folder / f"{question.sweep}.png"
    path.write_bytes(figure)

    def send(run: wandb.Run) -> None:
        if dict(run.summary).get(DRAWN) != digest:
            step = run.starting_step
            tracking.log(run, {"step": step, FIGURE: wandb.Image(str(path), caption=question.text)}, step)
            run.summary[DRAWN] = digest

    name = f"{question.sweep} · figure of the report"
    label = Label(f"report-{question.sweep}", name, "reports", (), "report", {"report": question.sweep})
    return project.with_run(label, project.free(label.id), send)


def _library(name: str = "reports.v2") -> Any:
    try:
        return import_module(f"wandb_workspaces.{name}")
    except ImportError:
        raise InputError("wandb-workspaces: not installed. " + INSTALL.format("wandb")) from None


def blocks(question: Question, entity: str, project: str, drawn: str | None = None) -> list[Any]:
    """Return the parts of a report: verdicts, comparison, learning curves, translations, and where they are from.

    Args:
        question: its texts.
        entity: owner of the project.
        project: has the runs.
        drawn: id of the run that has the figure.
    """
    wr = _library()
    arm = f"arms.{question.sweep}"
    runs = wr.Runset(
        entity=entity,
        project=project,
        name=question.sweep,
        filters=[_library("expr").Tags().isin([question.sweep])],
        groupby=[f"config.{arm}"],
    )
    across = {"groupby": wr.Config(arm), "groupby_aggfunc": "mean", "groupby_rangefunc": "stddev"}
    bars = wr.BarPlot(
        title=f"{question.metric}, mean ± sd over seeds",
        metrics=[wr.SummaryMetric(question.metric)],
        layout=wr.Layout(w=24, h=10),
        max_bars_to_show=MOST,
        **across,
    )
    curves = [wr.LinePlot(title=name, x="step", y=[name], max_runs_to_show=MOST, **across) for name in CURVES]
    translations = wr.WeavePanelSummaryTable(table_name="test/translations", layout=wr.Layout(w=24, h=12))
    figure = [
        wr.PanelGrid(
            runsets=[wr.Runset(entity, project, name="figure", filters=[_library("expr").Metric("ID").isin([drawn])])],
            panels=[wr.MediaBrowser(num_columns=1, media_keys=[FIGURE], layout=wr.Layout(w=24, h=16))],
        )
    ]
    verdicts = "\n".join(f"- {line}" for line in question.verdicts)
    return [
        *([wr.H2(text="Verdict"), wr.MarkdownBlock(text=verdicts)] if verdicts else []),
        wr.H2(text="Comparison"),
        *(figure if drawn else []),
        wr.PanelGrid(runsets=[runs], panels=[bars]),
        wr.MarkdownBlock(text=question.table),
        wr.H2(text="Learning curves"),
        wr.PanelGrid(runsets=[runs], panels=curves),
        wr.H2(text="Translations"),
        wr.PanelGrid(runsets=[runs], panels=[translations]),
    ]
