"""Ray, its core and not Tune: each run is a task, with the local engine inside the worker that gets it."""

from __future__ import annotations

import importlib
import importlib.util
import io
import multiprocessing
import os
import re
import shutil
import socket
import tarfile
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from study import files
from study.errors import InputError
from study.sweep import lease
from study.sweep.engines import Pack, pairs
from study.sweep.trial import GRACE, LEFT, due, stamp

RETRIES = 5
"""Number of times that Ray starts a task again whose worker or node was lost."""
EXAMPLE = "Write, for example, gpus=0.25,cpus=2."
PREFIX = re.compile(r"^\[[^\]]*\] \S+:\d+: ")
"""Time, process and place in Ray's code, with which a line of its log begins."""
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
    if address not in (None, "auto", "local") and not re.fullmatch(r"\S+:\d+", str(address), re.ASCII):
        raise InputError(f"--address: expected HOST:PORT or auto, got {address}. `ray status` names the address.")
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
    task's result. Ray ends a process that has lost the head of its cluster, so a process of its own talks to Ray.

    Args:
        resources: of each task.
        out: the folder of runs.

    Raises:
        ModuleNotFoundError: Ray is not installed.
    """

    def __init__(self, resources: Options, out: Path) -> None:
        self.resources, self.out = resources, out
        if importlib.util.find_spec("ray") is None:
            raise ModuleNotFoundError("No module named 'ray'", name="ray")

    def run(self, packs: Sequence[Pack]) -> Mapping[int, str]:
        """Run packs as tasks.

        Raises:
            InputError: no cluster answers at the address, or it never has the resources of one task.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            _reach(self.resources.address)
        except (OSError, OverflowError) as problem:
            raise _unreached(self.resources.address, problem) from None
        left, failed, lost = set(range(len(packs))), dict[int, str](), "the process that talks to Ray was killed"
        token = self.out / f".shared-{uuid.uuid4().hex}"
        context = multiprocessing.get_context("spawn")
        answers, end = context.Pipe(duplex=False)
        with tempfile.NamedTemporaryFile() as errors:
            driver = context.Process(target=drive, args=(self.resources, self.out, packs, token.name, errors.name, end))
            try:
                token.touch()
                driver.start()
                end.close()
                with suppress(EOFError):
                    while left:
                        number, reason = answers.recv()
                        if number is None:
                            raise InputError(reason)
                        left.discard(number)
                        if reason is not None:
                            failed[number] = reason
                        done = len(packs) - len(left)
                        print(f"{done} of {len(packs)} tasks ended, {len(failed)} failed", flush=True)
            finally:
                token.unlink(missing_ok=True)
                if driver.pid is not None:
                    _end(driver)
            said = Path(errors.name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if left and said:
            lost = PREFIX.sub("", said[-1]).partition(". ")[0][:200].rstrip(".")
        return failed | dict.fromkeys(left, f"the cluster is lost ({lost})")


def _end(driver: BaseProcess) -> None:
    """Let the process that talks to Ray take its leave, or kill it."""
    driver.join(GRACE)
    if driver.exitcode is None:
        driver.terminate()
        driver.join(GRACE)
    driver.kill()


def drive(resources: Options, out: Path, packs: Sequence[Pack], token: str, errors: str, answers: Connection) -> None:
    """Run packs as tasks, in a process that Ray may end.

    Args:
        resources: of each task.
        out: the folder of runs.
        packs: the packs.
        token: name of a file in the folder of runs, by which a worker sees that the folder is shared.
        errors: file that gets what Ray prints to standard error.
        answers: gets (number of a pack, reason of its failure or None) as tasks end, or (None, reason of a refusal).
    """
    with open(errors, "ab") as file:
        os.dup2(file.fileno(), 2)
    ray = importlib.import_module("ray")
    try:
        ray.init(address=resources.address, **QUIET)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as problem:
        said = Path(errors).read_text(encoding="utf-8", errors="replace")
        answers.send((None, str(_unreached(resources.address, problem, said))))
        return
    try:
        if lacking := _lacking(resources, ray.nodes()):
            answers.send((None, lacking))
            return
        task = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=RETRIES)(make)
        under_way = {task.remote(pack, token): number for number, pack in enumerate(packs)}
        while under_way:
            (done, *_), _ = ray.wait(list(under_way))
            number, reason = under_way.pop(done), None
            try:
                if (content := ray.get(done)) is not None:
                    store(content, out)
            except ray.exceptions.RayError as problem:
                reason = _line(problem)
            answers.send((number, reason))
    finally:
        ray.shutdown()


def _unreached(address: str | None, problem: Exception, said: str = "") -> InputError:
    """Return the error for an address, from what Ray raised and from what it printed: only there it names a token."""
    if "token" in f"{said} {problem}".lower():
        remedy = "Copy ~/.ray/auth_token of its head to this machine, and set RAY_AUTH_MODE=token."
        return InputError(f"--address: the Ray cluster at {address} expects a token, got none or another one. {remedy}")
    remedy = "Start one with `ray start --head`, or leave --address out."
    return InputError(f"--address: no Ray cluster answers at {address} ({_line(problem)}). {remedy}")


def _lacking(resources: Options, nodes: Iterable[Mapping[str, Any]]) -> str | None:
    """Return what every node of a cluster lacks for a task; None if a node has it."""
    there = {node["NodeID"]: node["Resources"] for node in nodes if node["Alive"]}.values()
    wanted = {"CPU": resources.cpus, "GPU": resources.gpus}
    if any(all(node.get(name, 0.0) >= amount for name, amount in wanted.items()) for node in there):
        return None
    found = "; ".join(dict.fromkeys(", ".join(f"{node.get(name, 0):g} {name}" for name in wanted) for node in there))
    return f"--ray: no node has {wanted['CPU']:g} CPU and {wanted['GPU']:g} GPU; there is {found}."


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
