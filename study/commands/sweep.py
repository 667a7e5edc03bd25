"""`study sweep FILE`: run what a sweep file declares and its folder does not have yet."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from study.commands.options import SHARED, Parser, natural, positive, program, runs_folder
from study.config import account, plugins, scientific
from study.errors import INSTALL, InputError
from study.run_names import published, sweep_file
from study.store import Store
from study.sweep import local, places, resources, status
from study.sweep.estimate import Past, told
from study.sweep.file import tagged
from study.sweep.spec import Cell, Spec, load
from study.sweep.trial import tidy

DESCRIPTION = """\
Run every experiment of a sweep file that has no result yet, several at a time, each in its own process. The same
command continues later: finished and diverged runs are kept, interrupted runs resume, failed runs start again. Two
calls on one folder share the work. The table of results comes last.

SWEEP is a W&B sweep file (method: grid), which `wandb sweep` accepts too. This command needs no account and no network:
W&B is offline unless WANDB_MODE is set, and `wandb sync` sends the runs later.
"""
EPILOG = """\
exit status: 0 every run has a result; 1 runs failed, and are listed with their logs; 2 wrong input; 130 or 143
interrupted, by Ctrl-C or SIGTERM
"""
STUDY = (sys.executable, "-P", "-m", "study")


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, a wrong sweep file, or a folder that cannot be written or read.
    """
    args = _parser().parse_args(argv)
    if args.json and not args.status:
        raise InputError("--json: expected with --status, got --json alone. Add --status, or remove --json.")
    if args.engine == "wandb":
        _check_whole(args)
    for option, engine in (("slurm", "slurm"), ("wait", "slurm"), ("ray", "ray"), ("address", "ray")):
        if getattr(args, option) is not None and args.engine != engine:
            raise InputError(f"--{option}: expected with --engine {engine}, got {args.engine}. Remove it.")
    if args.slots is not None and args.engine == "ray":
        raise InputError("--slots: expected another engine, got ray. Use --ray: cpus and gpus say how many runs fit.")
    args.asked = _asked(args)
    worst, plans = 0, []
    for path in [sweep_file(args.file)] if args.tag is None else tagged(args.file, args.tag):
        call = _call(path, args)
        code = call.run()
        if code > 128:  # a signal
            return code
        worst = max(worst, code)
        plans += [call.seconds] if args.dry_run or args.print else []
    if len(plans) > 1:
        every = [took for plan in plans for took in plan]
        print(f"in all: {len(plans)} sweeps, {len(every)} runs; {told(every, 1, 1)}", file=_to(args))
    return worst


def _asked(args: argparse.Namespace) -> Any:
    """Return the resources that the options name, for engines that take some. No engine is imported but that one."""
    if args.engine == "slurm":
        from study.sweep import slurm

        return slurm.options(args.slurm)
    if args.engine == "ray":
        from study.sweep import ray

        return ray.options(args.ray, args.address)
    return None


def _to(args: argparse.Namespace) -> Any:
    """Return where totals go: beside the lines for a shell, not among them."""
    return sys.stderr if args.print else sys.stdout


def _call(path: Path, args: argparse.Namespace) -> Call:
    """Return what one sweep file and the options ask for."""
    spec, out = load(path), runs_folder(args.runs)
    there = next((folder for folder in (out, *out.parents) if os.path.exists(folder)), Path())
    if not there.is_dir():
        raise InputError(f"{there}: expected a folder of runs, got a file. Name another folder with --runs.")
    cells = _shard(_narrowed(spec, args.only, args.seeds), args.shard)
    if args.unpublished:
        known = Store(published())
        cells = tuple(cell for cell in cells if cell.id is None or cell.id not in known)
    policy = local.Policy(args.retries, args.time_limit)
    return Call(args, spec, cells, local.job_of(spec, cells, out, policy=policy, slots=args.slots))


@dataclass
class Call:
    """One sweep file with the options: what to do with it, and by which engine.

    Attributes:
        args: the options.
        spec: the sweep.
        cells: its cells that are asked for.
        job: those of them that are experiments.
    """

    args: argparse.Namespace
    spec: Spec
    cells: tuple[Cell, ...]
    job: local.Job
    seconds: Sequence[float | None] = ()

    def run(self) -> int:
        """Do it; return the exit status."""
        args, job = self.args, self.job
        if args.status:
            return self._status()
        due = job.due()
        todo = replace(job, tasks=due[: args.limit])
        if args.limit is not None:
            job = todo
        if args.dry_run or args.print:
            return self._plan(todo)
        for line in status.inapplicable(self.spec, self.cells):
            print(line)
        if not due:
            none = "every run is published or made" if args.unpublished else "nothing to do, every run is there"
            print(f"{self.spec.name}: {none}")
            for task in job.tasks:
                tidy(job.out / task.id)
            if not args.unpublished:
                self._report()
            return 0
        plugins.check_every(value for task in todo.tasks for value in scientific(task.experiment).values())
        if importlib.util.find_spec("torch") is None:
            raise InputError("torch: not installed, and training needs it. " + INSTALL.format("train"))
        places.write(self.spec, job.out)
        code = getattr(self, f"_{args.engine}")(job, todo)
        if code <= 128 and args.engine != "slurm":
            self._report()
        return int(code)

    def _status(self) -> int:
        from study.sweep import slurm

        queue = slurm.queue(self.job.out)
        if self.args.json:
            print(json.dumps(status.rows(self.spec, self.cells, self.job.out, queue), indent=1))
        else:
            print(status.describe(self.spec, self.cells, self.job.out, queue))
        return 0

    def _plan(self, todo: local.Job) -> int:
        """Print the runs to do, or the lines that do them; and the jobs, the resources and the time that they take."""
        args, to = self.args, _to(self.args)
        self.seconds = Past(todo.out, published()).seconds(task.experiment for task in todo.tasks)
        if args.dry_run:
            part = f", part {args.shard[0]} of {args.shard[1]}" if args.shard else ""
            print(f"{self.spec.name}: {len(todo.tasks)} of {len(self.spec.cells)} declared would run{part}")
            for task in todo.tasks:
                print(f"  {task.id}  {task.label}")
            for line in status.inapplicable(self.spec, self.cells):
                print(line)
        if not todo.tasks:
            return 0
        lines, script, at_once, cores, gpus = self._engine(todo)
        if args.print:
            print(script)
        print(lines, told(self.seconds, at_once, cores, gpus), sep="\n", file=to)
        return 0

    def _engine(self, todo: local.Job) -> tuple[str, str, int, float, float]:
        """Return what an engine would do: in words, as a script, and the runs at a time with cores and GPUs of each."""
        asked, here = self.args.asked, resources.here()
        commands = [self._command(task) for task in todo.tasks]
        if self.args.engine == "slurm":
            jobs, each = len(asked.split(todo, self.seconds)), asked.at_once(todo.slots)
            script = asked.script(todo.name, jobs, [*STUDY, "sweep", *self._narrowing()])
            cores, gpus = (asked.cpus or 1) / each, asked.gpus / each
            return asked.describe(jobs), script, min(asked.parallel, jobs) * each, cores, gpus
        if self.args.engine == "ray":
            at_once = max(int(here.cores // max(asked.cpus, 0.01)), 1)
            return asked.describe(len(commands)), asked.script(commands), at_once, asked.cpus, asked.gpus or 0
        layout = todo.layout(here)
        words = here.describe(layout, [task.experiment for task in todo.tasks])
        gpus = len({slot.gpu for slot in layout if slot.gpu}) / len(layout)
        cores = layout[0].threads_of(todo.tasks[0].experiment) * layout[0].processes
        if self.args.engine == "wandb":
            from study.sweep import wandb_agents

            script = wandb_agents.script(self.spec, todo.out, layout)
            return f"W&B: {len(layout)} agents, {words}", script, len(layout), cores, gpus
        return f"local: {words}", "\n".join(commands), len(layout), cores, gpus

    def _command(self, task: local.Task) -> str:
        """Return the line for a shell that makes one run as the local engine does."""
        cell = next(cell for cell in self.cells if cell.id == task.id)
        settings = [f"{name}={value}" for name, value in places.variable(self.spec, cell).items()]
        train = [*STUDY, "train", "--overrides-json", cell.overrides_json]
        return shlex.join(["env", *settings, *train, "--runs", str(self.job.out.resolve())])

    def _narrowing(self) -> list[str]:
        """Return the words of this call that choose runs, for another call that makes a part of them."""
        args = self.args
        words = [str(self.spec.path.resolve()), "--runs", str(self.job.out.resolve())]
        words += [word for pattern in args.only or () for word in ("--only", pattern)]
        words += ["--seeds", ",".join(map(str, sorted(args.seeds)))] if args.seeds else []
        words += ["--slots", str(args.slots)] if args.slots else []
        return words + (["--unpublished"] if args.unpublished else [])

    def _local(self, job: local.Job, todo: local.Job) -> int:
        if address := account.project_address():
            print(f"W&B: {address}", flush=True)
        return local.run(job, resources.here())

    def _wandb(self, job: local.Job, todo: local.Job) -> int:
        from study.sweep import wandb_agents

        code = wandb_agents.run(self.spec, job, resources.here())
        return code if code > 128 else status.check(job)

    def _ray(self, job: local.Job, todo: local.Job) -> int:
        from study.sweep import ray

        code = ray.run(todo, self.args.asked)
        return code or status.check(job)

    def _slurm(self, job: local.Job, todo: local.Job) -> int:
        """Submit what is due and in no queue, and wait for the jobs where that is asked for."""
        from study.sweep import slurm

        asked, queued = self.args.asked, slurm.queued(todo)
        free = replace(todo, tasks=tuple(task for task in todo.tasks if task.id not in queued))
        if queued:
            print(f"{len(queued)} runs are in jobs that wait or run; --status lists them")
        if free.tasks:
            parts = asked.split(free, Past(job.out, published()).seconds(task.experiment for task in free.tasks))
            slurm.submit(asked, parts)
            print(asked.describe(len(parts)))
            print(f"{job.name}: {len(free.tasks)} runs in {len(parts)} jobs, logs in {job.out / slurm.FOLDER}")
        if not self.args.wait:
            print("the same command again submits what is due then, and --status shows jobs and runs")
            return 0
        try:
            slurm.wait(job)
        except KeyboardInterrupt:
            local.tell("interrupted: the jobs go on; --status shows them, and the same command waits again")
            return 130
        code = status.check(job)
        self._report()
        return code

    def _report(self) -> None:
        """Print the table of results; after a part of the sweep, once the other parts are there too."""
        spec, out, args = self.spec, self.job.out, self.args
        where = "" if out == Path("runs") else f" --runs {shlex.quote(str(out))}"
        if args.unpublished:
            print(f"`{program()} publish {spec.path}{where}` adds these runs to the published ones")
            return
        found = status.by_state(spec.cells, out)
        if args.shard and (found["missing"] or found["interrupted"] or found["running"]):
            print(f"the last shard prints the table; so does `{program()} report {spec.path}{where}`")
        elif found["finished"]:
            from study.publish.report import report_sweep

            report_sweep(spec, out)
            print(f"{'see one':<7} {program()} show {found['finished'][0].id}{where}")


def _check_whole(args: argparse.Namespace) -> None:
    """Refuse options that W&B agents cannot follow: the server hands out all runs of the file."""
    local_only = ("only", "seeds", "limit", "shard", "time_limit", "unpublished")
    given = [f"--{name.replace('_', '-')}" for name in local_only if getattr(args, name) is not None]
    if given:
        raise InputError(f"{given[0]}: expected --engine local, got wandb, which runs the whole file. Remove one.")


def _parser() -> Parser:
    parser = Parser(
        prog="study sweep",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    add = parser.add_argument
    add(
        "file", **SHARED["sweep"] | {"help": "a sweep file, or the name of a sweep of this study; with --tag, a folder"}
    )
    add("--tag", metavar="TAG", help="run every sweep file of the folder with this tag, one after another")
    parser.share("--runs")
    add("--slots", type=positive, metavar="N", help="runs at a time (default: one per core, or several per GPU)")
    add(
        "--engine",
        choices=("local", "slurm", "ray", "wandb"),
        default="local",
        help="what starts runs: this command (local), jobs of SLURM, tasks of Ray, or W&B agents (default: local)",
    )
    add("--slurm", metavar="NAME=VALUE,...", help="resources of a job: partition=gpu,time=4h,gpus=1,cpus=8,parallel=20")
    add("--wait", action="store_true", default=None, help="with --engine slurm: show progress until all jobs end")
    add("--ray", metavar="NAME=VALUE,...", help="resources of a run: gpus=0.25,cpus=2 (default: cpus=1)")
    add("--address", metavar="HOST:PORT", help="address of a Ray cluster, or auto (default: Ray on this machine)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="print the state of every run, and stop")
    add("--json", action="store_true", help="with --status: print JSON, one object per run")
    what.add_argument("--dry-run", action="store_true", help="list the runs to do and estimate the time, and stop")
    what.add_argument(
        "--print",
        choices=("commands",),
        help="print a shell command for each run to do, one a line, for xargs or GNU parallel, and stop",
    )
    add(
        "--only",
        action="append",
        metavar="PATTERN",
        help="run only arms whose label or identity matches PATTERN (glob), or contains it; repeat to require several",
    )
    add("--seeds", type=_seeds, metavar="1,2", help="run only these seeds")
    add("--unpublished", action="store_true", default=None, help="run only what the published results do not have")
    add("--limit", type=positive, metavar="N", help="run at most N experiments in this call")
    add("--shard", type=_part, metavar="I/N", help="run only part I of N of the sweep, I from 1")
    add("--retries", type=natural, metavar="N", default=1, help="start a failed run up to N more times (default: 1)")
    add(
        "--time-limit",
        type=_seconds,
        metavar="TIME",
        help="end a run after TIME, such as 90s, 45m or 2h; the next attempt resumes it",
    )
    return parser


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(s|m|h)", text, re.ASCII)
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"expected a time from 1s with its unit, such as 90s, 45m or 2h, got {text!r}")
    return seconds


def _part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected I/N with I from 1 to N, such as 1/8, got {text!r}")
    return int(found[1]), int(found[2])


def _seeds(text: str) -> set[int]:
    if not all(part.isascii() and part.isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"expected seeds such as 1,2,3, got {text!r}")
    return {int(part) for part in text.split(",")}


def _narrowed(spec: Spec, only: list[str] | None, seeds: set[int] | None) -> tuple[Cell, ...]:
    if seeds is not None and (unknown := seeds - set(spec.seeds)):
        raise InputError(f"--seeds: expected some of {', '.join(map(str, spec.seeds))}, got {min(unknown)}.")
    chosen = tuple(
        cell
        for cell in spec.cells
        if all(_matches(pattern, cell.id or "", spec.label(cell)) for pattern in only or ())
        and (seeds is None or cell.overrides.get("seed", spec.seeds[0]) in seeds)
    )
    if not chosen:
        raise InputError(
            f"--only: no run of {spec.path} matches {' and '.join(map(repr, only or ()))}. --dry-run lists all runs."
        )
    return chosen


def _shard(cells: tuple[Cell, ...], part: tuple[int, int] | None) -> tuple[Cell, ...]:
    """One part of the cells: every n-th in the order of their identities. The first also has those that are none."""
    if part is None:
        return cells
    index, count = part
    chosen = set(sorted(cell.id for cell in cells if cell.id is not None)[index - 1 :: count])
    return tuple(cell for cell in cells if cell.id in chosen or (cell.id is None and index == 1))


def _matches(pattern: str, *names: str) -> bool:
    return any(pattern in name or fnmatch.fnmatchcase(name, pattern) for name in names)
