"""Resources that this process may use, and their division into slots for runs.

The command, or the job in which it runs, makes them once and gives them to the local engine. GPUs are counted without
torch and without CUDA: a launcher that had touched CUDA could not fork trials.
"""

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from study.config import Experiment
from study.errors import InputError
from study.processes import PER_RUN, processor
from study.sweep.file import refusal

PER_GPU = 8
"""Small models leave most of a GPU idle: at most so many runs share one, unless each takes several. An assumption."""
ON_GPU = 2**31
"""Memory of a GPU that a run gets at least, in bytes. An assumption: it was never measured on a GPU."""


class Slot(NamedTuple):
    """Devices for one run: its CUDA_VISIBLE_DEVICES (None: the launcher's own), and the threads of each process."""

    gpu: str | None
    threads: int


class Resources(NamedTuple):
    """Cores, what sets their number, memory, and the free memory of GPUs by their entry of CUDA_VISIBLE_DEVICES.

    Memory is in bytes.
    """

    cores: int
    limit: str
    memory: float
    gpus: Mapping[str, int]

    def slots(self, experiments: Iterable[Experiment], wanted: int | None = None) -> list[Slot]:
        """Divide the resources into slots. Each has the devices that the largest run needs.

        Args:
            experiments: the runs.
            wanted: number of slots (default: by cores, memory and GPUs).
        """
        every = [experiment.trainer for experiment in experiments]
        on_gpus = [trainer for trainer in every if trainer.device != "cpu"]
        devices = max((trainer.devices for trainer in on_gpus or every), default=1)
        gpus = list(self.gpus) if on_gpus else []
        groups = [",".join(gpus[i : i + devices]) for i in range(0, len(gpus) - devices + 1, devices)]
        count = max(min(self.cores // devices, int(self.memory // (PER_RUN * devices))), 1)
        if groups:
            fit = max(min(PER_GPU, min(self.gpus.values()) // ON_GPU), 1)
            count = min(fit * len(groups), max(count, len(groups))) if devices == 1 else len(groups)
        count = wanted or count
        threads = max(self.cores // (count * devices), 1)
        return [Slot(groups[i % len(groups)] if groups else None, threads) for i in range(count)]

    def describe(self, slots: Sequence[Slot]) -> str:
        """Return one line: `2 at a time (1 GPU, 2 cores of SLURM)`."""
        used = {gpu for slot in slots for gpu in (slot.gpu or "").split(",") if gpu}
        gpus = f"{plural(len(used), 'GPU')}, " if used else ""
        return f"{len(slots)} at a time ({gpus}{plural(self.cores, 'core')} of {self.limit})"


def plural(count: int, noun: str) -> str:
    """`1 core`, `2 cores`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


class Plan(NamedTuple):
    """Jobs of an engine for some runs.

    Attributes:
        words: its jobs and their resources, in one line.
        script: lines for a shell that do the same.
        at_once: runs at a time.
        cores: cores of a run.
        gpus: GPUs of a run, such as 0.25.
    """

    words: str
    script: str
    at_once: int
    cores: float
    gpus: float


class Asked(BaseModel):
    """Resources that an engine is asked for, as its option gives them: `gpus=1,time=4h`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def parse(cls, option: str, text: str | None) -> Self:
        """Return the resources that an option names as `name=value,name=value`.

        Raises:
            InputError: a part is no name=value, a name is unknown, or a value does not fit.
        """
        try:
            return cls.model_validate(dict(part.strip().split("=", 1) for part in text.split(",")) if text else {})
        except ValidationError as error:
            raise InputError(f"{option}: {refusal(error)}") from None
        except ValueError:
            usage = (cls.__doc__ or "").splitlines()[0]
            raise InputError(f"{option}: expected name=value,name=value, got {text!r}. {usage}") from None


def here() -> Resources:
    """Return what this process may use.

    Raises:
        InputError: CUDA_VISIBLE_DEVICES names a GPU that is not there.
    """
    assigned = {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"} & os.environ.keys()
    if "SLURM_JOB_ID" in os.environ and not assigned:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a job without GPUs, and what it starts, sees none of the node's
    return Resources(*processor(), visible())


def visible() -> dict[str, int]:
    """Return the free memory of the GPUs that CUDA shows this process, by their entry of CUDA_VISIBLE_DEVICES.

    Without a driver there are none.

    Raises:
        InputError: an entry names none. CUDA would stop there without a word, and the run would train on the CPU.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        return {}
    count, listed = nvml.nvmlDeviceGetCount(), os.environ.get("CUDA_VISIBLE_DEVICES")
    entries = [part.strip() for part in listed.split(",")] if listed is not None else list(map(str, range(count)))
    if entries in ([""], ["-1"]):
        return {}
    free_memory = {}
    for entry in entries:
        handle_of = nvml.nvmlDeviceGetHandleByIndex if entry.isdecimal() else nvml.nvmlDeviceGetHandleByUUID
        free = None
        with suppress(nvml.NVMLError):
            handle = handle_of(int(entry) if entry.isdecimal() else entry)
            free = int(nvml.nvmlDeviceGetMemoryInfo(handle).free)
        if free is None or entry in free_memory:
            raise InputError(
                f"CUDA_VISIBLE_DEVICES: expected GPUs of 0 to {count - 1}, each once, or their UUIDs, got {entry!r} in "
                f"{listed!r}. Correct it, or unset it to use every GPU."
            )
        free_memory[entry] = free
    return free_memory
