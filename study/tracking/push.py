"""Runs of W&B made from records: what a project lacks is sent, what it has is left alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from study.config import account
from study.tracking import tracker
from study.tracking.tracker import PUSHED
from study.tracking.view import View

PATIENCE, LONGEST = 120.0, 300.0
"""Seconds that W&B has to start a run, after a minute in which it refuses more requests, and to take all of it."""
OF_A_RUN = (*account.OF_A_RUN, "WANDB_NOTES", "WANDB_JOB_TYPE", "WANDB_RESUME")
"""Environment variables of a single run. A push ignores them, because it sends several runs."""


class Project:
    """A project of W&B, and the runs that it has. Made by `opened`.

    Args:
        folder: W&B's own files, for the time of the push.

    Raises:
        Exception: W&B cannot be reached, or refuses.
    """

    def __init__(self, folder: Path) -> None:
        import wandb

        api = wandb.Api()
        self.folder = folder
        self.entity = os.environ.get("WANDB_ENTITY") or api.default_entity
        self.name = os.environ.get("WANDB_PROJECT") or account.PROJECT
        self.runs: dict[str, tuple[str, str, str | None]] = {}
        """Identity of an experiment ↦ id, state and `PUSHED` of its run, of several the newest."""
        with suppress(ValueError):  # no such project: the first run makes it
            for run in api.runs(f"{self.entity}/{self.name}", per_page=100, include_sweeps=False, lazy=False):
                identity = run.config.get("experiment_id") or run.id
                self.runs[identity] = run.id, run.state, run.summary_metrics.get(PUSHED)

    def send(self, view: View) -> str:
        """Send a run if the project lacks it or has it in part. What was sent stays if this is interrupted.

        Returns:
            `sent`, `updated` or `complete`.

        Raises:
            Exception: W&B cannot be reached, or refuses: it never takes the id of a run again that was deleted.
        """
        identity = view.label["id"]
        name, state, digest = self.runs.get(identity, (identity, "", None))
        if (state, digest) == ("failed" if view.failed else "finished", view.sha256):
            return "complete"
        label = view.label | {"id": name, "project": self.name, "entity": self.entity}
        try:
            run = tracker.begin(label, self.folder, "online", patience=PATIENCE)
            try:
                tracker.within(LONGEST, lambda: tracker.end(run, view, run.starting_step, 1))
            except BaseException:
                with suppress(Exception):
                    run.finish(exit_code=1)
                raise
        except Exception:
            tracker.forget()
            raise
        return "updated" if state else "sent"


@contextmanager
def opened() -> Iterator[Project]:
    """Open the project that the environment and the account name, with its runs, for the time of the context.

    Raises:
        InputError: there is no account, or W&B cannot be reached.
    """
    tracker.forget()
    for name in OF_A_RUN:
        os.environ.pop(name, None)
    with TemporaryDirectory(prefix="study-wandb-") as folder:
        os.environ["WANDB_DIR"] = folder
        try:
            with tracker.online():
                project = Project(Path(folder))
            yield project
        finally:
            del os.environ["WANDB_DIR"]
            tracker.forget()
