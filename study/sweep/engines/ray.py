"""Ray, its core and not Tune: each run is a task, with the local engine inside the worker that gets it."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import socket
import tarfile
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from study import files
from study.errors import InputError
from study.sweep import lease
from study.sweep.engines import Pack, pairs
from study.sweep.trial import LEFT, due, stamp

RETRIES = 5
"""Number of times that Ray starts a task again whose worker or node was lost."""
EXAMPLE = "Write, for example, gpus=0.25,cpus=2."
QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}


@dataclass(frozen=True)
class Options:
    """Resources of one run; a part of a GPU lets several runs share it. `address` is that of a cluster."""

    cpus: float = 1.0
    gpus: float = 0.0
    address: str | None = None


def options(text: str | None, address: str | None) -> Options:
    """Return the resources that a text names: `gpus=0.25,cpus=2`.

    Raises:
        InputError: a part is no name=value, or a value is no number.
    """
    given = pairs("--ray", text, EXAMPLE)
    found: dict[str, float] = {}
    for name, value in given.items():
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if name not in ("cpus", "gpus") or not 0 <= number < 1e6:
            raise InputError(f"--ray: expected cpus or gpus with a number, got {name}={value}. {EXAMPLE}")
        found[name] = number
    return Options(**found, address=address)


def _reach(address: str | None) -> None:
    """Try HOST:PORT within seconds; Ray itself tries for minutes, and prints warnings."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class Ray:
    """Engine that gives each pack to Ray as a task, and waits for all of them.

    A worker or a node that is lost costs the runs under way there: Ray starts their tasks elsewhere, and each continues
    from its last checkpoint where the folder of runs is shared. Where it is not, a run's files come back with the
    task's result.

    Args:
        resources: of each task.
        out: the folder of runs.
    """

    def __init__(self, resources: Options, out: Path) -> None:
        self.resources, self.out, self.ray = resources, out, importlib.import_module("ray")

    def run(self, packs: Sequence[Pack]) -> Mapping[int, str]:
        """Run packs as tasks.

        Raises:
            InputError: no cluster answers at the address, or it never has the resources of one task.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            _reach(self.resources.address)
            self.ray.init(address=self.resources.address, **QUIET)
        except (OSError, OverflowError, ValueError, RuntimeError) as problem:
            raise InputError(
                f"--address: no Ray cluster answers at {self.resources.address} ({_line(problem)}). Start one with "
                "`ray start --head`, or leave --address out."
            ) from None
        token = self.out / f".shared-{uuid.uuid4().hex}"
        try:
            self._check()
            token.touch()
            task = self.ray.remote(num_cpus=self.resources.cpus, num_gpus=self.resources.gpus, max_retries=RETRIES)(
                make
            )
            under_way = {task.remote(pack, token.name): number for number, pack in enumerate(packs)}
            failed: dict[int, str] = {}
            while under_way:
                (done, *_), _ = self.ray.wait(list(under_way))
                number = under_way.pop(done)
                try:
                    if (content := self.ray.get(done)) is not None:
                        store(content, self.out)
                except self.ray.exceptions.RayError as problem:
                    failed[number] = _line(problem)
                print(f"{len(packs) - len(under_way)} of {len(packs)} tasks ended, {len(failed)} failed", flush=True)
            return failed
        finally:
            token.unlink(missing_ok=True)
            self.ray.shutdown()

    def _check(self) -> None:
        there = {node["NodeID"]: node["Resources"] for node in self.ray.nodes() if node["Alive"]}.values()
        wanted = {"CPU": self.resources.cpus, "GPU": self.resources.gpus}
        if not any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in there):
            each = dict.fromkeys(", ".join(f"{node.get(name, 0):g} {name}" for name in wanted) for node in there)
            found = "; ".join(each)
            raise InputError(f"--ray: no node has {wanted['CPU']:g} CPU and {wanted['GPU']:g} GPU; there is {found}.")


def make(pack: Pack, token: str) -> bytes | None:
    """Run a pack in a worker; returns None where the folder of runs is shared, else the files of its runs."""
    if (pack.out / token).exists():
        pack()
        return None
    with tempfile.TemporaryDirectory() as folder:
        replace(pack, out=Path(folder))()
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w:gz") as archive:
            for name in pack.ids:
                archive.add(Path(folder) / name, name, filter=_wanted)
        return target.getvalue()


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what belongs to the process that made the run."""
    name = Path(entry.name).name
    return None if name == lease.FILE or lease.NUMBERED.fullmatch(name) or LEFT.fullmatch(name) else entry


def store(content: bytes, out: Path) -> None:
    """Put the files of runs into the folder of runs, the record last. A run that is there already stays as it is."""
    with (
        tempfile.TemporaryDirectory(dir=out, prefix=".ray-") as folder,
        tarfile.open(fileobj=io.BytesIO(content)) as archive,
    ):
        archive.extractall(folder, filter="data")
        for made in sorted(Path(folder).iterdir()):
            there, record = out / made.name, made / "record.json"
            with lease.holding(there, wait=True):
                if record.is_file() and due(there, stamp(there)):
                    text = record.read_text(encoding="utf-8")
                    record.unlink()
                    shutil.copytree(made, there, dirs_exist_ok=True, symlinks=True)
                    files.write(there / "record.json", text)


def _line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:200]
