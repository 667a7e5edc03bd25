"""W&B: the place to look. The record stays the place to compute from."""

from __future__ import annotations

import glob
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from pydantic import ValidationError

from study.config import Experiment, account, experiment_id
from study.config.experiment import Tracking
from study.errors import INSTALL
from study.records import Record, Wandb
from study.training import points

if TYPE_CHECKING:
    import wandb

START, END = 30.0, 60.0
"""Seconds that W&B has to start a run, and to take the rest of it at the end."""
OFFLINE: Any = "offline"
BEST = {"valid_bleu": "max", "valid_exact": "max", "valid_loss": "min"}
"""Best value of a curve, which the summary shows beside the scores of the tested step."""
KEPT = ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ERROR_REPORTING")
"""Environment variables of W&B as a whole, not of one run."""


class Run:
    """One W&B run. The environment decides the mode; without WANDB_MODE a key means online and no key offline.

    Where W&B is not installed, no run is tracked.

    W&B never decides whether a run is made. What it refuses, or loses, is said in a line, and the run goes on offline,
    with all that was logged before; where even that fails, it goes on without W&B.

    Args:
        experiment: what is run.
        folder: its folder, which gets W&B's files.
        watch: called with a line of text: the run's address, and what went wrong.
    """

    def __init__(self, experiment: Experiment, folder: Path, watch: Callable[[str], object] = print) -> None:
        self.experiment, self.folder, self.watch = experiment, folder, watch
        self.run: wandb.Run | None = None
        self.mode, self.unfinished = "", 1
        self._logged: list[tuple[int, dict[str, Any]]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._start()

    @property
    def shows(self) -> bool:
        """Return True if the run is tracked, so that images can be viewed."""
        return self.run is not None and self.mode != "disabled"

    def log(self, values: dict[str, Any], step: int, shown: dict[str, Any] | None = None) -> None:
        """Scalars at a step, and an attention map as an image."""
        self._logged.append((step, values))
        try:
            if self.run is not None:
                log(self.run, values, step, shown)
        except Exception as problem:
            self._go_offline(problem)

    def facts(self) -> Wandb | None:
        """Return the record's section on the W&B run; None without one."""
        if self.run is None:
            return None
        return Wandb(id=self.run.id, url=self.run.url if self.mode == "online" else None)

    def preempt(self, code: object) -> None:
        """Say that the run is to be resumed: a sweep's server then hands it out again."""
        self.unfinished = code if isinstance(code, int) and code else 1
        with suppress(Exception):
            if self.run is not None:
                self.run.mark_preempting()

    def finish(self, record: Record | None) -> None:
        """Put the scores into the summary and end the run; without a record it ends as failed, or as preempted."""
        try:
            self._finish(record)
        except TimeoutError:
            self.watch(f"W&B: not all was sent within {END:.0f} s; `wandb sync {self._files()}` sends it")
        except Exception as problem:
            self._go_offline(problem)
            with suppress(Exception):
                self._finish(record)
        forget()

    def _finish(self, record: Record | None) -> None:
        if self.run is None:
            return
        if record is not None:
            self.run.summary.update(results(record))
        self.run.finish(exit_code=0 if record is not None else self.unfinished)
        found = self._folders(glob.escape(self.run.id))
        if (own := self._files().resolve()) in found:
            # It is whole, so what an earlier call left of this run is a part of it; `wandb sync` stops at torn files.
            for older in found - {own}:
                shutil.rmtree(older, ignore_errors=True)

    def _files(self) -> Path:
        return Path(self.run.dir).parent if self.run else self.folder / "wandb"

    def _start(self) -> None:
        """As the environment says, else offline, else offline whatever the environment says, else not at all."""
        if not installed():
            self.mode = "disabled"
            if os.environ.get("WANDB_MODE", "disabled") != "disabled":
                self.watch("W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb"))
            return
        try:
            import wandb

            self.mode = mode()
            if self.mode == "online" and not account.signed_in():
                raise wandb.errors.UsageError("no key; call `wandb login`, or set WANDB_API_KEY")
            self.run = self._begin(self.mode)
        except Exception as problem:
            self._go_offline(problem)
        if self.run is not None and self.mode == "online":
            self.watch(f"W&B: {self.run.url}")

    def _go_offline(self, problem: Exception) -> None:
        """Say why, and begin again offline with what was logged."""
        self.run, self.mode = None, "offline"
        whole = [name for name in os.environ if name.startswith("WANDB_") and name not in KEPT]
        refused = account.OF_A_SWEEP if "not found" in str(problem) else ()  # it would be sent under that sweep
        for plain, left_out in ((False, refused), (True, whole)):
            forget()
            with suppress(Exception), without(left_out):
                self.run = self._begin(OFFLINE, plain)
                for step, values in self._logged:
                    log(self.run, values, step)
                break
        later = (
            "`study wandb push` sends it later under another id" if deleted(problem) else "`wandb sync` sends it later"
        )
        goes = f"offline, and {later}" if self.run else "without it"
        self.watch(f"W&B: {cause(problem)}; the run goes on {goes}")

    def _begin(self, mode: Any, plain: bool = False) -> wandb.Run:
        """A W&B run, or nothing of it on disk."""
        before = self._folders("*")
        try:
            return _init(self.experiment, self.folder, mode, plain)
        except Exception:
            forget()
            for half in self._folders("*") - before:
                shutil.rmtree(half, ignore_errors=True)
            raise

    def _folders(self, name: str) -> set[Path]:
        return {path.resolve() for path in (self.folder / "wandb").glob(f"*run-*-{name}")}


def _init(experiment: Experiment, folder: Path, mode: Any, plain: bool = False) -> wandb.Run:
    """Begin the W&B run of an experiment; `plain`: as nobody asked for anything."""
    name, tracking = experiment_id(experiment), Tracking() if plain else experiment.tracking
    tags = (experiment.data.name, experiment.model.family)
    pruned = experiment.pruning.question if experiment.pruning else None
    return _begin(name, tracking, folder, mode, _config(experiment), tags, job(pruned))


def deleted(problem: Exception) -> bool:
    """Return True if W&B refuses an id because its run was deleted. W&B never accepts such an id again."""
    return "HTTP 409" in str(problem)


def cause(problem: Exception) -> str:
    """An error of W&B's client in one line."""
    if isinstance(problem, ValidationError):
        first = problem.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")


def _config(experiment: Experiment) -> dict[str, Any]:
    """Return the fields that decide numbers, nested as in the record, and the identity; nothing of this machine."""
    whole = experiment.model_dump(mode="json", exclude={"trainer": True, "tracking": True, "out": True})
    whole["data"].pop("folder", None)
    return {**whole, "experiment_id": experiment_id(experiment)}


def job(question: str | None) -> str:
    """Job type: train, prune or retrain. `question` is the field pruning.question; None: nothing is pruned."""
    return "train" if question is None else "retrain" if question == "retrain" else "prune"


def _begin(
    name: str,
    tracking: Tracking,
    folder: Path,
    mode: Any,
    config: dict[str, Any],
    tags: tuple[str, ...],
    job_type: str,
) -> wandb.Run:
    return begin(
        os.environ.get("WANDB_RUN_ID") or name,
        name,
        os.environ.get("WANDB_ENTITY") or tracking.entity,
        os.environ.get("WANDB_PROJECT") or tracking.project,
        folder,
        mode,
        config=config,
        group=os.environ.get("WANDB_RUN_GROUP") or tracking.group,
        tags=(*tracking.tags, *os.environ.get("WANDB_TAGS", "").split(","), *tags),
        job_type=job_type,
    )


def begin(
    identity: str,
    name: str,
    entity: str | None,
    project: str,
    folder: Path,
    mode: Any,
    *,
    config: dict[str, Any],
    group: str | None,
    tags: Sequence[str],
    job_type: str,
) -> wandb.Run:
    """Begin a W&B run; online, continue the one of this identity if there is one.

    Raises:
        Exception: W&B refuses it, or cannot be reached.
    """
    import wandb

    run = wandb.init(
        project=project,
        entity=entity,
        group=group,
        job_type=job_type,
        id=identity,
        name=name,
        tags=list(dict.fromkeys(tag[:64] for tag in tags if tag)),
        dir=folder,
        mode=mode,
        resume="allow" if mode == "online" else None,
        config=config,
        settings=wandb.Settings(
            silent=True,
            console="off",
            init_timeout=START,
            finish_timeout=END,
            finish_timeout_raises=True,
            x_disable_stats=True,
            x_disable_meta=True,
        ),
    )
    run.define_metric("*", step_metric="step")
    for metric, best in BEST.items():
        run.define_metric(metric, step_metric="step", summary=best)
    return run


def log(run: wandb.Run, values: dict[str, Any], step: int, shown: dict[str, Any] | None = None) -> None:
    """Log scalars at a step, and an attention map as an image."""
    told: dict[str, Any] = {"step": step, **values}
    if shown is not None:
        import wandb

        told["attention"] = wandb.Image(drawn(shown), caption=(shown.get("text") or {}).get("source"))
    run.log(told, step=step)


def forget() -> None:
    """End this process's session with W&B, which keeps the environment that it began in, the sweep's included."""

    def end() -> None:
        with suppress(Exception, SystemExit):
            import wandb

            wandb.teardown()

    ending = threading.Thread(target=end, name="wandb-teardown", daemon=True)
    ending.start()
    ending.join(END)  # it waits for a process that may wait for a server


@contextmanager
def without(names: Iterable[str]) -> Iterator[None]:
    """Without some of what the environment says to W&B: it may be what W&B refuses."""
    taken = {name: os.environ.pop(name) for name in names if name in os.environ}
    taken.pop("WANDB_SERVICE", None)  # a process that may be gone
    try:
        yield
    finally:
        os.environ.update(taken)


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


def installed() -> bool:
    """Return True if W&B is installed. Its folder of local runs, beside which this may run, is no package."""
    try:
        from wandb import init  # noqa: F401
    except ImportError:
        return False
    return True


def mode() -> Any:
    """online, offline or disabled."""
    return os.environ.get("WANDB_MODE") or ("online" if account.signed_in() else "offline")


def summary(record: Record) -> dict[str, float | None]:
    """Scores of whole splits as `<split>/<metric>`, the names that a sweep file's metric uses."""
    return {f"{score.split}/{score.metric}": score.value for score in record.scores if score.subset is None}


def costs(record: Record) -> dict[str, float | None]:
    """Sizes and resources of a run as `cost/<name>`: numbers, operations per target token, tokens/s, s, bytes."""
    found: dict[str, float | None] = {}
    if record.model:
        found |= record.model.model_dump()
    if record.resources:
        found |= record.resources.model_dump()
    return {f"cost/{name}": value for name, value in found.items() if value is not None}


def results(record: Record) -> dict[str, Any]:
    """Return the summary of a run: its status, the tested step, the scores of that step, and costs."""
    tested = {} if record.selection is None else {"tested_step": record.selection.step}
    return {"status": record.status, **tested, **summary(record), **costs(record)}


def replay(experiment: Experiment, record: Record, folder: Path) -> None:
    """Log a finished run again, so that a sweep whose trial was trained elsewhere completes."""
    run = Run(experiment, folder)
    found = points.of_record(record, _content(folder / "training.jsonl"), _content(folder / "history.jsonl"))
    shown = _shown(folder / "attention.json")
    for number, (step, values) in enumerate(found, 1):
        run.log(values, step, shown if number == len(found) else None)
    run.finish(record)


def _content(path: Path) -> bytes | None:
    """The bytes of a file; None where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _shown(path: Path) -> dict[str, Any] | None:
    """The attention map of the tested model, if there is one."""
    try:
        shown = json.loads(path.read_text(encoding="utf-8"))
        return shown if shown["weights"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def inapplicable(overrides: dict[str, Any], reason: str, folder: Path) -> None:
    """Log a cell that the configuration rejects: a sweep's server counts it as done, and a reader sees why."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run = _begin("inapplicable", Tracking(), folder, mode(), overrides, ("inapplicable",), "inapplicable")
        run.summary.update({"status": "inapplicable", "reason": reason})
        run.finish(exit_code=0)
    except Exception as problem:
        print(f"W&B: {cause(problem)}")
