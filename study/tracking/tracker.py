"""The W&B run of an experiment: live while it trains online, else written at once from its record.

Files are the truth and W&B shows them, so what W&B lacks at the end is taken from the files (`end`), by a run that
has just finished as by `study wandb push`.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

from study import attention_map, files
from study.config import Experiment, account, experiment_id, recorded
from study.config.experiment import Tracking
from study.errors import INSTALL, InputError
from study.store.folder import Store
from study.store.records import STOPPED, Record, Wandb
from study.store.rows import Tree
from study.tracking.view import LONGEST, TAG, TRANSLATIONS, Point, View, fitted, label, place_of, points, view_of

if TYPE_CHECKING:
    import wandb

START, END, ANSWER = 30.0, 60.0, 5.0
"""Seconds that W&B has to start a run, to take the rest of it at the end, and to answer at all."""
AWAY, PAUSE = ".wandb-away", 900.0
"""File of a folder of runs that one of them writes if W&B fails, and the seconds for which the others do not try."""
PREEMPTIBLE, CLUSTERS = "STUDY_PREEMPTIBLE", ("SLURM_JOB_ID", "RAY_JOB_ID")
"""Variable that says whether a stopped run is to be queued again (1 or 0), and variables of who does so anyway."""
LATER = "`study wandb push` sends it later"
PUSHED = "view_sha256"
"""Field of the summary: SHA-256 of the view that was sent. It is written last, so an interrupted run lacks it."""


class Tracker:
    """One experiment in W&B. The environment decides the mode; without WANDB_MODE a key means online, no key offline.

    W&B never decides whether a run is made. If it fails, one line says so and the run goes on without it; the other
    runs of its folder do not try for a while. An offline run is written for `wandb sync` when it has finished.

    Args:
        experiment: what is run.
        folder: its folder, which gets W&B's files.
        watch: called with a line of text: the run's address, and what went wrong.
    """

    def __init__(self, experiment: Experiment, folder: Path, watch: Callable[[str], object] = print) -> None:
        self.folder, self.watch = folder, watch
        place = place_of(folder.parent, folder.name)
        self.label = _given(label(experiment_id(experiment), recorded(experiment), place), experiment.tracking)
        self.run: wandb.Run | None = None
        self.next, self.code, self.parent, self.mode = 0, 1, os.getppid(), "lost"
        try:
            self.mode = mode(watch)
            if self.mode in ("offline", "disabled"):
                return
            away = self.folder.parent / AWAY
            since = time.time() - away.stat().st_mtime if away.exists() else PAUSE
            if 0 <= since < PAUSE:  # a clock that was set back says nothing
                self.mode = "lost"
                watch(f"W&B: it failed {since / 60:.0f} min ago; the run goes on without it, and {LATER}")
                return
            self.run = begin(self.label, self.folder, self.mode, live=True)
            self.next = self.run.starting_step
            watch(f"W&B: {self.run.url}")
        except Exception as problem:
            self._lose(problem)

    def send(self, gradients: Mapping[str, Any]) -> None:
        """Send the points in the run's files that W&B lacks. `gradients` are the measures of their validations."""
        if self.run is None:
            return
        try:
            read = partial(Store(self.folder.parent).content, self.folder.name)
            before, self.next = self.next, log(self.run, points(read, (), gradients), self.next)
            if self.next > before:
                self.run.log({}, commit=True)  # else the client keeps the last step until the next one comes
        except Exception as problem:
            self._lose(problem)

    def facts(self) -> Wandb | None:
        """Return the record's section on the W&B run; None without one."""
        return None if self.mode == "disabled" else Wandb(id=self.label["id"], url=self.run.url if self.run else None)

    def stop(self, code: object) -> None:
        """Note that a signal ends the run: it is to be queued again where it is preempted, else it is stopped for good.

        A file in its folder says that W&B, by an agent that goes on, has stopped it.
        """
        self.code = code if isinstance(code, int) and code else 1
        again = preemptible()
        if "WANDB_SWEEP_ID" in os.environ and not again and os.getppid() == self.parent:
            files.write(self.folder / STOPPED, "W&B has stopped this run.\n")
        with suppress(Exception):
            if self.run is not None and again:
                self.run.mark_preempting()
            elif self.run is not None:
                self.run.summary["status"] = "stopped"

    def finish(self, record: Record | None) -> None:
        """Complete the run with its scores, translations and files; without a record it ends as the run does."""
        if record is None:
            self.send({})  # what it has logged since its last validation
        if self.mode in ("disabled", "lost"):
            return
        try:
            view = None if record is None else view_of(Store(self.folder.parent), self.folder.name)
            if self.mode == "offline" and view is not None:
                self.run = begin(self.label, self.folder, "offline")
            if self.run is not None:
                within(2 * END, partial(end, self.run, view, self.next, self.code))
            forget()
        except Exception as problem:
            self._lose(problem)

    def _lose(self, problem: Exception) -> None:
        """Go on without W&B, and say why."""
        self.run, self.mode = None, "lost"
        self.watch(f"W&B: {cause(problem)}; the run goes on without it, and {LATER}")
        forget()
        if of_the_server(problem):
            with suppress(OSError):
                files.write(self.folder.parent / AWAY, "W&B failed; other runs do not try it for a while.\n")


def mode(watch: Callable[[str], object] = print) -> str:
    """Return the mode of W&B: that of the environment, else online with a key, and offline without.

    Raises:
        Exception: the environment asks for what W&B refuses, or for online without a key.
    """
    mode_name = os.environ.get("WANDB_MODE")
    if mode_name == "disabled":
        return "disabled"
    if not installed():
        if mode_name:
            watch("W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb"))
        return "disabled"
    if mode_name not in (None, "online"):
        return mode_name
    if account.signed_in():
        return "online"
    if mode_name:  # the client would ask for a key at the terminal
        raise ValueError("no key; call `wandb login`, or set WANDB_API_KEY")
    return "offline"


@contextmanager
def online() -> Iterator[None]:
    """Context of calls that need an account and a server that answers.

    Raises:
        InputError: one of them is missing, or W&B refuses a call.
    """
    import wandb

    try:
        if (state := mode()) != "online":
            raise InputError(f"W&B: expected an account, got mode {state}. Unset WANDB_MODE, or call `wandb login`.")
        with suppress(HTTPError):  # an answer; the client itself would try for minutes
            urlopen(str(wandb.setup().settings.base_url), timeout=ANSWER).close()
        yield
    except (OSError, ValueError, wandb.Error) as problem:
        raise InputError(f"W&B: {cause(problem)}. Check the network and the key.") from None


def preemptible() -> bool:
    """Return True if a run that is stopped now is to be queued again.

    W&B's Stop button, hyperband and the end of an agent stop a run for good. So an agent's run is queued again only if
    STUDY_PREEMPTIBLE=1, and another run also in a job of SLURM or Ray.
    """
    if (setting := os.environ.get(PREEMPTIBLE)) is not None:
        return setting == "1"
    return "WANDB_SWEEP_ID" not in os.environ and any(name in os.environ for name in CLUSTERS)


def installed() -> bool:
    """Return True if W&B is installed. Its folder of local runs, beside which this may run, is no package."""
    spec = importlib.util.find_spec("wandb")
    return spec is not None and spec.origin is not None


def of_the_server(problem: Exception) -> bool:
    """Return True for an error that other runs would meet, too: W&B is away, does not answer or refuses the account.

    All else is of one run: it was deleted (409), its sweep is not there, or a setting of it is wrong.
    """
    from wandb.errors import CommError

    of_run = any(words in str(problem) for words in ("HTTP 409", "not found"))
    return isinstance(problem, CommError | ConnectionError | TimeoutError) and not of_run


def cause(problem: Exception) -> str:
    """Return an error of W&B's client in one line."""
    return " ".join(str(problem).split())[:200].rstrip(".") or type(problem).__name__


def _given(own: Tree, tracking: Tracking) -> Tree:
    """Return a label with the user's variables and fields over it; WANDB_NAME names no run of a sweep."""
    variable = os.environ.get
    name = None if "WANDB_SWEEP_ID" in os.environ else variable("WANDB_NAME")
    return own | {
        "id": variable("WANDB_RUN_ID") or own["id"],
        "name": fitted(name or own["name"], LONGEST),
        "group": fitted(variable("WANDB_RUN_GROUP") or tracking.group or own["group"] or "", LONGEST) or None,
        "tags": [*tracking.tags, *variable("WANDB_TAGS", "").split(","), *own["tags"]],
        "project": variable("WANDB_PROJECT") or tracking.project,
        "entity": variable("WANDB_ENTITY") or tracking.entity,
    }


def begin(label: Tree, folder: Path, mode: Any, live: bool = False, patience: float | None = None) -> wandb.Run:
    """Begin a W&B run; online, continue the one of this identity if there is one.

    Args:
        label: the run, as `study.tracking.view.label` gives it, with its project and entity.
        folder: gets W&B's files.
        mode: online or offline.
        live: it trains now: W&B gets the machine's load, the commit and the packages.
        patience: seconds that W&B has to start it (default: `START`).

    Raises:
        Exception: W&B refuses it, or cannot be reached.
    """
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.split(label["config"].get("command", "study"))
    before, sys.argv = sys.argv, command  # which W&B shows; else that of the sweep or of the push
    try:
        run = wandb.init(
            **label | {"tags": list(dict.fromkeys(fitted(tag, TAG) for tag in label["tags"] if tag))},
            dir=folder,
            mode=mode,
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(
                silent=True,
                console="off",
                program=command[0],
                init_timeout=patience or START,
                finish_timeout=END,
                finish_timeout_raises=True,
                x_disable_stats=not live,
                x_disable_meta=not live,
                x_save_requirements=live,  # takes a third of the time of a pushed run
            ),
        )
    finally:
        sys.argv = before
    run.define_metric("*", step_metric="step")
    return run


def end(run: wandb.Run, view: View | None, first: int, code: int) -> None:
    """End a run: complete it if there is a view of it, else with an exit code.

    Sent are points from the step `first` on, what is known at the end, and files.
    """
    import wandb

    if view is not None:
        code = int(view.failed)
        log(run, [(step, values | view.time(step)) for step, values in [*view.points, view.end()]], first)
        kept = wandb.Artifact(view.label["id"], type="run")
        for name, content in view.files().items():
            with kept.new_file(name, mode="wb") as file:
                file.write(content)
        run.log_artifact(kept)
        run.summary.update({**view.summary, PUSHED: view.sha256})
    run.finish(exit_code=code)


def log(run: wandb.Run, shown: Iterable[Point], first: int) -> int:
    """Log points from the step `first` on: numbers, maps and the table of translations; return the step to go on at."""
    step = first - 1
    for step, values in shown:
        if step >= first:
            logged = {name: _sent(f"{name} at step {step}", value) for name, value in values.items()}
            run.log({"step": step, **{name: value for name, value in logged.items() if value is not None}}, step=step)
    return max(first, step + 1)


def _sent(name: str, value: Any) -> Any:
    """Return a value as W&B's client takes it; None for a picture or table that fails, which costs it alone."""
    import wandb

    try:
        if isinstance(value, dict):
            return wandb.Image(_drawn(value), caption=attention_map.title(value))
        if isinstance(value, list):
            return wandb.Table(columns=list(TRANSLATIONS), data=value)
    except Exception as problem:
        print(f"W&B: no {name}: {cause(problem)}", file=sys.stderr)
        return None
    return value


def _drawn(shown: Mapping[str, Any]) -> Any:
    """Return the pixels of an attention map. W&B's client would draw a figure by pyplot, which may not be imported."""
    import matplotlib
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from study import lettering

    with matplotlib.rc_context(lettering.settings()):
        size = 1.2 + 0.28 * len(shown["source"]), 1.0 + 0.22 * len(shown["target"])
        figure = lettering.TextFigure(figsize=size, dpi=80)
        attention_map.draw(figure.add_axes((0.28, 0.26, 0.7, 0.7)), shown)
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        return np.array(canvas.buffer_rgba())


def within(seconds: float, call: Callable[[], object]) -> None:
    """Call something that may wait for a server: W&B's client repeats a question for many minutes.

    Raises:
        TimeoutError: it has not ended within that time. It is left alone.
        BaseException: whatever it raises.
    """
    raised = []

    def called() -> None:
        try:
            call()
        except BaseException as problem:
            raised.append(problem)

    calling = threading.Thread(target=called, name="wandb-call", daemon=True)
    calling.start()
    calling.join(seconds)
    if calling.is_alive():
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    if raised:
        raise raised[0]


def forget() -> None:
    """End this process's session with W&B, which keeps the environment that it began in, the sweep's included."""
    with suppress(Exception, SystemExit):
        import wandb

        wandb.run = None  # a run that W&B has lost; with one, nobody could sign in again
        within(END, wandb.teardown)
    os.environ.pop("WANDB_SERVICE", None)  # a process that is gone, or was killed


def inapplicable(overrides: Tree, reason: str, folder: Path) -> None:
    """Log a cell that the configuration rejects: a sweep's server counts it as done, and a reader sees why."""
    settings: Tree = dict.fromkeys(("id", "name", "job_type"), "inapplicable") | {"group": None}
    settings |= {"tags": ["inapplicable"], "config": overrides}
    try:
        if (state := mode()) != "disabled":
            run = begin(_given(settings, Tracking()), folder, state)
            run.summary.update({"status": "inapplicable", "reason": reason})
            run.finish(exit_code=0)
    except Exception as problem:
        print(f"W&B: {cause(problem)}")
