"""Places to run trials on this machine: so many slots, each with its share of the cores and perhaps GPUs.

GPUs are counted without torch, and without touching CUDA: a launcher that had would not be able to fork trials.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from study.config.experiment import Trainer
from study.errors import InputError

SLOTS_PER_GPU = 8
"""Small models leave most of a GPU idle: at most so many trials share one, unless each takes several. An assumption."""
RESERVED, CONTEXT = 1.3, 2**29
"""Memory that a run takes beside what its tensors need: torch's reserve as a factor, and CUDA's context in bytes.

Both are assumptions. They were never measured on a GPU.
"""

MOST = 1024
"""Slots of one launcher: each is a process that it watches."""

SUSPECT = 3
"""So many runs that fail in a row on one GPU, and it gets no more work before another GPU shows whose fault it is."""


@dataclass(frozen=True)
class Slot:
    """Place for one trial at a time: `gpu` is its CUDA_VISIBLE_DEVICES (None: the launcher's own).

    It may have so many processes of so many threads, each with a GPU of its own where there are GPUs.
    """

    gpu: str | None
    threads: int
    processes: int = 1


class Pool:
    """The free slots, and which GPUs are fit for work.

    A GPU is blamed for each run that failed on it since its last success, and on no other GPU. Blamed for `SUSPECT`
    runs it is given no more; as soon as another GPU has had a success, it is out. It is back once it is blamed for
    fewer, since its runs have failed elsewhere too. Where every GPU is suspected, the runs are at fault.
    """

    def __init__(self, layout: Iterable[Slot]) -> None:
        self.free = deque(layout)
        self.out: set[str | None] = set()
        self.blamed: dict[str | None, set[str]] = {slot.gpu: set() for slot in self.free}
        self.outdone: set[str | None] = set()
        self.failed_on: dict[str, set[str | None]] = {}

    def take(self, avoid: Collection[str | None] = ()) -> Slot | None:
        """A free slot, on none of the GPUs to avoid if there are others; None: wait for one."""
        used = [gpu for gpu in self.blamed if gpu not in self.out]
        fit = [gpu for gpu in used if len(self.blamed[gpu]) < SUSPECT] or used
        wanted = [gpu for gpu in fit if gpu not in avoid] or fit
        for slot in self.free:
            if slot.gpu in wanted:
                self.free.remove(slot)
                return slot
        return None

    def give(self, slot: Slot) -> None:
        """A slot is free again."""
        self.free.append(slot)

    def succeeded(self, gpu: str | None) -> None:
        """A run has ended well on a GPU."""
        self.blamed[gpu].clear()
        self.outdone |= {other for other, runs in self.blamed.items() if runs}
        self._judge()

    def failed(self, gpu: str | None, run: str) -> None:
        """A run has failed on a GPU."""
        where = self.failed_on.setdefault(run, set())
        where.add(gpu)
        if len(where) == 1:
            self.blamed[gpu].add(run)
        else:
            for runs in self.blamed.values():
                runs.discard(run)
        self._judge()

    def _judge(self) -> None:
        for gpu, runs in self.blamed.items():
            if not runs:
                self.outdone.discard(gpu)
            if len(runs) < SUSPECT:
                self.out.discard(gpu)
            elif gpu in self.outdone and len(self.out | {gpu}) < len(self.blamed):
                self.out.add(gpu)


def layout(wanted: int | None, trainers: Iterable[Trainer], shared: int = SLOTS_PER_GPU) -> list[Slot]:
    """Return the slots of this machine for runs with these trainer sections. Each has what the largest run needs.

    Args:
        wanted: number of slots (default: from the machine).
        trainers: the trainer sections.
        shared: number of runs that may share a GPU.

    Raises:
        InputError: a run asks for more GPUs than there are.
    """
    if wanted is not None and wanted > MOST:
        raise InputError(f"--slots: expected at most {MOST}, got {wanted}.")
    every = list(trainers)
    on_gpus = [trainer for trainer in every if trainer.device != "cpu"]
    devices = max((trainer.devices for trainer in on_gpus or every), default=1)
    cores, found = cpu_cores(), list(visible()) if on_gpus else []
    if on_gpus and 1 < devices > len(found):
        raise InputError(
            f"trainer.devices: expected at most {len(found)} GPUs, which this machine has, got {devices}. Set "
            f"{'1' if len(found) < 2 else f'{len(found)} or fewer'}, or trainer.device cpu."
        )
    groups = [",".join(found[i : i + devices]) for i in range(0, len(found) - devices + 1, devices)]
    count = wanted or max(cores // devices, 1)
    if groups and not wanted:
        count = min(shared * len(groups), cores) if devices == 1 else len(groups)
    threads = max(cores // (count * devices), 1)
    return [Slot(groups[i % len(groups)] if groups else None, threads, devices) for i in range(count)]


def describe(slots: list[Slot]) -> str:
    """The layout in one line."""
    devices = {gpu for slot in slots if slot.gpu for gpu in slot.gpu.split(",")}
    where = _plural(cpu_cores(), "core")
    if devices:
        where = f"{_plural(len(devices), 'GPU')}, {where}"
    threads, processes = _plural(slots[0].threads, "thread"), slots[0].processes
    each = f"{threads} each" if processes == 1 else f"{processes} processes each with {threads}"
    return f"{len(slots)} at a time, {each} ({where})"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def cpu_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML, the library of its driver, describes it. `name` is also what a record names as its device."""

    name: str
    uuid: str
    free: int


def visible() -> dict[str, Gpu]:
    """Entry of CUDA_VISIBLE_DEVICES ↦ GPU or part of one (MIG); without that variable, the number of every GPU here.

    A part that NVML does not find by its name stands for the first GPU.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return {str(number): gpu for number, gpu in enumerate(_devices())}
    entries = [part.strip() for part in listed.split(",")]
    found = _devices([entry for entry in entries if entry.startswith("MIG-")])
    chosen: dict[str, Gpu] = {}
    for entry in entries:
        number = int(entry) if re.fullmatch(r"\d+", entry, re.ASCII) else None
        alike = [gpu for gpu in found if gpu.uuid.startswith(entry)] or found
        if not found or (number is None and not re.fullmatch(r"(GPU|MIG)-\S+", entry)):
            break  # CUDA reads the list up to the first entry that is none, such as -1
        chosen[entry] = found[number] if number is not None and number < len(found) else alike[0]
    return chosen


def _devices(parts: Iterable[str] = ()) -> list[Gpu]:
    """List every GPU here, then these parts. NVML counts without CUDA: who has touched that cannot fork trials."""
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
    except Exception:  # no library, or no driver
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        for part in parts:
            with suppress(pynvml.NVMLError):
                handles.append(pynvml.nvmlDeviceGetHandleByUUID(part))
        return [
            Gpu(
                pynvml.nvmlDeviceGetName(handle),
                pynvml.nvmlDeviceGetUUID(handle),
                int(pynvml.nvmlDeviceGetMemoryInfo(handle).free),
            )
            for handle in handles
        ]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def per_gpu(need: int | None) -> tuple[int, str]:
    """Return how many runs share a GPU, and one line that says why.

    The smallest of three numbers: `SLOTS_PER_GPU`, the runs that fit into the free memory, and those that have a core.

    Args:
        need: bytes that torch had allocated at most in a similar run on such a GPU; None where none was measured.
    """
    gpus, cores = visible(), cpu_cores()
    free = min((gpu.free for gpu in gpus.values()), default=0)
    each = int(RESERVED * (need or 0)) + CONTEXT
    fit, with_core = free // each, math.ceil(cores / max(len(gpus), 1))
    count = max(1, min(SLOTS_PER_GPU, fit, with_core))
    if not fit:
        why = "though only"
    elif count == fit < SLOTS_PER_GPU:
        why = "as"
    elif count == SLOTS_PER_GPU:
        why = "the most, as"
    else:
        why = f"one per core ({_plural(cores, 'core')}, {_plural(len(gpus), 'GPU')}), as"
    told = f"{why} {_gib(free)} are free{' on each GPU' if len(gpus) > 1 else ''} and a run needs"
    if need is None:
        basis = f"at least {_gib(each)}; none of this kind was measured on such a GPU yet"
    else:
        basis = f"about {_gib(each)}: {RESERVED:g} × {_gib(need)} (measured) + {_gib(CONTEXT)}"
    return count, f"runs per GPU: {count}, {told} {basis}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
