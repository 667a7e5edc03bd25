"""Reports of W&B: one for each sweep, with its verdicts, its table, and its runs grouped by arm."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from study.errors import INSTALL, InputError
from study.tracking.push import Project

CURVES = ("train/loss", "valid/loss", "valid/greedy_exact", "attention/cross/entropy", "attention/aer")
"""Learning curves of a report."""
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
    """

    sweep: str
    text: str
    metric: str
    verdicts: Sequence[str]
    table: str

    @property
    def title(self) -> str:
        """Title of the report, by which it is found again."""
        return f"{self.sweep}: {self.text}"[:128].rstrip(": ")


def write(question: Question, project: Project) -> tuple[str, str]:
    """Write the report of a question into a project, or replace what it says; comments on it stay.

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
    with suppress(ValueError):  # no such project: saving makes it
        there = [one for one in wandb.Api().reports(own) if one.display_name == title]
    if there:
        report = wr.Report.from_url(there[0].url)
    else:
        report = wr.Report(project=project.name, entity=project.entity, title=title)
    report.description = question.text
    report.blocks = blocks(question, project.entity or "", project.name)
    report.save()
    return ("updated" if there else "made"), report.url


def _library(name: str = "reports.v2") -> Any:
    try:
        return import_module(f"wandb_workspaces.{name}")
    except ImportError:
        raise InputError("wandb-workspaces: not installed. " + INSTALL.format("wandb")) from None


def blocks(question: Question, entity: str, project: str) -> list[Any]:
    """Return the parts of a report: verdicts, comparison, learning curves, translations, and where they are from."""
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
    verdicts = "\n".join(f"- {line}" for line in question.verdicts)
    return [
        *([wr.H2(text="Verdict"), wr.MarkdownBlock(text=verdicts)] if verdicts else []),
        wr.H2(text="Comparison"),
        wr.PanelGrid(runsets=[runs], panels=[bars]),
        wr.MarkdownBlock(text=question.table),
        wr.H2(text="Learning curves"),
        wr.PanelGrid(runsets=[runs], panels=curves),
        wr.H2(text="Translations"),
        wr.PanelGrid(runsets=[runs], panels=[translations]),
    ]
