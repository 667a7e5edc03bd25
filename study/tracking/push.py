"""Runs of W&B made from records: what a project lacks is sent, what it has is left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from study.config import account
from study.config.experiment import Tracking
from study.errors import INSTALL, InputError
from study.tracking import tracker
from study.tracking.tracker import PUSHED
from study.tracking.view import View

PATIENCE, LONGEST = 120.0, 300.0
"""Seconds that W&B has to start a run, after a minute in which it refuses more requests, and to take all of it."""
MOST = 9
"""Ids that are tried for one run. W&B never takes the id of a deleted run again."""
OF_A_RUN = (*account.OF_A_RUN, "WANDB_NAME", "WANDB_NOTES", "WANDB_JOB_TYPE", "WANDB_RESUME")
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
        self.entity = os.environ.get("WANDB_ENTITY") or Tracking().entity or api.default_entity
        self.name = os.environ.get("WANDB_PROJECT") or Tracking().project
        self.runs: dict[str, list[tuple[str, str, str | None]]] = {}
        """Identity of an experiment ↦ id, state and `PUSHED` of its runs."""
        with suppress(ValueError):  # no such project: the first run makes it
            for run in api.runs(f"{self.entity}/{self.name}", per_page=100, include_sweeps=False, lazy=False):
                identity = run.config.get("experiment_id") or run.id
                self.runs.setdefault(identity, []).append((run.id, run.state, run.summary_metrics.get(PUSHED)))

    def send(self, view: View) -> tuple[str, str]:
        """Send a run if the project lacks it or has it in part. What was sent stays if this is interrupted.

        Returns:
            `sent`, `updated` or `complete`, and the run's id in W&B.

        Raises:
            Exception: W&B cannot be reached, or refuses.
        """
        own, state = view.label.id, "failed" if view.failed else "finished"
        there = sorted(self.runs.get(own, []), key=lambda run: (run[0] != own, run[0]))
        if found := [run[0] for run in there if run[1:] == (state, view.sha256)]:
            return "complete", found[0]
        for name in [run[0] for run in there] or [own, *(f"{own}-{n}" for n in range(2, MOST + 1))]:
            try:
                self._send(view, name)
            except Exception as problem:
                tracker.forget()
                if not tracker.deleted(problem):
                    raise
            else:
                return ("updated" if there else "sent"), name
        raise InputError(f"{own}: expected an id that W&B takes, got {MOST} of deleted runs. Use another project.")

    def _send(self, view: View, name: str) -> None:
        label, where = replace(view.label, id=name), Tracking(project=self.name, entity=self.entity)
        patience = PATIENCE if name == view.label.id else None
        run = tracker.begin(label, where, self.folder, "online", patience=patience)
        try:
            tracker.within(LONGEST, lambda: tracker.end(run, view, run.starting_step, 1))
        except BaseException:
            with suppress(Exception):
                run.finish(exit_code=1)
            raise


@contextmanager
def opened() -> Iterator[Project]:
    """Open the project that the environment and the account name, with its runs, for the time of the context.

    Raises:
        InputError: there is no account, or W&B cannot be reached.
    """
    if (mode := os.environ.get("WANDB_MODE") or "online") != "online":
        raise InputError(f"WANDB_MODE: expected online, got {mode}. Unset it.")
    if not tracker.installed():
        raise InputError("wandb: not installed. " + INSTALL.format("wandb"))
    tracker.forget()
    for name in OF_A_RUN:
        os.environ.pop(name, None)
    with TemporaryDirectory(prefix="study-wandb-") as folder:
        os.environ["WANDB_DIR"] = folder
        try:
            if not account.signed_in():
                raise InputError("account: expected a key for W&B, got none. Call `wandb login`.")
            try:
                project = Project(Path(folder))
            except Exception as problem:
                raise InputError(f"W&B: {tracker.cause(problem)}. Check the network and the key.") from None
            yield project
        finally:
            del os.environ["WANDB_DIR"]
            tracker.forget()
