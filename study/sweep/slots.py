"""Places to run trials on this machine: so many slots, each with its share of the cores and perhaps a GPU.

GPUs are counted without torch, and without touching CUDA: a launcher that had would not be able to fork trials.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SLOTS_PER_GPU = 8
"""Small models leave most of a GPU idle: several trials share one."""


@dataclass(frozen=True)
class Slot:
    """Where one trial runs: `gpu` is its CUDA_VISIBLE_DEVICES (None: whatever the launcher sees)."""

    gpu: str | None
    threads: int


def layout(wanted: int | None, use_gpus: bool) -> list[Slot]:
    """The slots of this machine, or `wanted` of them; cores are shared out evenly."""
    cores, devices = cpu_cores(), gpus() if use_gpus else []
    count = wanted or (min(SLOTS_PER_GPU * len(devices), cores) if devices else cores)
    count = max(count, 1)
    threads = max(cores // count, 1)
    return [Slot(devices[i % len(devices)] if devices else None, threads) for i in range(count)]


def describe(slots: list[Slot]) -> str:
    """The layout in one line."""
    devices = {slot.gpu for slot in slots} - {None}
    where = _plural(cpu_cores(), "core")
    if devices:
        where = f"{_plural(len(devices), 'GPU')}, {where}"
    return f"{len(slots)} at a time, {_plural(slots[0].threads, 'thread')} each ({where})"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def cpu_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name, one entry a GPU: as the environment restricts it, else every GPU here."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        entries = [entry.strip() for entry in visible.split(",")]
        # CUDA reads the list up to the first entry that is none, such as -1.
        valid = [bool(re.fullmatch(r"\d+|(GPU|MIG)-\S+", entry)) for entry in entries]
        listed = entries[: valid.index(False)] if False in valid else entries
        return listed if _count() else []
    return [str(index) for index in range(_count())]


def _count() -> int:
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True).stdout
        return len(re.findall(r"^GPU \d+", listing, flags=re.MULTILINE))
    except (OSError, subprocess.SubprocessError):
        folder = Path("/proc/driver/nvidia/gpus")
        return len(list(folder.iterdir())) if folder.is_dir() else 0
