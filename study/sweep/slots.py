"""Places to run trials on this machine: so many slots, each with its share of the cores and perhaps GPUs.

GPUs are counted without torch, and without touching CUDA: a launcher that had would not be able to fork trials.
"""

from __future__ import annotations

import importlib
import os
import re
from collections import deque
from collections.abc import Collection, Iterable
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


def layout_for(wanted: int | None, trainers: Iterable[Trainer], shared: int = SLOTS_PER_GPU) -> list[Slot]:
    """The slots for runs with these trainer sections; every slot has what the one that asks for most needs.

    `shared` is how many runs may share a GPU.

    Raises:
        InputError: a run asks for more GPUs than there are.
    """
    every = list(trainers)
    on_gpus = [trainer for trainer in every if trainer.device != "cpu"]
    return layout(wanted, bool(on_gpus), max((trainer.devices for trainer in on_gpus or every), default=1), shared)


def layout(wanted: int | None, use_gpus: bool, devices: int = 1, shared: int = SLOTS_PER_GPU) -> list[Slot]:
    """The slots of this machine, or `wanted` of them, for trials on so many devices; cores are shared out evenly.

    Raises:
        InputError: trials ask for more GPUs than there are.
    """
    if wanted is not None and wanted > MOST:
        raise InputError(f"--slots: expected at most {MOST}, got {wanted}.")
    cores, found = cpu_cores(), gpus() if use_gpus else []
    if use_gpus and 1 < devices > len(found):
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


def gpus() -> list[str]:
    """List the usable GPUs: the entries of CUDA_VISIBLE_DEVICES if it is set, otherwise every GPU here."""
    return list(visible())


def visible() -> dict[str, Gpu]:
    """Entry of CUDA_VISIBLE_DEVICES ↦ GPU; without that variable, the number of every GPU here.

    A part of a GPU (MIG) stands for the first GPU that has such parts: which one it is does not matter here.
    """
    found = _devices()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return {str(number): gpu for number, gpu in enumerate(found)}
    chosen: dict[str, Gpu] = {}
    for entry in (part.strip() for part in listed.split(",")):
        number = int(entry) if re.fullmatch(r"\d+", entry, re.ASCII) else None
        alike = [gpu for gpu in found if gpu.uuid.startswith(entry)] or found
        if not found or (number is None and not re.fullmatch(r"(GPU|MIG)-\S+", entry)):
            break  # CUDA reads the list up to the first entry that is none, such as -1
        chosen[entry] = found[number] if number is not None and number < len(found) else alike[0]
    return chosen


def _devices() -> list[Gpu]:
    """Every GPU of this machine. NVML counts without CUDA: who has touched that cannot fork trials."""
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
    except Exception:  # no library, or no driver
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
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

    Args:
        need: bytes that torch had allocated at most in a similar run on such a GPU; None where none was measured.
    """
    free = min((gpu.free for gpu in visible().values()), default=0)
    if need is None:
        return SLOTS_PER_GPU, f"runs per GPU: {SLOTS_PER_GPU}, as no run of this kind was measured on such a GPU yet"
    each = int(RESERVED * need) + CONTEXT
    count = max(1, min(SLOTS_PER_GPU, free // each))
    most = ", the most" if count == SLOTS_PER_GPU else ""
    need_of = f"{_gib(each)}: {RESERVED:g} × {_gib(need)} (measured) + {_gib(CONTEXT)}"
    return count, f"runs per GPU: {count}{most}, as {_gib(free)} are free and a run needs about {need_of}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
