"""W&B: the place to look. One of two files that import it; the record stays the place to compute from."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import wandb

from study.config import Experiment, experiment_id
from study.records import Record, Wandb


class Run:
    """One W&B run. The environment decides the mode; without WANDB_MODE a key means online and no key offline."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        name = experiment_id(experiment)
        tracking = experiment.tracking
        folder.mkdir(parents=True, exist_ok=True)
        tags = (*tracking.tags, *os.environ.get("WANDB_TAGS", "").split(","), name)
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or tracking.project,
            entity=os.environ.get("WANDB_ENTITY") or tracking.entity,
            group=os.environ.get("WANDB_RUN_GROUP") or tracking.group,
            id=os.environ.get("WANDB_RUN_ID") or name,
            name=name,
            tags=[tag[:64] for tag in tags if tag],
            dir=folder,
            mode=mode(),
            resume="allow" if mode() == "online" else None,
            config={**experiment.model_dump(mode="json"), "experiment_id": name},
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, x_disable_meta=True),
        )

    def log(self, values: dict[str, Any], step: int) -> None:
        """Scalars at a step."""
        self.run.log(values, step=step)

    def facts(self) -> Wandb:
        """What the record keeps of the W&B run."""
        return Wandb(id=self.run.id, url=self.run.url if mode() == "online" else None)

    def finish(self, record: Record | None) -> None:
        """Put the scores into the summary and end the run; without a record it ends as failed."""
        if record is not None:
            self.run.summary.update({"status": record.status, **summary(record)})
        self.run.finish(exit_code=0 if record is not None else 1)


def mode() -> Any:
    """online, offline or disabled."""
    given = os.environ.get("WANDB_MODE")
    if given:
        return given
    return "online" if os.environ.get("WANDB_API_KEY") or _stored_key() else "offline"


def _stored_key() -> bool:
    """Whether `wandb login` has left a key: asking wandb itself would ask the user, or the network."""
    host = urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def summary(record: Record) -> dict[str, float | None]:
    """Scores of whole splits as `<split>/<metric>`, the names that a sweep file's metric uses."""
    return {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}


def replay(experiment: Experiment, record: Record, folder: Path) -> None:
    """Log a finished run again, so that a sweep whose trial was trained elsewhere completes."""
    run = Run(experiment, folder)
    for point in record.history:
        run.log({name: value for name, value in point.items() if isinstance(value, int | float)}, int(point["step"]))
    run.finish(record)
