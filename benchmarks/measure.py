"""Ratios of time and memory between alternatives of one run, and the tables that they are written as."""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

Work = Callable[[], object]


class Table(NamedTuple):
    """Rows of numbers under a heading. A ratio is told by its unit, ×."""

    name: str
    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


def relative_times(
    works: Mapping[str, Work], rounds: int, order: random.Random | None = None
) -> dict[str, tuple[float, float]]:
    """Milliseconds (median) of each, and the median over rounds of its time ÷ the first one's in the same round.

    A round runs each once, in turn, so that a busy machine slows all of them. One round goes before to warm up. Times
    are of this process's own work on all its threads: waiting for a core is not counted. With `order` every round has
    an order of its own, so that what one leaves behind (in caches, in the allocator) is not always met by the same one.
    """
    names = list(works)
    took: dict[str, list[float]] = {name: [] for name in works}
    for i in range(rounds + 1):
        if order is not None:
            order.shuffle(names)
        for name in names:
            start = time.process_time()
            works[name]()
            if i:
                took[name].append(time.process_time() - start)
    first = next(iter(took.values()))
    return {
        name: (
            1000 * statistics.median(times),
            statistics.median(t / f for t, f in zip(times, first, strict=True)),
        )
        for name, times in took.items()
    }


def peak_memory(work: Work) -> int:
    """Bytes that were allocated at the worst moment of `work`, beyond what was there before.

    The sum over all allocations and releases that torch's allocator reports to the profiler, in their order: what
    kernels take for themselves is in it, what the operating system rounds up is not. Run once before, unprofiled.
    """
    work()
    with silent(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        work()
    kineto = watched.profiler.kineto_results  # type: ignore[union-attr]
    changes = [(event.start_ns(), event.nbytes()) for event in kineto.events() if event.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak


@contextmanager
def silent() -> Iterator[None]:
    """Without the lines that the profiler's own code writes to standard error."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def machine() -> dict[str, str | int]:
    """Machine and versions of a measurement."""
    return {"device": _processor(), "threads": torch.get_num_threads(), "torch": str(torch.__version__)}


def _processor() -> str:
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def markdown(table: Table) -> str:
    """The table under its title."""
    numeric = [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]
    lines = [f"## {table.title}", "", table.about, "", "| " + " | ".join(table.columns) + " |"]
    lines.append("|" + "|".join("--:" if right else "---" for right in numeric) + "|")
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in table.rows]
    return "\n".join(lines)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"
