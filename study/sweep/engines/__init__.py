"""Engines: where the runs of a sweep are made. An engine gets packs, and runs each with the local engine inside it.

Whatever an engine reports, the folder of runs decides: each declared run is looked for there by its identity, and what
is missing or failed is due again.

The local engine (`study.sweep.local`) is what every pack calls, so it is no engine of this protocol itself.
"""

from __future__ import annotations

import heapq
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from types import MappingProxyType
from typing import Protocol

from study import files
from study.config import plugins
from study.errors import InputError
from study.sweep import local
from study.sweep.file import LARGEST
from study.sweep.spec import Cell, Spec, load
from study.sweep.trial import Trial, train


@dataclass(frozen=True)
class Pack:
    """Runs that one allocation makes, with the local engine inside it.

    It holds the text of the sweep file, so it can be run where the file is not, or has changed meanwhile.
    """

    file: str
    text: str
    ids: tuple[str, ...]
    out: Path
    slots: int | None = None
    policy: local.Policy = local.POLICY
    trial: Trial = train
    allowed: str = field(default_factory=lambda: os.environ.get(plugins.ALLOWED, ""))
    """Code that may run where the pack runs."""

    def __call__(self) -> int:
        """Run what is due of the pack on this machine, and return the status of the local engine.

        Raises:
            InputError: the code here declares other experiments than the code that made the pack.
        """
        os.environ[plugins.ALLOWED] = self.allowed
        with tempfile.TemporaryDirectory() as folder:
            files.write(path := Path(folder) / self.file, self.text)
            spec = load(path)
        cells = [cell for cell in spec.runnable if cell.id in self.ids]
        if len(cells) < len(self.ids):
            raise InputError(f"{self.file}: expected the same code on every machine, got other identities here.")
        return local.run_sweep(spec, self.out, self.slots, cells=cells, trial=self.trial, policy=self.policy)


class Engine(Protocol):
    """Runs packs somewhere."""

    def run(self, packs: Sequence[Pack]) -> Mapping[int, str]:
        """Run packs until none is under way; or hand them to a queue, which runs them later.

        Returns:
            Number of a pack ↦ the reason why it failed as a whole. Nothing is decided by it: it explains missing runs.
        """


def packs_of(pack: Pack, cells: Sequence[Cell], seconds: Sequence[float | None], count: int) -> list[Pack]:
    """Divide cells into so many packs that take about the same time.

    The longest runs are given out first, each to the pack that has least to do. A run whose time is not known counts
    as the mean of the others.

    Args:
        pack: what all packs have in common; its own cells are ignored.
        cells: the runs.
        seconds: the estimated time of each.
        count: number of packs; there are fewer if there are fewer runs.
    """
    known = [one for one in seconds if one is not None]
    typical = mean(known) if known else 1.0
    timed = sorted(
        ((typical if took is None else took, cell) for took, cell in zip(seconds, cells, strict=True)),
        key=lambda one: -one[0],
    )
    least: list[tuple[float, int]] = [(0.0, number) for number in range(min(count, len(cells)))]
    ids: list[list[str]] = [[] for _ in least]
    for took, cell in timed:
        total, number = heapq.heappop(least)
        ids[number].append(str(cell.id))
        heapq.heappush(least, (total + took, number))
    return [replace(pack, ids=tuple(one)) for one in ids]


def template(spec: Spec, out: Path, slots: int | None = None, policy: local.Policy = local.POLICY) -> Pack:
    """Return what the packs of a sweep have in common."""
    text = files.read(spec.path, LARGEST).decode()
    return Pack(spec.path.name, text, (), out.resolve(), slots, policy)


def check(spec: Spec, cells: Sequence[Cell], out: Path, failed: Mapping[int, str] = MappingProxyType({})) -> int:
    """Look for every run by its identity, print what is missing, and return the status: 0, or 1 if a run is missing.

    `failed` are the reasons that an engine gave. They are printed first.
    """
    for reason in dict.fromkeys(failed.values()):
        print(f"the engine says: {reason}")
    left = local.tasks(spec, cells, out)
    declared = sum(cell.experiment is not None for cell in cells)
    print(f"{spec.name}: {declared - len(left)} of {declared} runs there, by identity")
    for task in left:
        print(f"  missing  {task.name}  {task.label}")
    if left:
        print("the same command again makes the missing ones")
    return 1 if left else 0


def pairs(option: str, text: str | None, example: str) -> dict[str, str]:
    """Return the name=value pairs of an option.

    Raises:
        InputError: a part is no name=value, or a name is given twice.
    """
    given: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.strip().partition("=")
        if not (equals and re.fullmatch(r"\S+", value) and re.fullmatch(r"[a-z][a-z-]*", name)):
            raise InputError(f"{option}: expected name=value, got {part!r}. {example}")
        if name in given:
            raise InputError(f"{option}: {name}: expected once, got it twice. Remove one.")
        given[name] = value
    return given
