"""Runs of W&B made from records: what a project lacks is sent, what it has is left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from study.config import account
from study.config.experiment import Tracking
from study.errors import InputError
from study.tracking import run as tracking
from study.tracking.view import Label, View

if TYPE_CHECKING:
    import wandb

PUSHED = "view_sha256"
"""Field of the summary: SHA-256 of the view that was sent. It is written last, so an interrupted run lacks it."""
LONGEST = 300.0
"""Seconds that W&B has to take a run."""
MOST = 9
"""Ids that are tried for one run. W&B never takes the id of a deleted run again."""
OF_A_RUN = (
    *(*account.OF_A_RUN, "WANDB_NAME", "WANDB_NOTES"),
    *("WANDB_JOB_TYPE", "WANDB_RESUME", "WANDB_DIR"),
)
"""Environment variables of a single run. A push ignores them, because it sends several runs."""


class Project:
    """A project of W&B, and the runs that it has. Made by `opened`.

    Args:
        folder: W&B's own files, for the time of the push.
        listed: ask for its runs.

    Raises:
        Exception: W&B cannot be reached, or refuses.
    """

    def __init__(self, folder: Path, listed: bool = True) -> None:
        import wandb

        api = wandb.Api()
        self.folder = folder
        self.entity = os.environ.get("WANDB_ENTITY") or Tracking().entity or api.default_entity
        self.name = os.environ.get("WANDB_PROJECT") or Tracking().project
        self.runs: dict[str, list[tuple[str, str, str | None]]] = {}
        """Identity of an experiment ↦ id, state and `PUSHED` of its runs."""
        if not listed:
            return
        with suppress(ValueError):  # no such project: the first run makes it
            for run in api.runs(f"{self.entity}/{self.name}", per_page=100, include_sweeps=False, lazy=False):
                identity = run.config.get("experiment_id") or run.id
                self.runs.setdefault(identity, []).append((run.id, run.state, run.summary_metrics.get(PUSHED)))

    def send(self, view: View, force: bool = False) -> tuple[str, str]:
        """Send a run if the project lacks it or has it in part. What was sent stays if this is interrupted.

        Args:
            view: the run.
            force: send name, configuration, tags and summary again if the run is complete, too.

        Returns:
            `sent`, `updated` or `complete`, and the run's id in W&B.

        Raises:
            Exception: W&B cannot be reached, or refuses.
        """
        there = sorted(self.runs.get(view.label.id, []), key=lambda run: (run[0] != view.label.id, run[0]))
        if (view.state, view.sha256) in [(state, pushed) for _, state, pushed in there] and not force:
            return "complete", next(name for name, _, pushed in there if pushed == view.sha256)
        names = [name for name, *_ in there] or self.free(view.label.id)
        sent = self.with_run(view.label, names, lambda run: self._complete(run, view), view.state == "failed")
        return ("updated" if there else "sent"), sent

    def free(self, name: str) -> list[str]:
        """Return the ids to try for a new run: W&B never takes the id of a deleted run again."""
        return [name, *(f"{name}-{n}" for n in range(2, MOST + 1))]

    def with_run(
        self, label: Label, names: Sequence[str], send: Callable[[wandb.Run], object], failed: bool = False
    ) -> str:
        """Make or continue a run under the first id that W&B takes, send something, and finish it.

        Args:
            label: the run.
            names: ids to try.
            send: gets the run.
            failed: whether its state is to be `failed`.

        Returns:
            The id.

        Raises:
            Exception: W&B cannot be reached, or refuses.
        """
        for name in names:
            try:
                run = tracking.begin(replace(label, id=name), self.entity, self.name, self.folder, "online")
                try:
                    tracking.within(LONGEST, partial(send, run))
                except BaseException:
                    with suppress(Exception):
                        run.finish(exit_code=1)
                    raise
                run.finish(exit_code=int(failed))
            except Exception as problem:
                tracking.forget()
                if name == names[-1] or not tracking.deleted(problem):
                    raise
            else:
                return name
        raise AssertionError(names)

    def _complete(self, run: wandb.Run, view: View) -> None:
        """Log what the run lacks."""
        missing = [(step, {"step": step, **values}) for step, values in view.points if step >= run.starting_step]
        last = view.points[-1][0] if view.points else 0
        if run.starting_step <= last + 1:
            missing.append(view.end)
        for step, values in missing:
            tracking.log(run, values, step)
        run.summary.update({**view.summary, PUSHED: view.sha256})
        tracking.attach(run, view)
        if view.folder is not None:
            tracking.attach_log(run, view.folder)


@contextmanager
def opened(listed: bool = True) -> Iterator[Project]:
    """Open the project that the environment and the account name, for the time of the context; `listed`: with its runs.

    Raises:
        InputError: there is no account, or W&B cannot be reached.
    """
    if (mode := os.environ.get("WANDB_MODE") or "online") != "online":
        raise InputError(f"WANDB_MODE: expected online, got {mode}. Unset it.")
    with TemporaryDirectory(prefix="study-wandb-") as folder, tracking.without(OF_A_RUN):
        tracking.forget()
        os.environ["WANDB_DIR"] = folder
        try:
            if not account.signed_in():
                raise InputError("account: expected a key for W&B, got none. Call `wandb login`.")
            project = Project(Path(folder), listed)
        except InputError:
            raise
        except Exception as problem:
            raise InputError(f"W&B: {tracking.cause(problem)}. Check the network and the key.") from None
        else:
            yield project
        finally:
            os.environ.pop("WANDB_DIR", None)
            tracking.forget()
