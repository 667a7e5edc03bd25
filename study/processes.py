"""Processes: signals, the rule that a process ends with the one that started it, and the cores that it may use."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

LOOK = 0.5
"""Seconds between two looks at the process that started this one."""
GRACE = 10.0
"""Seconds that a process which was asked to end has for its checkpoint, before it is killed."""
PER_RUN = 2**29
"""Memory of a run beside the GPU, in bytes. A small model was measured at .45 GB."""
REQUESTS = (signal.SIGTERM, signal.SIGHUP)
"""Signals by which a scheduler, and a terminal that is closed, ask a process to end."""
CGROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@contextlib.contextmanager
def noted() -> Iterator[list[int]]:
    """Context in which signals that end a process are only noted, in the list that it gives.

    A signal that is ignored on entry stays ignored, as `nohup` and shells' background jobs want it for SIGINT.
    """
    numbers: list[int] = []
    before = {signal_number: signal.getsignal(signal_number) for signal_number in (signal.SIGINT, *REQUESTS)}
    before = {signal_number: handler for signal_number, handler in before.items() if handler is not signal.SIG_IGN}
    for signal_number in before:
        signal.signal(signal_number, lambda number, frame: numbers.append(number))
    try:
        yield numbers
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


@contextlib.contextmanager
def on_request() -> Iterator[list[int]]:
    """Context in which SIGTERM and SIGHUP raise, so that all work is ended in order; the exit status is 143 or 129.

    The signal is noted in the list that the context gives, since libraries may turn the exception into another one. A
    signal that is ignored on entry stays ignored, as `nohup` wants it for SIGHUP.
    """
    numbers: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        numbers.append(number)
        raise SystemExit(128 + number)

    before = {request: handler for request in REQUESTS if (handler := signal.getsignal(request)) is not signal.SIG_IGN}
    for request in before:
        signal.signal(request, stop)
    try:
        yield numbers
    finally:
        for request, handler in before.items():
            signal.signal(request, handler)


def with_parent() -> None:
    """End when the process that started this one is gone, however it ended: no run goes on that nobody counts.

    SIGTERM first, which lets a run keep its step; SIGKILL after `GRACE`, to all that this process has started. The
    starter is the parent, and for a process of multiprocessing's fork server also the one that asked for it.
    """
    from multiprocessing import parent_process

    parent, starter = os.getppid(), parent_process()

    def watch() -> None:
        while os.getppid() == parent and (starter is None or starter.is_alive()):
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def processor() -> tuple[int, str, float]:
    """Return cores, what sets their number, and memory: the least of affinity, cgroup and SLURM job."""
    quota, memory = _cgroup()
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits: dict[str, float] = {"this machine": affinity, "its cgroup": max(quota, 1)}
    if "SLURM_JOB_ID" in os.environ:
        cores = int(os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE") or affinity)
        limits["SLURM"] = cores
        node, core = (float(os.environ.get(f"SLURM_MEM_PER_{part}") or 0) for part in ("NODE", "CPU"))
        memory = min(memory, (node or core * cores or math.inf) * 2**20)  # --mem=0 asks for all memory of a node
    limit = min(limits, key=lambda name: limits[name])
    return int(limits[limit]), limit, memory


def _cgroup() -> tuple[float, float]:
    """Return the cores and the bytes that cgroups (version 2), and the machine, leave to this process."""
    cores = math.inf
    memory: float = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**40
    inner = CGROUPS / "".join(_words(OWN)).rpartition("::")[2].lstrip("/")
    for folder in (inner, *inner.parents):
        quota = _words(folder / "cpu.max")
        if quota and quota[0] != "max":
            cores = min(cores, int(quota[0]) / int(quota[1]))
        memory = min(memory, *(int(most) for most in _words(folder / "memory.max") if most != "max"), math.inf)
    return cores, memory


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError:
        return []
