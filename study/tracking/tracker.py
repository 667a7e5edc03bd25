"""The W&B run of an experiment: live while it trains online, else written at once from its record.

Files are the truth and W&B shows them, so what W&B lacks at the end is taken from the files (`complete`), by a run that
has just finished as by `study wandb push`.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from study import attention_map, files
from study.config import Experiment, account, experiment_id, recorded
from study.config.experiment import Tracking
from study.errors import INSTALL, InputError
from study.records import STOPPED, Record, Wandb
from study.tracking.view import BEST, MODEL, Label, Map, Read, Table, View, label, place_of, points, view_of

if TYPE_CHECKING:
    import numpy as np
    import wandb

START, END = 30.0, 60.0
"""Seconds that W&B has to start a run, and to take the rest of it at the end."""
AWAY, PAUSE = ".wandb-away", 900.0
"""File of a folder of runs that one of them writes if W&B fails, and the seconds for which all stay offline then."""
KEPT = ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ERROR_REPORTING")
"""Environment variables of W&B that a run keeps when it goes offline; the others may be what W&B refuses."""
PREEMPTIBLE, CLUSTERS = "STUDY_PREEMPTIBLE", ("SLURM_JOB_ID", "RAY_JOB_ID")
"""Variable that says whether a stopped run is to be queued again (1 or 0), and variables of who does so anyway."""
PUSHED = "view_sha256"
"""Field of the summary: SHA-256 of the view that was sent. It is written last, so an interrupted run lacks it."""


class Tracker:
    """One experiment in W&B. The environment decides the mode; without WANDB_MODE a key means online, no key offline.

    W&B never decides whether a run is made. If it fails, that is said in one line, and the run goes on offline: it is
    written for `wandb sync` when it has finished. The other runs of its folder then stay offline for a while.

    Args:
        experiment: what is run.
        folder: its folder, which gets W&B's files.
        watch: called with a line of text: the run's address, and what went wrong.
    """

    def __init__(self, experiment: Experiment, folder: Path, watch: Callable[[str], object] = print) -> None:
        self.folder, self.watch = folder, watch
        place = place_of(folder.parent, folder.name)
        self.label = _given(label(experiment_id(experiment), recorded(experiment), place), experiment.tracking)
        self.where = (
            os.environ.get("WANDB_ENTITY") or experiment.tracking.entity,
            os.environ.get("WANDB_PROJECT") or experiment.tracking.project,
        )
        self.run: wandb.Run | None = None
        self.next, self.ended, self.parent = 0, 1, os.getppid()
        self.refused: list[str] = []
        """Variables that W&B may have refused."""
        asked = os.environ.get("WANDB_MODE")
        self.mode = "disabled" if asked == "disabled" or not installed() else "offline"
        if self.mode == "disabled":
            if asked not in (None, "disabled"):
                self.watch("W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb"))
            return
        try:
            if (found := asked or ("online" if account.signed_in() else "offline")) != "offline":
                self._go_online(found)
        except Exception as problem:
            self._go_offline(problem)

    def _go_online(self, mode: str) -> None:
        away = self.folder.parent / AWAY
        if away.exists() and (since := time.time() - away.stat().st_mtime) < PAUSE:
            self.watch(f"W&B: it failed {since / 60:.0f} min ago, so the run is offline; `wandb sync` sends it later")
            return
        if mode == "online" and not account.signed_in():
            raise ValueError("no key; call `wandb login`, or set WANDB_API_KEY")
        self.run = begin(self.label, *self.where, self.folder, mode, live=True)
        self.mode, self.next = mode, self.run.starting_step
        self.watch(f"W&B: {self.run.url}")

    def catch_up(self, gradients: Mapping[str, Any]) -> None:
        """Send what earlier calls of this run have written. `gradients` are the measures of their validations."""
        for step, values in points(reader(self.folder), (), gradients) if self.run is not None else ():
            self.log(values, step)

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Send numbers and maps of a step, unless W&B has it."""
        if self.run is None or step < self.next - 1:
            return
        try:
            log(self.run, {"step": step, **values}, step)
            self.next = step + 1
        except Exception as problem:
            self._go_offline(problem)

    def facts(self) -> Wandb | None:
        """Return the record's section on the W&B run; None without one."""
        if self.mode == "disabled":
            return None
        return Wandb(id=self.label.id, url=self.run.url if self.run else None)

    def stop(self, code: object) -> None:
        """Note that a signal ends the run: it is to be queued again where it is preempted, else it is stopped for good.

        A file in its folder says that W&B, by an agent that goes on, has stopped it.
        """
        self.ended = code if isinstance(code, int) and code else 1
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
        if self.mode == "disabled":
            return
        view = None
        if record is not None:
            view = view_of(record, place_of(self.folder.parent, self.folder.name), reader(self.folder))
        try:
            if self.run is not None:
                within(2 * END, lambda: self._end(self.run, view, self.next))
        except TimeoutError:
            self._mark_away()
            place = Path(self.run.dir).parent if self.run else self.folder
            self.watch(f"W&B: not all was sent within {END:.0f} s; `wandb sync {place}` sends it")
        except Exception as problem:
            self._go_offline(problem)
        if self.run is None and view is not None:
            try:
                with without(self.refused):
                    run = begin(self.label, *self.where, self.folder, "offline")
                    within(2 * END, lambda: self._end(run, view, 0))
            except Exception as problem:
                self.watch(f"W&B: {cause(problem)}; `study wandb push` sends the run later")
        forget()

    def _end(self, run: wandb.Run | None, view: View | None, first: int) -> None:
        assert run is not None
        if view is not None:
            complete(run, view, first)
        own = Path(run.dir).parent.resolve()
        run.finish(exit_code=self.ended if view is None else int(view.failed))
        # What an earlier call has left of this run is a part of it, and `wandb sync` stops at a torn file.
        for other in self.folder.glob("wandb/*run-*") if view is not None else ():
            if other.resolve() != own:
                shutil.rmtree(other, ignore_errors=True)

    def _go_offline(self, problem: Exception) -> None:
        """Say why; the run is written when it has finished."""
        self.run, self.mode = None, "offline"
        forget()
        gone = "not found" in str(problem)  # a sweep, under which nothing can be sent
        kept = (*KEPT, *(() if gone else account.OF_A_SWEEP))
        self.refused = [name for name in os.environ if name.startswith("WANDB_") and name not in kept]
        if not (gone or deleted(problem)):
            self._mark_away()
        later = (
            "`study wandb push` sends it later under another id" if deleted(problem) else "`wandb sync` sends it later"
        )
        self.watch(f"W&B: {cause(problem)}; the run goes on offline, and {later}")

    def _mark_away(self) -> None:
        with suppress(OSError):
            files.write(
                self.folder.parent / AWAY,
                "W&B failed; the runs of this folder stay offline for a while.\n",
                durable=False,
            )


def preemptible() -> bool:
    """Return True if a run that is stopped now is to be queued again.

    W&B's Stop button, hyperband and the end of an agent stop a run for good. So an agent's run is queued again only if
    STUDY_PREEMPTIBLE=1, and another run also in a job of SLURM or Ray.
    """
    if (asked := os.environ.get(PREEMPTIBLE)) is not None:
        return asked == "1"
    return "WANDB_SWEEP_ID" not in os.environ and any(name in os.environ for name in CLUSTERS)


def installed() -> bool:
    """Return True if W&B is installed. Its folder of local runs, beside which this may run, is no package."""
    try:
        from wandb import init  # noqa: F401
    except ImportError:
        return False
    return True


def reader(folder: Path) -> Read:
    """Return a reader of the files of a run's folder."""

    def read(name: str) -> bytes | None:
        try:
            return files.read(folder / name, 2**34 if name == MODEL else files.LARGEST, below=folder)
        except (OSError, InputError):
            return None

    return read


def deleted(problem: Exception) -> bool:
    """Return True if W&B refuses an id because its run was deleted. W&B never accepts such an id again."""
    return "HTTP 409" in str(problem)


def cause(problem: Exception) -> str:
    """An error of W&B's client in one line."""
    if isinstance(problem, ValidationError):
        first = problem.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")


def _given(own: Label, tracking: Tracking) -> Label:
    """Return a label with the user's variables and fields over it."""
    given = os.environ.get
    return Label(
        id=given("WANDB_RUN_ID") or own.id,
        name=given("WANDB_NAME") or own.name,
        group=given("WANDB_RUN_GROUP") or tracking.group or own.group,
        tags=(*tracking.tags, *given("WANDB_TAGS", "").split(","), *own.tags),
        job_type=own.job_type,
        config=own.config,
    )


def begin(
    label: Label,
    entity: str | None,
    project: str,
    folder: Path,
    mode: Any,
    live: bool = False,
    patience: float | None = None,
) -> wandb.Run:
    """Begin a W&B run; online, continue the one of this identity if there is one.

    Args:
        label: the run.
        entity: owner of the project.
        project: its project.
        folder: gets W&B's files.
        mode: online or offline.
        live: it trains now: W&B gets the machine's load, the commit and the packages.
        patience: seconds that W&B has to start it (default: `START`).

    Raises:
        Exception: W&B refuses it, or cannot be reached.
    """
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.split(label.config.get("command", "study"))
    before, sys.argv = sys.argv, command  # which W&B shows; else that of the sweep or of the push
    try:
        run = wandb.init(
            project=project,
            entity=entity,
            group=label.group,
            job_type=label.job_type,
            id=label.id,
            name=label.name,
            tags=list(dict.fromkeys(tag[:64] for tag in label.tags if tag)),
            dir=folder,
            mode=mode,
            resume="allow" if mode == "online" else None,
            config=label.config,
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
    for metric, best in BEST.items():
        run.define_metric(metric, step_metric="step", summary=best)
    return run


def complete(run: wandb.Run, view: View, first: int) -> None:
    """Send what a run lacks: points from the step `first` on, what is known at the end, and its files."""
    import wandb

    missing = [(step, {"step": step, **values}) for step, values in view.points if step >= first]
    for step, values in [*missing, *([view.end] if first <= view.last + 1 else [])]:
        log(run, values | view.time(step), step)
    kept = wandb.Artifact(view.label.id, type="run")
    for name, content in view.files().items():
        with kept.new_file(name, mode="wb") as file:
            file.write(content)
    run.log_artifact(kept)
    run.summary.update({**view.summary, PUSHED: view.sha256})


def log(run: wandb.Run, values: Mapping[str, Any], step: int) -> None:
    """Log numbers, maps and tables at a step."""
    run.log({name: _sent(value) for name, value in values.items()}, step=step)


def _sent(value: Any) -> Any:
    """A value as W&B's client takes it. A map that cannot be drawn is left out."""
    import wandb

    if isinstance(value, Map):
        try:
            return wandb.Image(_drawn(json.dumps(value.shown)), caption=caption(value))
        except (KeyError, TypeError, ValueError):  # of weights that are no matrix of numbers
            return None
    if isinstance(value, Table):
        return wandb.Table(columns=list(value.columns), data=[[_sent(cell) for cell in row] for row in value.rows])
    return value


@lru_cache(maxsize=1)  # the run shows its last map twice, alone and in the table of translations
def _drawn(text: str) -> np.ndarray:
    """Return the picture of an attention map as pixels, [height, width, 3]."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = json.loads(text)
    size = 1.2 + 0.28 * len(shown["source"]), 1.0 + 0.22 * len(shown["target"])
    figure = Figure(figsize=size, dpi=80)
    canvas = FigureCanvasAgg(figure)
    attention_map.draw(figure.add_axes((0.28, 0.26, 0.7, 0.7)), shown)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels: np.ndarray = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return pixels[..., :3]


def caption(drawn: Map) -> str:
    """Return the text below a map: `cross, layer 0, mean over heads · AER on validation 0.21 · Der Hund schläft.`."""
    source = (drawn.shown.get("text") or {}).get("source")
    error = None if drawn.aer is None else f"AER on validation {drawn.aer:.2f}"
    return " · ".join(filter(None, [attention_map.title(drawn.shown), error, source]))


def within(seconds: float, call: Callable[[], object]) -> None:
    """Call something that may wait for a server: W&B's client repeats a question for many minutes.

    Raises:
        TimeoutError: it has not ended within that time. It is left alone.
        BaseException: whatever it raises.
    """
    raised: list[BaseException] = []

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

        within(END, wandb.teardown)


@contextmanager
def without(names: Iterable[str]) -> Iterator[None]:
    """Without some of what the environment says to W&B: it may be what W&B refuses."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    taken.pop("WANDB_SERVICE", None)  # a process that may be gone
    try:
        yield
    finally:
        os.environ.update(taken)


def inapplicable(overrides: dict[str, Any], reason: str, folder: Path) -> None:
    """Log a cell that the configuration rejects: a sweep's server counts it as done, and a reader sees why."""
    if os.environ.get("WANDB_MODE") == "disabled" or not installed():
        return
    try:
        own = _given(
            Label("inapplicable", "inapplicable", None, ("inapplicable",), "inapplicable", overrides), Tracking()
        )
        project = os.environ.get("WANDB_PROJECT") or Tracking().project
        mode = os.environ.get("WANDB_MODE") or ("online" if account.signed_in() else "offline")
        run = begin(own, os.environ.get("WANDB_ENTITY"), project, folder, mode)
        run.summary.update({"status": "inapplicable", "reason": reason})
        run.finish(exit_code=0)
    except Exception as problem:
        print(f"W&B: {cause(problem)}")
