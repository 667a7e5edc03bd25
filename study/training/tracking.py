"""W&B: the place to look. One of two files that import it; the record stays the place to compute from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import wandb
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from study.config import Experiment, account, experiment_id
from study.config.experiment import Tracking
from study.records import Record, Wandb


class Run:
    """One W&B run. The environment decides the mode; without WANDB_MODE a key means online and no key offline."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        name = experiment_id(experiment)
        folder.mkdir(parents=True, exist_ok=True)
        config = {**experiment.model_dump(mode="json"), "experiment_id": name}
        tags = (experiment.data.name, experiment.model.family, name)
        self.run = _init(name, experiment.tracking, folder, config, tags)
        self.unfinished = 1

    @property
    def shows(self) -> bool:
        """Whether anybody could look at an image."""
        return str(mode()) != "disabled"

    def log(self, values: dict[str, Any], step: int, shown: dict[str, Any] | None = None) -> None:
        """Scalars at a step, and an attention map as an image."""
        image = {} if shown is None else {"attention": wandb.Image(drawn(shown), caption=shown["text"]["source"])}
        self.run.log({**values, **image}, step=step)

    def facts(self) -> Wandb:
        """What the record keeps of the W&B run."""
        return Wandb(id=self.run.id, url=self.run.url if mode() == "online" else None)

    def preempt(self, code: object) -> None:
        """Say that the run is to be resumed: a sweep's server then hands it out again."""
        self.unfinished = code if isinstance(code, int) and code else 1
        self.run.mark_preempting()

    def finish(self, record: Record | None) -> None:
        """Put the scores into the summary and end the run; without a record it ends as failed, or as preempted."""
        if record is not None:
            self.run.summary.update({"status": record.status, **summary(record)})
        self.run.finish(exit_code=0 if record is not None else self.unfinished)


def _init(name: str, tracking: Tracking, folder: Path, config: dict[str, Any], tags: tuple[str, ...]) -> wandb.Run:
    told = (*tracking.tags, *os.environ.get("WANDB_TAGS", "").split(","), *tags)
    return wandb.init(
        project=os.environ.get("WANDB_PROJECT") or tracking.project,
        entity=os.environ.get("WANDB_ENTITY") or tracking.entity,
        group=os.environ.get("WANDB_RUN_GROUP") or tracking.group,
        id=os.environ.get("WANDB_RUN_ID") or name,
        name=name,
        tags=list(dict.fromkeys(tag[:64] for tag in told if tag)),
        dir=folder,
        mode=mode(),
        resume="allow" if mode() == "online" else None,
        config=config,
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True),
    )


def drawn(shown: dict[str, Any]) -> np.ndarray:
    """An attention map as pixels [height, width, 3]: weights 0 (white) to 1 (dark), target down, gold links framed."""
    source, target = shown["source"], shown["target"]
    figure = Figure(figsize=(1.2 + 0.28 * len(source), 1.0 + 0.22 * len(target)), dpi=80)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0.28, 0.04, 0.7, 0.7))
    axes.imshow(shown["weights"], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=90, fontsize=8)
    axes.set_yticks(range(len(target)), target, fontsize=8)
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    for s, t in shown["gold"] or []:
        axes.add_patch(Rectangle((s - 0.45, t - 0.45), 0.9, 0.9, fill=False, edgecolor="C1"))
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels: np.ndarray = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return pixels[..., :3]


def mode() -> Any:
    """online, offline or disabled."""
    return os.environ.get("WANDB_MODE") or ("online" if account.signed_in() else "offline")


def summary(record: Record) -> dict[str, float | None]:
    """Scores of whole splits as `<split>/<metric>`, the names that a sweep file's metric uses."""
    return {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}


def replay(experiment: Experiment, record: Record, folder: Path) -> None:
    """Log a finished run again, so that a sweep whose trial was trained elsewhere completes."""
    run = Run(experiment, folder)
    for point in record.history:
        run.log({name: value for name, value in point.items() if isinstance(value, int | float)}, int(point["step"]))
    run.finish(record)


def inapplicable(overrides: dict[str, Any], reason: str, folder: Path) -> None:
    """Log a cell that the configuration rejects: a sweep's server counts it as done, and a reader sees why."""
    folder.mkdir(parents=True, exist_ok=True)
    run = _init("inapplicable", Tracking(), folder, overrides, ("inapplicable",))
    run.summary.update({"status": "inapplicable", "reason": reason})
    run.finish(exit_code=0)
