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
from collections.abc import Mapping, Sequence
from pathlib import Path

from study.commands.options import SHARED, Parser, natural, positive, program, runs_folder
from study.config import account, plugins, scientific
from study.errors import INSTALL, InputError
from study.run_names import published, sweep_file
from study.store import Store
from study.sweep import disk, engines, local, places, slots, status
from study.sweep.engines import ray, slurm
from study.sweep.estimate import estimate, seconds_each
from study.sweep.file import tagged
from study.sweep.spec import Cell, Spec, load

DESCRIPTION = """\
Run every experiment of a sweep file that has no result yet, several at a time, each in its own process. The same
command continues later: finished and diverged runs are kept, interrupted runs resume, failed runs start again. Two
calls on one folder share the work. The table of results comes last.

SWEEP is a W&B sweep file (method: grid), which `wandb sweep` accepts too. This command needs no account and no network:
W&B is offline unless WANDB_MODE is set, and `wandb sync` sends the runs later.
"""
EPILOG = """\
exit status: 0 every run has a result; 1 runs failed, and are listed with their logs; 2 wrong input; 130 interrupted
"""


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
    worst = 0
    for path in [sweep_file(args.file)] if args.tag is None else tagged(args.file, args.tag):
        code = _sweep(path, args)
        if code == local.INTERRUPTED:
            return code
        worst = max(worst, code)
    return worst


def _sweep(path: Path, args: argparse.Namespace) -> int:
    """Run one sweep file and return the exit status."""
    spec = load(path)
    out = runs_folder(args.runs)
    _check_folder(out)
    cells = _shard(_narrowed(spec, args.only, args.seeds), args.shard)
    if args.unpublished:
        there = Store(published())
        cells = tuple(cell for cell in cells if cell.id is None or cell.id not in there)
    if args.status:
        jobs = slurm.jobs(out)
        if args.json:
            print(json.dumps(status.rows(spec, cells, out, jobs), indent=1))
        else:
            print(status.describe(spec, cells, out, jobs))
        return 0
    todo = [task.cell for task in local.tasks(spec, cells, out)][: args.limit]
    if args.print:
        for cell in todo:
            print(_command(spec, cell, out))
        return 0
    from study.claims.planning import claim_lines

    if args.dry_run:
        _list(spec, cells, todo, args.shard)
        layout, why = local.layout_for(todo, out, args.slots)
        print(
            estimate(todo, out, len(layout), Store(published())),
            *([why] if why else []),
            *claim_lines(spec, out),
            sep="\n",
        )
        return 0
    for line in status.inapplicable(spec, cells):
        print(line)
    if args.unpublished and not todo:
        print(f"{spec.name}: every run is published or made")
        return 0
    chosen = todo if args.limit is not None else list(cells)
    plugins.check_every(value for cell in todo if cell.experiment for value in scientific(cell.experiment).values())
    if args.engine == "slurm":
        return _by_slurm(spec, chosen, todo, out, args)
    if todo:
        _check_installed()
        _check_writable(out)
        for line in claim_lines(spec, out):
            print(line, flush=True)
        if args.engine == "local" and (address := account.project_address()):
            print(f"W&B: {address}", flush=True)
    if args.engine == "wandb":
        code = _by_agents(spec, out, args)
    elif args.engine == "ray":
        code = _by_ray(spec, chosen, todo, out, args)
    else:
        code = local.run_sweep(spec, out, args.slots, cells=chosen, policy=local.Policy(args.retries, args.time_limit))
    if code != local.INTERRUPTED and args.unpublished:
        print(f"`{program()} publish {spec.path} --runs {shlex.quote(str(out))}` adds these runs to the published ones")
    elif code != local.INTERRUPTED:
        _report(spec, out, args.shard is not None)
    return code


def _command(spec: Spec, cell: Cell, out: Path) -> str:
    """Return the line for a shell that makes one run as the local engine does."""
    settings = [f"{name}={value}" for name, value in places.variable(spec, cell).items()]
    train = [sys.executable, "-P", "-m", "study", "train", "--overrides-json", cell.overrides_json]
    return shlex.join(["env", *settings, *train, "--runs", str(out.resolve())])


def _report(spec: Spec, out: Path, part: bool) -> None:
    """The table of results; after a part of the sweep, once the other parts are there too."""
    found = status.by_state(spec.cells, out)
    if part and (found["missing"] or found["interrupted"] or found["running"]):
        print(f"the last shard prints the table; so does `{program()} report {spec.path} --runs {out}`")
    elif found["finished"]:
        from study.publish.report import report_sweep

        report_sweep(spec, out)
        where = "" if out == Path("runs") else f" --runs {shlex.quote(str(out))}"
        print(f"{'see one':<7} {program()} show {found['finished'][0].id}{where}")


def _check_whole(args: argparse.Namespace) -> None:
    """Refuse options that W&B agents cannot follow: the server hands out all runs of the file."""
    local_only = ("only", "seeds", "limit", "shard", "time_limit", "unpublished")
    given = [f"--{name.replace('_', '-')}" for name in local_only if getattr(args, name) is not None]
    if given:
        raise InputError(f"{given[0]}: expected --engine local, got wandb, which runs the whole file. Remove one.")


def _by_agents(spec: Spec, out: Path, args: argparse.Namespace) -> int:
    from study.sweep.engines import wandb

    return wandb.run_sweep(spec, out, args.slots, policy=local.Policy(args.retries))


def _by_slurm(spec: Spec, cells: Sequence[Cell], todo: list[Cell], out: Path, args: argparse.Namespace) -> int:
    """Submit what is due and in no queue, in jobs of even length, and wait for the jobs where that is asked for."""
    resources = slurm.options(args.slurm)
    failed: Mapping[int, str] = {}
    waits = bool(args.wait) or resources.cluster != "slurm"
    if todo:
        _check_installed()
        engine = slurm.Slurm(resources, spec.name, out)
        queued = {run for run, (_, state) in slurm.jobs(out).items() if state not in ("ended", "unknown")}
        free = [cell for cell in todo if cell.id not in queued]
        if len(todo) > len(free):
            print(f"{len(todo) - len(free)} runs are in jobs that wait or run; --status lists them")
        if free:
            _check_writable(out)
            places.write(spec, out)
            each = seconds_each(free, out, Store(published()))
            at_once = args.slots or max(resources.gpus * slots.SLOTS_PER_GPU, resources.cpus or 1)
            packs = engines.packs_of(_template(spec, out, args), free, each, resources.jobs(each, at_once))
            print(f"{spec.name}: {len(free)} runs in {len(packs)} jobs, logs in {out / slurm.FOLDER}", flush=True)
            failed = engine.run(packs)
        if not waits:
            if free:
                print("submitted; the same command again submits what is due then, and --status shows jobs and runs")
            return 0
        if args.wait:
            try:
                slurm.wait(spec, cells, out)
            except KeyboardInterrupt:
                local.tell("interrupted: the jobs go on; --status shows them, and the same command waits again")
                return local.INTERRUPTED
    code = engines.check(spec, cells, out, failed) if todo else 0
    _report(spec, out, args.shard is not None)
    return code


def _by_ray(spec: Spec, cells: Sequence[Cell], todo: list[Cell], out: Path, args: argparse.Namespace) -> int:
    """Give Ray a task for each run, and wait for them."""
    if args.slots is not None:
        raise InputError("--slots: expected another engine, got ray. Use --ray: cpus and gpus say how many runs fit.")
    engine = ray.Ray(ray.options(args.ray, args.address), out)
    packs = engines.packs_of(_template(spec, out, args, 1), todo, [None] * len(todo), len(todo))
    if packs:
        places.write(spec, out)  # the other engines do so while their processes start
    try:
        failed = engine.run(packs) if packs else {}
    except KeyboardInterrupt:
        print("interrupted: the same command again continues")
        return local.INTERRUPTED
    return engines.check(spec, cells, out, failed)


def _template(spec: Spec, out: Path, args: argparse.Namespace, at_once: int | None = None) -> engines.Pack:
    return engines.template(spec, out, at_once or args.slots, local.Policy(args.retries, args.time_limit))


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


def _list(spec: Spec, cells: tuple[Cell, ...], todo: list[Cell], shard: tuple[int, int] | None) -> None:
    part = f", part {shard[0]} of {shard[1]}" if shard else ""
    print(f"{spec.name}: {len(todo)} of {len(spec.cells)} declared would run{part}")
    for cell in todo:
        print(f"  {cell.id}  {spec.label(cell)}")
    for line in status.inapplicable(spec, cells):
        print(line)


def _check_folder(out: Path) -> None:
    """A folder, or nothing yet; `--status` and `--dry-run` make none."""
    there = next((path for path in (out, *out.parents) if os.path.exists(path)), Path())
    if not there.is_dir():
        raise InputError(f"{there}: expected a folder of runs, got a file. Name another folder with --runs.")


def _check_installed() -> None:
    if importlib.util.find_spec("torch") is None:
        raise InputError("torch: not installed, and training needs it. " + INSTALL.format("train"))


def _check_writable(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{out}: cannot be written ({problem.strerror}). Name another folder with --runs.") from None
    if found := disk.problem(out):
        raise InputError(found)
