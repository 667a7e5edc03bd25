"""The W&B workspace of the study: how models learn and attend, then a section per question, that is per sweep file.

python sweeps/dashboard.py [ENTITY]    builds it and, where an account is logged in, saves it and prints its address
"""

import os
import sys
from pathlib import Path

import pandas as pd
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from study.config import Experiment
from study.sweep.spec import Spec, load
from study.training import tracking

LEARNING = ("train_loss", "valid_loss", "valid_bleu", "valid_exact", "valid_aer", "lr")
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


def workspace(entity: str, folder: Path) -> ws.Workspace:
    """The workspace, not saved yet."""
    lines = {"Learning": LEARNING, "Attending": ATTENDING}
    general = [
        ws.Section(name=name, panels=[wr.LinePlot(title=y, x="Step", y=[y]) for y in metrics], is_open=True)
        for name, metrics in lines.items()
    ]
    questions = [section(load(path)) for path in sorted(folder.glob("*.yaml"))]
    project = os.environ.get("WANDB_PROJECT") or Experiment().tracking.project
    return ws.Workspace(entity=entity, project=project, name="Attention, ablated", sections=[*general, *questions])


if __name__ == "__main__":
    owner = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("WANDB_ENTITY", "")
    built = workspace(owner, Path(__file__).parent)
    if owner and tracking.mode() == "online":
        print(built.save().url)
    else:
        print(f"{len(built.sections)} sections; to save them, `wandb login`, then: python sweeps/dashboard.py ENTITY")
