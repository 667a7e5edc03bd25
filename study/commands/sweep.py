"""Run every experiment of a sweep file that has no result yet.

Several run at a time, each in its own process. The same command continues later: finished and diverged runs are kept,
interrupted runs resume, failed runs start again. Two calls on one folder share the work. The table of results comes
last.

SWEEP is a W&B sweep file (method: grid), which `wandb sweep` accepts too. This command needs no account and no network:
W&B is offline unless WANDB_MODE is set, and `wandb sync` sends the runs later.

exit status: 0 every run has a result; 1 runs failed, and are listed with their logs; 2 wrong input; 130 or 143
interrupted, by Ctrl-C or SIGTERM
"""

import argparse
import fnmatch
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from study.commands.options import SHARED, Parser, natural, positive, program, runs_folder
from study.config import plugins, scientific
from study.engine import local, places, ray, resources, slurm, status
from study.engine.estimate import estimated, in_words
from study.errors import INSTALL, InputError
from study.folders import published, require_working, sweep_file
from study.store import records
from study.store.folder import Store
from study.sweep.file import tagged
from study.sweep.spec import Cell, Spec, load

STUDY = (sys.executable, "-P", "-m", "study")
CHOICE = ("only", "seeds", "unpublished")
ENGINES = {"slurm": ("slurm",), "ray": ("ray",), "address": ("ray",)} | dict.fromkeys(CHOICE, ("local", "slurm", "ray"))
"""Option ↦ the engines that it is for. W&B's server hands out all runs of a file."""

Report = Callable[[Spec, Path, argparse.Namespace], None]


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, a wrong sweep file, or a folder that cannot be written or read.
    """
    args = _parser().parse_args(argv)
    for option, engines in ENGINES.items():
        if getattr(args, option) is not None and args.engine not in engines:
            name, wanted = option.replace("_", "-"), " or ".join(engines)
            raise InputError(f"--{name}: expected with --engine {wanted}, got {args.engine}. Remove it.")
    from study.claims import planning

    worst, plans = 0, []
    for path in [sweep_file(args.file)] if args.tag is None else tagged(args.file, args.tag):
        spec = load(path)
        if args.blind or planning.blind(spec):
            valid = {facet: f"valid/{metric.split('/')[1]}" for facet, metric in spec.metrics.items()}
            spec = replace(spec, blind=True, metrics=valid)
        code, seconds = run(spec, _chosen(spec, args), args)
        if code > 128:  # a signal
            return code
        worst = max(worst, code)
        plans.append(seconds)
    if len(plans) > 1 and (args.dry_run or args.print):
        every = [took for seconds in plans for took in seconds]
        to = sys.stderr if args.print else sys.stdout
        print(f"in all: {len(plans)} sweeps, {len(every)} runs; {in_words(every, 1, 1)}", file=to)
    return worst


def run(
    spec: Spec, cells: Sequence[Cell], args: argparse.Namespace, report: Report | None = None
) -> tuple[int, Sequence[float | None]]:
    """Do what the options ask for with one sweep; return the exit status, and the time of each run that is due.

    Args:
        spec: the sweep.
        cells: the cells to run.
        args: the options of `study sweep`.
        report: prints the results (default: the table of `study report`).
    """
    out = runs_folder(args.runs)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder of runs, got a file. Name another folder with --runs.")
    job = local.job_of(spec, cells, out, retries=args.retries, slots=args.slots)
    if args.status:
        print(status.describe(spec, cells, out))
        return 0, ()
    bad = len(job.unreadable())
    todo = replace(job, tasks=job.due())
    if args.dry_run or args.print:
        seconds = estimated((task.experiment for task in todo.tasks), out, published())
        _plan(spec, cells, todo, seconds, args)
        return 0, seconds
    for line in status.inapplicable(cells):
        print(line)
    if todo.tasks:
        require_working(out)
        for plugin in plugins.among(value for task in todo.tasks for value in scientific(task.experiment).values()):
            plugins.check_allowed(plugin)
        if importlib.util.find_spec("torch") is None:
            raise InputError("torch: not installed, and training needs it. " + INSTALL.format("train"))
        places.write(spec, out)
        if "WANDB_NAME" in os.environ:
            print("W&B: WANDB_NAME is not used, because a sweep has several runs", flush=True)
    if args.engine == "local" or not todo.tasks:
        code = local.run(job, resources.here(), partial(_first, spec, out))
    elif args.engine == "slurm":
        return slurm.run(todo, args.slurm or slurm.Options()) or int(bad > 0), ()
    elif args.engine == "ray":
        code = ray.run(todo, args.ray or ray.Options(), args.address) or int(bad > 0)
    else:
        from study.engine import wandb_agents

        code = wandb_agents.run(spec, job, resources.here())
    if code <= 128:
        (report or _report)(spec, out, args)
    return code, ()


def _plan(
    spec: Spec, cells: Sequence[Cell], todo: local.Job, seconds: Sequence[float | None], args: argparse.Namespace
) -> None:
    """Print the runs to do, or the lines that do them; and the jobs, the resources and the time that they take."""
    if args.dry_run:
        print(f"{spec.name}: {len(todo.tasks)} of {len(spec.cells)} declared would run")
        for line in (*(f"  {task.id}  {task.label}" for task in todo.tasks), *status.inapplicable(cells)):
            print(line)
    if not todo.tasks:
        return
    machine, to = resources.here(), ["--runs", str(todo.out.resolve())]
    to += [plugins.OPTION] if os.environ.get(plugins.ALLOWED) == plugins.EVERY else []
    commands = [shlex.join([*STUDY, "train", "--overrides-json", task.overrides_json, *to]) for task in todo.tasks]
    if args.engine == "slurm":
        words = [*STUDY, "sweep", str(spec.path.resolve()), *to, *(f"--only={pattern}" for pattern in args.only or ())]
        words += [f"--seeds={','.join(map(str, args.seeds))}"] if args.seeds else []
        words += [f"--slots={args.slots}"] if args.slots else []
        words += [f"--retries={args.retries}"] if args.retries != 1 else []
        words += [f"--{name}" for name in ("unpublished", "blind") if getattr(args, name)]
        plan = (args.slurm or slurm.Options()).plan(todo, words)
    elif args.engine == "ray":
        plan = (args.ray or ray.Options()).plan(todo, commands)
    else:
        plan = local.plan(todo, machine, commands)
        if args.engine == "wandb":
            from study.engine import wandb_agents

            plan = plan._replace(script=wandb_agents.script(spec, todo.out, todo.layout(machine)))
    if args.print:
        places.write(spec, todo.out)
        print(plan.script)
    time = in_words(seconds, plan.at_once, plan.cores, plan.gpus)
    print(plan.words, time, sep="\n", file=sys.stderr if args.print else sys.stdout)


def _first(spec: Spec, out: Path, seed: int) -> None:
    """Print the table of the runs of one seed, while those of others are made; nothing of a blind sweep."""
    if not spec.blind and len(spec.seeds) > 1:
        from study.analysis.report import compared
        from study.analysis.runs import Runs

        of_seed = replace(spec, cells=tuple(cell for cell in spec.runnable if cell.experiment.seed == seed))
        print(f"\nseed {seed}, while the others are trained:")
        compared(of_seed, Runs(out)).table.print()
        print(flush=True)


def _report(spec: Spec, out: Path, args: argparse.Namespace) -> None:
    """Print the table of results, unless some of them are published ones or nobody is to see them yet."""
    where = "" if out == Path("runs") else f" --runs {shlex.quote(str(out))}"
    table = f"`{program()} report {spec.path}{where}`"
    done = [cell.id for cell in spec.runnable if records.state(out / cell.id) in ("finished", "diverged")]
    if spec.blind:
        print(f"blind: no test score is shown here; {table} shows them when you want to look")
    elif args.unpublished:
        print(f"{table} prints the table once all runs are there")
    elif done:
        from study.analysis.report import report_sweep

        report_sweep(spec, out)
        from study.claims import planning

        for line in planning.answers(spec, out):
            print(line)
        print(f"{'see one':<7} {program()} show {done[0]}{where}")
        store = Store(published()) if published().is_dir() else ()
        if same := [identity for identity in done if identity in store]:
            print(f"{'again':<7} {program()} rerun {same[0]}   # trains the published run, and compares every number")


def _parser() -> Parser:
    parser = Parser("sweep", __doc__)
    add = parser.add_argument
    text = "a sweep file, or the name of a sweep of this study; with --tag, a folder"
    add("file", **SHARED["sweep"] | {"help": text})
    add("--tag", metavar="TAG", help="run every sweep file of the folder with this tag, one after another")
    add_local(parser)
    engines = ("local", "slurm", "ray", "wandb")
    text = "what starts runs: this command (local), jobs of SLURM, tasks of Ray, or W&B agents (default: local)"
    add("--engine", choices=engines, default="local", help=text)
    text = "resources of a job: partition=gpu,time=4h,gpus=1,cpus=8,parallel=20"
    add("--slurm", type=partial(slurm.Options.parse, "--slurm"), metavar="NAME=VALUE,...", help=text)
    text = "resources of a run: gpus=0.25,cpus=2 (default: cpus=1)"
    add("--ray", type=partial(ray.Options.parse, "--ray"), metavar="NAME=VALUE,...", help=text)
    add("--address", metavar="HOST:PORT", help="address of a Ray cluster, or auto (default: Ray on this machine)")
    text = "run only arms whose label or identity matches PATTERN (glob), or contains it; repeat to require several"
    add("--only", action="append", metavar="PATTERN", help=text)
    add("--seeds", type=_seeds, metavar="1,2", help="run only these seeds")
    add("--unpublished", action="store_true", default=None, help="run only what the published results do not have")
    text = "show validation scores only: no test score, table or answer (also by a comment `# blind` in the file)"
    add("--blind", action="store_true", help=text)
    return parser


def add_local(parser: Parser) -> None:
    """Add the options of runs on this machine, which `study tune` has too."""
    add, instead = parser.add_argument, parser.add_mutually_exclusive_group()
    parser.share("--runs")
    add("--slots", type=positive, metavar="N", help="runs at a time (default: one per core, or several per GPU)")
    instead.add_argument("--status", action="store_true", help="print the state of every run, and stop")
    instead.add_argument("--dry-run", action="store_true", help="list the runs to do and estimate the time, and stop")
    text = "print a shell command for each run to do, one a line, for xargs or GNU parallel, and stop"
    instead.add_argument("--print", choices=("commands",), help=text)
    add("--retries", type=natural, metavar="N", default=1, help="start a failed run up to N more times (default: 1)")


def _seeds(text: str) -> list[int]:
    return [natural(part) for part in text.split(",")]


def _fits(cell: Cell, pattern: str) -> bool:
    return any(pattern in name or fnmatch.fnmatchcase(name, pattern) for name in (cell.id, cell.label))


def _chosen(spec: Spec, args: argparse.Namespace) -> tuple[Cell, ...]:
    """Return the cells that the options choose."""
    if unknown := set(args.seeds or ()) - set(spec.seeds):
        raise InputError(f"--seeds: expected some of {', '.join(map(str, spec.seeds))}, got {min(unknown)}.")
    store = Store(published()) if args.unpublished else ()
    chosen = []
    for cell in spec.cells:
        if args.seeds is not None and cell.overrides.get("seed", spec.seeds[0]) not in args.seeds:
            continue
        if all(_fits(cell, pattern) for pattern in args.only or ()) and cell.id not in store:
            chosen.append(cell)
    if not chosen and args.only:
        patterns = " and ".join(map(repr, args.only))
        raise InputError(f"--only: no run of {spec.path} matches {patterns}. --dry-run lists all runs.")
    return tuple(chosen)
