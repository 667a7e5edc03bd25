"""The W&B workspace of the study: how models learn and attend, then a section per question, that is per sweep file.

python sweeps/dashboard.py --list      lists sections and panels; no account
python sweeps/dashboard.py [ENTITY]    saves it and prints its address
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from study.config import Experiment
from study.sweep.spec import Spec, load
from study.training import tracking

DESCRIPTION = "Save the W&B workspace of the study: how models learn and attend, and a section per sweep file."
LEARNING = ("train/loss", "train/gradient_norm", "valid_loss", "valid_bleu", "valid_exact", "valid_aer", "lr")
ATTENDING = ("cross/entropy", "cross/gold_mass", "cross/logit_sd", "cross/logit_max", "gradients/norm")


def axes(spec: Spec) -> list[str]:
    """The keys of a run's config that hold what a sweep varies; of a field of all sites, that of cross-attention."""
    configs = pd.json_normalize([cell.experiment.model_dump(mode="json") for cell in spec.runnable if cell.experiment])
    varied = {key for key in configs.columns if configs[key].astype(str).nunique() > 1} - {"seed"}
    asked = [(name, name.replace("model.attention.", "model.attention.cross.")) for name in spec.varied]
    return list(dict.fromkeys(key for pair in asked for key in pair if key in varied))


def section(spec: Spec) -> ws.Section:
    """The score that decides, by each field that the sweep varies."""
    metric = wr.SummaryMetric("/".join(spec.metric[:2]))
    bars = {"metrics": [metric], "groupby_aggfunc": "mean"}
    panels = [wr.BarPlot(title=key, groupby=wr.Config(key), **bars) for key in axes(spec)]
    return ws.Section(name=f"{spec.name}: {spec.description}", panels=panels)


def workspace(entity: str, folder: Path, project: str) -> ws.Workspace:
    """The workspace, not saved yet."""
    lines = {"Learning": LEARNING, "Attending": ATTENDING}
    general = [
        ws.Section(name=name, panels=[wr.LinePlot(title=y, x="Step", y=[y]) for y in metrics], is_open=True)
        for name, metrics in lines.items()
    ]
    questions = [section(load(path)) for path in sorted(folder.glob("*.yaml"))]
    return ws.Workspace(entity=entity, project=project, name="Attention, ablated", sections=[*general, *questions])


def main(argv: Sequence[str] | None = None) -> int:
    """Save the workspace, list it, or say in one line why not; the exit status is 0 or 2."""
    here = Path(__file__).parent
    project = os.environ.get("WANDB_PROJECT") or Experiment().tracking.project
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    add = parser.add_argument
    add("entity", nargs="?", metavar="ENTITY", help="user or team (default: $WANDB_ENTITY, else the account's own)")
    add("--project", default=project, help="project that has the runs (default: %(default)s)")
    add("--update", metavar="URL", help="change the saved workspace at this address, rather than save a new one")
    add("--list", action="store_true", help="list sections and panels, and save nothing; needs no account")
    args = parser.parse_args(argv)
    entity = args.entity or os.environ.get("WANDB_ENTITY", "")
    built = workspace(entity, here, args.project)
    if args.list:
        for found in built.sections:
            print(found.name)
            print("\n".join(f"  {panel.title}" for panel in found.panels))
        return 0
    try:
        if tracking.mode() != "online":
            parser.error(
                "account: expected a key for W&B, got none. Call `wandb login`, or see the panels with --list."
            )
        if args.update:
            saved = ws.Workspace.from_url(args.update)
            saved.sections = built.sections
        else:
            saved = built if entity else workspace(wandb.Api().default_entity or "", here, args.project)
        saved.save()
    except (wandb.Error, ValueError, OSError, KeyError) as problem:
        parser.error(f"W&B: {' '.join(str(problem).split())[:300]}")
    print(f"{saved.url}\nto change it later: python sweeps/dashboard.py --update URL")
    return 0


if __name__ == "__main__":
    sys.exit(main())
