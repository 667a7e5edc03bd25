"""The W&B run of an experiment while it trains, and the parts of W&B's client that pushed runs share with it."""

from __future__ import annotations

import glob
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from study import attention_map, files
from study.config import Experiment, account, experiment_id, recorded
from study.config.experiment import Tracking
from study.errors import INSTALL, InputError
from study.records import Record, Wandb
from study.tracking.view import BEST, MAPS, Heads, Label, Map, Table, View, label, lines, mapped, place_of, view_of

if TYPE_CHECKING:
    import numpy as np
    import wandb
    from matplotlib.axes import Axes

START, END = 30.0, 60.0
"""Seconds that W&B has to start a run, and to take the rest of it at the end."""
OFFLINE: Any = "offline"
KEPT = ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ERROR_REPORTING")
"""Environment variables of W&B as a whole, not of one run."""
MODEL, LOG = "model.pt", "log.txt"
PLAIN: Mapping[str, Any] = {"x_disable_stats": True, "x_disable_meta": True, "x_save_requirements": False}
"""Settings of every other run. To list the installed packages takes a third of the time of a pushed run."""
SYSTEM: Mapping[str, Any] = dict.fromkeys(PLAIN, False) | {"x_save_requirements": True}
"""Settings of a run that trains online: W&B gets the machine's load, the commit, the command and the packages."""


class Run:
    """One W&B run. The environment decides the mode; without WANDB_MODE a key means online and no key offline.

    W&B never decides whether a run is made. What it refuses, or loses, is said in a line, and the run goes on offline,
    with all that was logged before; where even that fails, or W&B is not installed, it goes on without W&B.

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
        self._maps = dict(lines(reader(folder)(MAPS)))
        """Maps that an earlier call of this run has drawn, by step."""
        folder.mkdir(parents=True, exist_ok=True)
        asked = os.environ.get("WANDB_MODE")
        if asked != "disabled" and installed():
            self._start()
        elif asked not in (None, "disabled"):
            self.watch("W&B: not installed, so the run is not tracked. " + INSTALL.format("wandb"))

    def log(self, values: dict[str, Any], step: int, shown: dict[str, Any] | None = None) -> None:
        """Scalars at a step, and an attention map as an image."""
        if shown is None:
            shown = self._maps.get(step)
        else:
            files.append(self.folder / MAPS, json.dumps({"step": step, **shown}, ensure_ascii=False) + "\n")
        self._log({"step": step, **values, **mapped(shown, values)}, step)

    def _log(self, values: dict[str, Any], step: int) -> None:
        self._logged.append((step, values))
        try:
            if self.run is not None:
                log(self.run, values, step)
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
        """Complete the run with its scores, tables and files; without a record it ends as failed, or as preempted."""
        if self.run is None:
            return
        view = None if record is None else view_of(record, _place(self.folder), reader(self.folder), self.folder)
        try:
            within(2 * END, lambda: self._finish(view))
        except TimeoutError:
            self.watch(f"W&B: not all was sent within {END:.0f} s; `wandb sync {self._files()}` sends it")
        except Exception as problem:
            self._go_offline(problem)
            with suppress(Exception):
                within(2 * END, lambda: self._finish(view))
        forget()

    def _finish(self, view: View | None) -> None:
        if self.run is None:
            return
        if view is not None:
            step, values = view.end
            log(self.run, values, step)
            self.run.summary.update(view.summary)
            attach(self.run, view)
        attach_log(self.run, self.folder)
        self.run.finish(exit_code=0 if view is not None else self.unfinished)
        found = self._folders(glob.escape(self.run.id))
        if (own := self._files().resolve()) in found:
            # It is whole, so what an earlier call left of this run is a part of it; `wandb sync` stops at torn files.
            for older in found - {own}:
                shutil.rmtree(older, ignore_errors=True)

    def _files(self) -> Path:
        return Path(self.run.dir).parent if self.run else self.folder / "wandb"

    def _start(self) -> None:
        """As the environment says, else offline, else offline whatever the environment says, else not at all."""
        try:
            self.mode = mode()
            if self.mode == "online" and not account.signed_in():
                raise ValueError("no key; call `wandb login`, or set WANDB_API_KEY")
            self.run = self._begin(self.mode)
        except Exception as problem:
            self._go_offline(problem)
        if self.run is not None and self.mode == "online":
            self.watch(f"W&B: {self.run.url}")
            with suppress(Exception):
                if "WANDB_SWEEP_ID" not in os.environ:  # an agent's trials must end within its patience
                    within(START, partial(self.run.log_code, str(Path(__file__).parents[1]), name="study"))

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
        """A W&B run, or nothing of it on disk. `plain`: as nobody asked for anything."""
        before = self._folders("*")
        config = recorded(self.experiment)
        own = label(experiment_id(self.experiment), config, _place(self.folder))
        try:
            return _begin(own, Tracking() if plain else self.experiment.tracking, self.folder, mode)
        except Exception:
            forget()
            for half in self._folders("*") - before:
                shutil.rmtree(half, ignore_errors=True)
            raise

    def _folders(self, name: str) -> set[Path]:
        return {path.resolve() for path in (self.folder / "wandb").glob(f"*run-*-{name}")}


def installed() -> bool:
    """Return True if W&B is installed. Its folder of local runs, beside which this may run, is no package."""
    try:
        from wandb import init  # noqa: F401
    except ImportError:
        return False
    return True


def reader(folder: Path) -> Callable[[str], bytes | None]:
    """Return a reader of the files of a run's folder."""

    def read(name: str) -> bytes | None:
        try:
            return files.read(folder / name, below=folder)
        except (OSError, InputError):
            return None

    return read


def _place(folder: Path) -> Any:
    return place_of(folder.parent, folder.name)


def deleted(problem: Exception) -> bool:
    """Return True if W&B refuses an id because its run was deleted. W&B never accepts such an id again."""
    return "HTTP 409" in str(problem)


def cause(problem: Exception) -> str:
    """An error of W&B's client in one line."""
    if isinstance(problem, ValidationError):
        first = problem.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (str(problem).strip() or type(problem).__name__).splitlines()[0].rstrip(".")


def _begin(own: Label, tracking: Tracking, folder: Path, mode: Any) -> wandb.Run:
    """Begin the run of a label; the user's variables and fields lie over it."""
    told = os.environ.get
    tags = (*tracking.tags, *told("WANDB_TAGS", "").split(","), *own.tags)
    return begin(
        Label(
            id=told("WANDB_RUN_ID") or own.id,
            name=told("WANDB_NAME") or own.name,
            group=told("WANDB_RUN_GROUP") or tracking.group or own.group,
            tags=tags,
            job_type=own.job_type,
            config=own.config,
        ),
        told("WANDB_ENTITY") or tracking.entity,
        told("WANDB_PROJECT") or tracking.project,
        folder,
        mode,
        SYSTEM if mode == "online" else {},
    )


def begin(
    label: Label, entity: str | None, project: str, folder: Path, mode: Any, more: Mapping[str, Any] | None = None
) -> wandb.Run:
    """Begin a W&B run; online, continue the one of this identity if there is one.

    Raises:
        Exception: W&B refuses it, or cannot be reached.
    """
    import wandb

    settings: dict[str, Any] = {**PLAIN, **(more or {})}
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
            init_timeout=START,
            finish_timeout=END,
            finish_timeout_raises=True,
            **settings,
        ),
    )
    run.define_metric("*", step_metric="step")
    for metric, best in BEST.items():
        run.define_metric(metric, step_metric="step", summary=best)
    return run


def log(run: wandb.Run, values: Mapping[str, Any], step: int) -> None:
    """Log numbers, maps and tables at a step."""
    run.log({name: _sent(value) for name, value in values.items()}, step=step)


def _sent(value: Any) -> Any:
    """A value as W&B's client takes it. A map that cannot be drawn is left out."""
    import wandb

    if isinstance(value, Map):
        try:
            pixels, text = _pixels(json.dumps(value.shown)), caption(value)
        except (KeyError, TypeError, ValueError):  # of weights that are no matrix of numbers
            return None
        return wandb.Image(pixels, caption=text)
    if isinstance(value, Heads):
        return wandb.Image(heat_map(value), caption=value.title)
    if isinstance(value, Table):
        return wandb.Table(columns=list(value.columns), data=[[_sent(cell) for cell in row] for row in value.rows])
    return value


@lru_cache(maxsize=1)
def _pixels(shown: str) -> np.ndarray:
    """Draw a map once that a run shows twice, alone and in the table of translations."""
    return drawn(json.loads(shown))


def caption(drawn: Map) -> str:
    """Return the text below a map: `cross, layer 0, mean over heads · AER on validation 0.21 · Der Hund schläft.`."""
    source = (drawn.shown.get("text") or {}).get("source")
    error = None if drawn.aer is None else f"AER on validation {drawn.aer:.2f}"
    return " · ".join(filter(None, [attention_map.title(drawn.shown), error, source]))


def attach(run: wandb.Run, view: View) -> None:
    """Attach record, translations and map as an artifact, and the model as another. W&B keeps equal files once."""
    import wandb

    folder = view.folder
    kept = wandb.Artifact(f"{view.label.id}-record", type="record")
    for name, content in view.files().items():
        if folder is not None:
            kept.add_file(str(folder / name), name=name, policy="immutable", skip_cache=True)
        else:
            with kept.new_file(name, mode="wb") as file:
                file.write(content)
    run.log_artifact(kept)
    if folder is not None and (folder / MODEL).is_file():
        model = wandb.Artifact(f"{view.label.id}-model", type="model")
        model.add_file(str(folder / MODEL), policy="immutable", skip_cache=True)
        run.log_artifact(model)


def attach_log(run: wandb.Run, folder: Path) -> None:
    """Attach the log of a trial, if there is one."""
    if (folder / LOG).is_file() and (folder / LOG).stat().st_size:
        run.save(str(folder / LOG), base_path=str(folder), policy="end")


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


def drawn(shown: Mapping[str, Any]) -> np.ndarray:
    """Return the picture of an attention map as pixels, [height, width, 3]."""
    size = 1.2 + 0.28 * len(shown["source"]), 1.0 + 0.22 * len(shown["target"])
    return _picture(size, (0.28, 0.26, 0.7, 0.7), lambda axes: attention_map.draw(axes, shown))


def heat_map(heads: Heads) -> np.ndarray:
    """Return the heat map of heads as pixels, [height, width, 3]: from 0 (white) to 1 (dark), with the numbers."""
    width, height = 1.2 + 0.65 * len(heads.columns), 0.85 + 0.2 * len(heads.rows)

    def draw(axes: Axes) -> None:
        values = [[float("nan") if value is None else value for value in row] for row in heads.values]
        axes.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        names = [name.replace("_", " ") for name in heads.columns]
        axes.set_xticks(range(len(names)), names, rotation=30, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(heads.rows)), heads.rows)
        axes.tick_params(axis="both", labelsize=7.5, length=0, labeltop=True, labelbottom=False)
        for at, row in enumerate(heads.values):
            for column, value in enumerate(row):
                colour = "white" if (value or 0) > 0.55 else "black"
                axes.text(column, at, "–" if value is None else f"{value:.2f}", ha="center", va="center",
                          fontsize=7, color=colour)  # fmt: skip

    return _picture((width, height), (1.1 / width, 0.05 / height, 1 - 1.5 / width, 1 - 0.85 / height), draw)


def _picture(
    size: tuple[float, float], place: tuple[float, float, float, float], draw: Callable[[Axes], Any]
) -> np.ndarray:
    """Return the pixels of a picture with one pair of axes; its size in inches, their place in shares of it."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=80)
    canvas = FigureCanvasAgg(figure)
    draw(figure.add_axes(place))
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels: np.ndarray = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return pixels[..., :3]


def mode() -> Any:
    """Return WANDB_MODE, else online with a key and offline without."""
    return os.environ.get("WANDB_MODE") or ("online" if account.signed_in() else "offline")


def replay(experiment: Experiment, record: Record, folder: Path) -> None:
    """Log a finished run again, so that a sweep whose trial was trained elsewhere completes."""
    run = Run(experiment, folder)
    for step, values in view_of(record, _place(folder), reader(folder)).points:
        run._log({"step": step, **values}, step)
    run.finish(record)


def inapplicable(overrides: dict[str, Any], reason: str, folder: Path) -> None:
    """Log a cell that the configuration rejects: a sweep's server counts it as done, and a reader sees why."""
    if os.environ.get("WANDB_MODE") == "disabled" or not installed():
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        own = Label("inapplicable", "inapplicable", None, ("inapplicable",), "inapplicable", overrides)
        run = _begin(own, Tracking(), folder, mode())
        run.summary.update({"status": "inapplicable", "reason": reason})
        run.finish(exit_code=0)
    except Exception as problem:
        print(f"W&B: {cause(problem)}")
