"""The W&B engine: its server hands out the cells, one agent a slot runs them, and what is missing then is run here.

What has been run is still what is on disk. The server forgets failed points, and an agent that gave up ends with
status 0, so neither is believed: the folder is looked through by identity, and the local engine runs the rest under
the same sweep. A sweep of the same file that the server still has is continued.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPException
from pathlib import Path

import wandb

from study import files, records
from study.config import account
from study.errors import InputError
from study.sweep import lease, local, places, slots
from study.sweep.engines import Pack, check, template
from study.sweep.file import read_file
from study.sweep.signals import Interrupts
from study.sweep.spec import Spec
from study.sweep.trial import GRACE, Trial, train

AGENT = ("-P", "-m", "study.sweep.engines.wandb")
POLL = 1.0
IDLE = 120.0
"""Seconds without a trial or a word after which agents are taken for forgotten by the server."""
ANSWER = 5.0
"""Seconds that the server has to answer: the client itself would try for minutes."""
HEARTBEAT = 60
"""Seconds that an agent waits for an answer: one that gives up ends, and its trial with it. The client waits 19."""
REPLACED = 3
"""Number of times that a slot gets a new agent after one died, for example in an outage."""


def run_sweep(
    spec: Spec,
    out: Path,
    wanted_slots: int | None = None,
    *,
    trial: Trial = train,
    policy: local.Policy = local.POLICY,
) -> int:
    """Run what is declared and missing by agents; returns 0, 1 if runs stay missing, 130 if it was interrupted.

    The arguments are those of the local engine, which runs the first trial and those that the agents leave.

    Raises:
        InputError: no account, no network, a key that the server refuses, or a run asks for more GPUs than there are.
    """
    todo = local.tasks(spec, spec.runnable, out)
    if not todo:
        print(f"{spec.name}: nothing to do, all {len(spec.runnable)} runs are there")
        return 0
    for task in todo:  # a user asks for those that W&B has stopped
        (task.folder / records.STOPPED).unlink(missing_ok=True)
    layout = local.layout_for([task.cell for task in todo], out, wanted_slots)[0][: len(spec.cells)]
    here = partial(local.run_sweep, trial=trial, policy=policy)
    host = _check_account()
    if len(todo) == len(spec.runnable):
        print("one run first, alone, so that a mistake shows once and not in every run", flush=True)
        disabled = {"WANDB_MODE": "disabled"}  # an agent logs this run again, from the record
        if code := here(spec, out, 1, cells=[todo[0].cell], sweep=disabled):
            return code
    engine = Agents(spec, out, layout, host)
    try:
        engine.run([template(spec, out, len(layout), policy)])
    except KeyboardInterrupt:
        local.tell("interrupted: the same command again continues this sweep")
        return local.INTERRUPTED
    return _repair(spec, out, partial(here, wanted_slots=wanted_slots, sweep=_named(engine.sweep, host)))


class Agents:
    """Engine that lets the server of W&B hand out the runs of a whole sweep, one by one, to one agent per slot.

    Args:
        spec: the sweep.
        out: the folder of runs.
        layout: the slots.
        host: the server's address.
    """

    def __init__(self, spec: Spec, out: Path, layout: list[slots.Slot], host: str) -> None:
        self.spec, self.out, self.layout, self.host = spec, out, layout, host
        with _one_line(host):
            self.sweep, self.open = _sweep(spec, out)

    def run(self, packs: Sequence[Pack]) -> Mapping[int, str]:
        """Start agents and wait for them. The server decides which agent gets which run, whatever the packs hold.

        Raises:
            KeyboardInterrupt: the agents were interrupted, and have ended.
        """
        if not self.open:
            return {}
        spec, out = self.spec, self.out
        places.write(spec, out)
        print(f"{len(self.layout)} agents, {slots.describe(self.layout)}; logs in {out / 'agents'}", flush=True)
        agents = [_start(spec, out, self.sweep, number, slot) for number, slot in enumerate(self.layout)]
        with Interrupts() as interrupts:
            try:
                _watch(spec, out, agents, partial(_replace, spec, out, self.sweep, self.host))
            finally:
                interrupts.answer()
                _end(spec, out, agents, hurry=lambda: interrupts.again)
        if interrupts.again:
            raise KeyboardInterrupt
        ended = {number: agent.process.returncode for number, agent in enumerate(agents)}
        return {number: f"ended with status {code}" for number, code in ended.items() if code}


def _repair(spec: Spec, out: Path, here: Callable[..., int]) -> int:
    """Run here, under the same sweep, what has no good record and was not stopped; what still has none is listed."""
    due = local.tasks(spec, spec.runnable, out)
    left = [task for task in due if not (task.folder / records.STOPPED).exists()]
    if len(left) < len(due):
        print(f"{len(due) - len(left)} runs were stopped in W&B; the same command again continues them", flush=True)
    if left:
        print(f"{len(left)} of {len(spec.runnable)} runs are not there after the agents, so they run here:")
        print("\n".join(f"  {task.name}  {task.label}" for task in left), flush=True)
        code = here(spec, out, cells=[task.cell for task in left])
        if code == local.INTERRUPTED:
            return code
    return check(spec, spec.runnable, out)


def _named(sweep: str, host: str) -> dict[str, str]:
    """Return the environment of local trials of a W&B sweep, given as entity/project/id."""
    entity, project, name = sweep.split("/")
    mode = "online" if _unreachable(host) is None else "offline"
    if mode == "offline":
        print(f"{host} does not answer, so what is missing runs offline; `wandb sync` sends it to the sweep later")
    return {"WANDB_MODE": mode, "WANDB_ENTITY": entity, "WANDB_PROJECT": project, "WANDB_SWEEP_ID": name}


def _check_account() -> str:
    """The server's address, if there is a key for it and it answers."""
    instead = "or leave --engine wandb out: sweeps need neither account nor network."
    if os.environ.get("WANDB_MODE", "online") != "online":
        raise InputError(f"--engine wandb: WANDB_MODE is {os.environ['WANDB_MODE']}, not online. Unset it, {instead}")
    with _one_line(os.environ.get("WANDB_BASE_URL") or "W&B"):
        known, host = account.signed_in(), str(wandb.setup().settings.base_url)
    if not known:
        raise InputError(f"--engine wandb: no key for {host}. Call `wandb login`, set WANDB_API_KEY, {instead}")
    if not (Path(sys.executable).parent / "python").exists():
        raise InputError(
            f"--engine wandb: agents call `python`, which {Path(sys.executable).parent} lacks. Add it, {instead}"
        )
    if problem := _unreachable(host):
        raise InputError(f"--engine wandb: {host} does not answer ({problem}). Try again later, {instead}")
    with _one_line(host):
        _ = wandb.Api().default_entity
    return host


def _unreachable(host: str) -> Exception | None:
    """Why the server does not answer, or None if it does, whatever it says."""
    try:
        urllib.request.urlopen(host, timeout=ANSWER).close()
    except urllib.error.HTTPError as answer:
        answer.close()
    except (OSError, ValueError, HTTPException) as problem:
        return problem
    return None


@contextlib.contextmanager
def _one_line(host: str) -> Iterator[None]:
    try:
        yield
    except (wandb.Error, ValueError) as problem:
        what = " ".join(str(problem).split())
        raise InputError(f"--engine wandb: {host} refuses ({what}); is the key right, and WANDB_ENTITY?") from None


def _sweep(spec: Spec, out: Path) -> tuple[str, bool]:
    """The sweep on the server as entity/project/id, and whether it still hands out runs: the one of before, or new."""
    known = out / f"wandb-sweep-{spec.sweep_id}"
    if known.exists():
        path = files.read_text(known, below=out).strip()
        with contextlib.suppress(wandb.Error, ValueError):  # not there any more
            found = wandb.Api().sweep(path)  # type: ignore[no-untyped-call]
            print(f"continuing the sweep {found.url}", flush=True)
            return path, found.state.upper() in ("RUNNING", "PENDING")
    tree = read_file(spec.path)
    where = next(cell.experiment.tracking for cell in spec.cells if cell.experiment)
    project = os.environ.get("WANDB_PROJECT") or tree.get("project") or where.project
    entity = os.environ.get("WANDB_ENTITY") or tree.get("entity") or where.entity
    name = wandb.sweep(tree, entity=entity, project=project)  # prints the address
    path = f"{os.environ.get('WANDB_ENTITY') or wandb.Api().default_entity}/{os.environ['WANDB_PROJECT']}/{name}"
    files.write(known, path + "\n")
    return path, True


@dataclass
class Agent:
    """An agent's process. It ends when its stdin does, so it can't outlive who holds the other end."""

    process: subprocess.Popen[bytes]
    log: Path
    slot: slots.Slot
    replaced: int = 0


def _start(spec: Spec, out: Path, sweep: str, number: int, slot: slots.Slot) -> Agent:
    log = out / "agents" / f"{number}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *AGENT, sweep],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=_environment(spec, out, slot),
            process_group=0,  # Ctrl-C is for the launcher to answer
        )
    return Agent(process, log, slot)


def _environment(spec: Spec, out: Path, slot: slots.Slot) -> dict[str, str]:
    """An agent's environment, which its trials inherit."""
    inherited = {name: value for name, value in os.environ.items() if name not in account.OF_A_PROCESS}
    told = {
        "WANDB_AGENT_DISABLE_FLAPPING": "true",
        "WANDB_AGENT_MAX_INITIAL_FAILURES": str(len(spec.cells) + 1),  # five failures would end it with status 0
        "WANDB_DIR": str((out / "agents").resolve()),
        "WANDB_HTTP_TIMEOUT": os.environ.get("WANDB_HTTP_TIMEOUT", str(HEARTBEAT)),
        "STUDY_RUNS": str(out.resolve()),
        "OMP_NUM_THREADS": str(slot.threads),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",  # ${interpreter} is `python`
    }
    return inherited | told | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})


def _replace(spec: Spec, out: Path, sweep: str, host: str, agents: list[Agent]) -> None:
    """Start agents for those that died, a few times each, once the server answers."""
    for number, agent in enumerate(agents):
        if _replaceable(agent) and _unreachable(host) is None:
            print(f"agent {number} ended with status {agent.process.returncode}, so another one is started", flush=True)
            agents[number] = replace(_start(spec, out, sweep, number, agent.slot), replaced=agent.replaced + 1)


def _watch(spec: Spec, out: Path, agents: list[Agent], mend: Callable[[list[Agent]], None]) -> None:
    """Until every agent has ended, or they have nothing to do any more."""
    open_, said, heard = _ids(spec), "", time.monotonic()
    sizes: list[int] = []
    while any(agent.process.poll() is None or (open_ and _replaceable(agent)) for agent in agents):
        if open_:
            mend(agents)
        open_ = {name for name in open_ if not _settled(out / name)}
        running = sum(lease.held(out / name) for name in open_)
        line = f"{len(spec.runnable) - len(open_)} of {len(spec.runnable)} done, {running} running"
        if line != said:
            print(line, flush=True)
        grown = [agent.log.stat().st_size for agent in agents]
        if running or line != said or grown != sizes:
            heard = time.monotonic()
        if time.monotonic() - heard > IDLE:
            print(f"the server has had nothing to do for {len(agents)} agents for {IDLE:.0f} s, so they end")
            return
        said, sizes = line, grown
        time.sleep(POLL)


def _replaceable(agent: Agent) -> bool:
    """Return True if the agent died by itself and its slot has replacements left."""
    return bool(agent.process.poll()) and agent.replaced < REPLACED


def _ids(spec: Spec) -> set[str]:
    return {cell.id for cell in spec.runnable if cell.id}


def _settled(folder: Path) -> bool:
    return records.state(folder) in ("finished", "diverged")


def _end(spec: Spec, out: Path, agents: list[Agent], hurry: Callable[[], bool]) -> None:
    """End the agents, then wait for their trials, which end when their agent is gone; in a hurry, do not wait."""
    for number, agent in enumerate(agents):
        if agent.process.poll():
            print(f"agent {number} ended with status {agent.process.returncode}; log: {agent.log}")
        agent.process.kill()
        agent.process.wait()
    deadline = time.monotonic() + 2 * GRACE
    while time.monotonic() < deadline and not hurry() and any(lease.held(out / name) for name in _ids(spec)):
        time.sleep(0.1)


def agent(sweep: str) -> None:
    """The process of one agent: the client's own loop, until the server or the launcher ends it."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
    wandb.agent(sweep)


if __name__ == "__main__":
    agent(sys.argv[1])
