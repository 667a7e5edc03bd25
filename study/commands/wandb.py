"""`study wandb push`: runs of W&B, made or completed from records."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from study.commands.options import Parser, path, runs_folder
from study.errors import INTERRUPTED, InputError
from study.run_names import RUN, find, sweeps_folder

if TYPE_CHECKING:
    from study.store import Store
    from study.tracking.view import Place, View

DESCRIPTION = """\
`study wandb push FOLDER` makes the W&B run of every record of a folder, or completes it: also if the run was offline,
was killed after its record was written, or was deleted in W&B. A run that is complete is left alone, so the same
command twice changes nothing. If the folder holds published results, everybody can have their runs in a project of
their own.

Config has the fields of the experiment and: experiment_id, arm_id (short, to group by), command (which makes the run),
sweep (all that declare the run), question, arm, facet, baseline (whether the arm is the one that others are compared
with), and arms.SWEEP, the arm in each sweep. The summary has the scores of the tested step (`split/score`) and costs
(`cost/...`). The group is the first sweep and the arm. A project without runs gets a saved view, "Arms and seeds".

Nothing is sent for a run without a record. Files of W&B in the folder are neither read nor changed.
"""
EPILOG = """\
The project is attention-ablation; WANDB_PROJECT and WANDB_ENTITY choose another.

exit status: 0 all is sent; 1 some runs could not be sent, and are listed; 2 wrong input, or no account
"""
HOPELESS = 3
"""Failures in a row that end a push: each waits for the server for a while."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: a wrong option, no such folder or sweep, or W&B cannot be reached.
    """
    args = _parser().parse_args(argv)
    from study.store import Store

    one = None
    if args.folder.is_dir() and not (args.folder / "record.json").is_file():
        store = Store(args.folder)
    else:
        store, one = find(str(args.folder), runs_folder())
    places, asked = _places(args.sweeps, args.sweep)
    ids = [name for name in ([one] if one else store.ids()) if args.sweep is None or name in asked]
    if not ids:
        whose = " of that sweep" if args.sweep else ""
        raise InputError(f"{args.folder}: expected records, got none{whose}. Name another folder of runs.")
    from study.tracking import push
    from study.tracking.tracker import cause

    counts = dict.fromkeys(("sent", "updated", "complete", "failed"), 0)
    with push.opened() as project:
        print(f"W&B: {len(ids)} runs for the project {project.entity}/{project.name}", flush=True)
        in_a_row = 0
        for number, identity in enumerate(ids, 1):
            try:
                view = _view(store, identity, places)
                outcome, name = project.send(view, args.force)
                line = f"{name}  {view.label.name}"
                if name.startswith(f"{identity}-"):
                    line += f"  (W&B does not take the id {identity} again: its run was deleted)"
            except KeyboardInterrupt:
                print(f"interrupted: {number - 1} of {len(ids)} runs done; the same command again continues")
                return INTERRUPTED
            except Exception as problem:
                reason = problem if isinstance(problem, InputError) else cause(problem)
                outcome, line = "failed", f"{identity}: {reason}"
            counts[outcome] += 1
            in_a_row = in_a_row + 1 if outcome == "failed" else 0
            to = sys.stderr if outcome == "failed" else sys.stdout
            print(f"{number}/{len(ids)}  {outcome:<8}  {line}", file=to, flush=True)
            if in_a_row == HOPELESS:
                print(f"W&B: {HOPELESS} runs in a row failed; repeat the command later for the rest", file=sys.stderr)
                break
        if args.view or (not project.runs and counts["sent"]):
            try:
                print(f"saved view: {project.save_view()}")
            except Exception as problem:
                print(f"W&B: the view was not saved: {cause(problem)}", file=sys.stderr)
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))
    return int(counts["failed"] > 0)


def _parser() -> Parser:
    parser = Parser(prog="study wandb", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("what", choices=("push",), metavar="push", help="send runs to W&B from their records")
    help_ = f"a folder of runs, results (the published runs), or {RUN}"
    add("folder", type=Path, metavar="FOLDER|RUN", help=help_)
    add("--sweep", metavar="NAME", help="only the runs of this sweep: its name, or a sweep file")
    add("--sweeps", type=Path, default=sweeps_folder(), metavar="DIR", help="folder of sweep files (default: sweeps)")
    add("--force", action="store_true", help="send configuration and summary of complete runs again, too")
    add("--view", action="store_true", help="save the view, also if the project has runs")
    return parser


def _places(sweeps: Path, asked: str | None) -> tuple[dict[str, Place], set[str]]:
    """Identity ↦ its place in the sweeps of a folder, and the identities that the sweep `asked` declares.

    Raises:
        InputError: there is no sweep of the name `asked`, or a sweep file cannot be read.
    """
    from study.sweep.places import places
    from study.sweep.spec import load

    own = path(asked) if asked and asked.endswith((".yaml", ".yml")) else None
    files = {file.resolve(): file for file in sorted(sweeps.glob("*.yaml"))} | ({own.resolve(): own} if own else {})
    specs = {file: load(name) for file, name in files.items()}
    if own is None and asked is not None and asked not in [spec.name for spec in specs.values()]:
        raise InputError(f"--sweep: expected {', '.join(s.name for s in specs.values()) or 'a file'}, got {asked!r}.")
    wanted = [spec for file, spec in specs.items() if (file == own.resolve() if own else spec.name == asked)]
    return places(specs.values()), {cell.id or "" for spec in wanted for cell in spec.runnable}


def _view(store: Store, identity: str, places: Mapping[str, Place]) -> View:
    """Return a run as W&B is to show it.

    Raises:
        InputError: its record cannot be read.
    """
    from study.tracking.view import MODEL, place_of, view_of

    def read(name: str) -> bytes | None:
        if name == "record.json":
            return store.text(identity).encode()
        return store.model(identity) if name == MODEL else store.content(identity, name)

    return view_of(store.record(identity), places.get(identity) or place_of(store.folder, identity), read)
