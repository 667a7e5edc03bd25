"""Ray, its core and not Tune: each run is a task, with the local engine inside the worker that gets it."""

import importlib
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from study.engine import local, resources
from study.engine.resources import Asked, Plan, plural
from study.errors import InputError, lacking
from study.processes import noted
from study.tracking.view import PLACES

RETRIES = 5
"""Number of times that Ray starts a task again whose worker or node was lost."""
STARTS = 3
"""Number of times that Ray is asked to start here: it gives up after half a minute on a machine that is busy."""
QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}


class Options(Asked):
    """Write, for example, gpus=0.25,cpus=2."""

    cpus: float = Field(1.0, ge=0, le=10**6)
    gpus: float = Field(0.0, ge=0, le=10**6)

    def plan(self, job: local.Job, commands: Sequence[str]) -> Plan:
        """Return the tasks that make runs, and lines that submit the command of each to the cluster of RAY_ADDRESS."""
        each = f"{self.cpus:g} CPU and {self.gpus:g} GPU"
        words = f"Ray: {plural(len(job.tasks), 'task')}, each {each}, up to {RETRIES} restarts"
        request = f"--entrypoint-num-cpus={self.cpus:g} --entrypoint-num-gpus={self.gpus:g}"
        script = "\n".join(f"ray job submit --no-wait {request} -- {command}" for command in commands)
        at_once = int(resources.here().cores // max(self.cpus, 0.01))
        return Plan(words, script, max(at_once, 1), self.cpus, self.gpus)


def run(job: local.Job, options: Options, address: str | None) -> int:
    """Make each run of a job as a task; return 0, 1 if some have no record, 130 or 143 if a signal ended it.

    A worker or a node that is lost costs the runs under way there: Ray starts their tasks elsewhere, and each continues
    from its last checkpoint. The nodes share the folder of runs. Tasks end with this process, however it ends: Ray ends
    a cluster that it has started with the process that asked for it, and on another cluster the tasks of that process.

    Raises:
        InputError: no cluster answers at the address, or it never has the resources of one task.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray, out = _connected(address), job.out.resolve()
    with noted() as signals:  # now, since Ray sets handlers of its own when it connects
        try:
            _check_node(options, ray.nodes())
            task = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=RETRIES)(make)
            left = {task.remote(replace(job, out=out, slots=1, tasks=(run,)), options): run for run in job.tasks}
            print(f"{job.name}: {options.plan(job, ()).words}", flush=True)
            while left and not signals:
                for done in ray.wait(list(left), timeout=local.POLL)[0]:
                    run = left.pop(done)
                    try:
                        how = "ended" if ray.get(done) == 0 else "failed"
                    except ray.exceptions.RayError as problem:
                        how = f"failed ({_line(problem)})"
                    print(f"{len(job.tasks) - len(left)} of {len(job.tasks)}  {how}  {run.id}  {run.label}", flush=True)
        finally:
            ray.shutdown()
    if signals:
        print("interrupted: the same command again continues")
        return 128 + signals[0]
    missing = job.due()
    print(f"{job.name}: {len(job.tasks) - len(missing)} of {len(job.tasks)} runs there")
    return int(bool(missing))


def make(job: local.Job, options: Options) -> int:
    """Make one run in a worker, with what Ray gave the task.

    Raises:
        InputError: this node does not see the folder of runs.
    """
    if not (job.out / PLACES).exists():
        raise InputError(f"{job.out}: expected a folder that every node shares, and {socket.gethostname()} lacks it.")
    if not options.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    node = resources.here()
    return local.run(job, node._replace(cores=min(node.cores, max(int(options.cpus), 1)), limit="Ray"))


def _connected(address: str | None) -> Any:
    """Return Ray, connected. An address that does not answer is found within seconds; Ray itself tries for minutes."""
    ray = importlib.import_module("ray")
    for start in range(1, STARTS + 1):
        try:
            host, _, port = (address or "").removeprefix("ray://").rpartition(":")
            if host:
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            ray.init(address=address, **QUIET)
            break
        except Exception as problem:  # Ray raises bare ones, too
            ray.shutdown()
            if address is not None:
                raise InputError(
                    f"--address: no Ray cluster answers at {address} ({_line(problem)}). Start one with `ray start "
                    "--head`, or leave --address out. A cluster with a token needs ~/.ray/auth_token here, and "
                    "RAY_AUTH_MODE=token."
                ) from None
            if start == STARTS:
                remedy = "Try again when this machine is less busy, or use --engine local."
                line = lacking(problem) or f"--engine ray: Ray does not start here ({_line(problem)}). {remedy}"
                raise InputError(line) from None
    return ray


def _check_node(options: Options, nodes: Iterable[Mapping[str, Any]]) -> None:
    """Refuse resources that no node has. Ray would wait for such a node."""
    wanted = {"CPU": options.cpus, "GPU": options.gpus}
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(all(node.get(name, 0) >= count for name, count in wanted.items()) for node in alive):
        each = f"{options.cpus:g} CPU and {options.gpus:g} GPU"
        raise InputError(f"--ray: no node has {each}. Ask for less; `ray status` lists the nodes.")


def _line(problem: BaseException) -> str:
    """Return the last line of an error: a worker's begins with its traceback."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[-1].strip()[:200]
