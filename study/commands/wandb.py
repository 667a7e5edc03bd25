"""Send runs to W&B from their records.

`study wandb push FOLDER` makes the W&B run of every record of a folder, or completes it: also if the run was offline,
or was killed after its record was written. A run that is complete is left alone, so the same command twice changes
nothing. If the folder holds published results, everybody can have their runs in a project of their own.

A run that was deleted in W&B cannot be sent to that project again, because W&B refuses its id.

docs/runs.md lists what a run has in W&B.

Nothing is sent for a run without a record. Files of W&B in the folder are neither read nor changed.

The project is attention-ablation; WANDB_PROJECT and WANDB_ENTITY choose another.

exit status: 0 all is sent; 1 some runs could not be sent, and are listed; 2 wrong input, or no account
"""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from study.commands.options import Parser, runs_folder
from study.errors import INTERRUPTED, InputError
from study.folders import sweep_file, sweeps_of
from study.store.find import RUN, find

HOPELESS = 3
"""Failures of the server in a row that end a push: each waits for a while."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: a wrong option, no such folder or sweep, or W&B cannot be reached.
    """
    parser = Parser("wandb", __doc__)
    add = parser.add_argument
    add("what", choices=("push",), metavar="push", help="send runs to W&B from their records")
    add("folder", type=Path, metavar="FOLDER|RUN", help=f"a folder of runs, results (the published runs), or {RUN}")
    add("--sweep", type=Path, metavar="SWEEP", help="only the runs of this sweep: its file, or its name")
    args = parser.parse_args(argv)
    from study.engine.places import places
    from study.store.folder import Store
    from study.sweep.spec import load
    from study.tracking import push
    from study.tracking.tracker import cause, of_the_server
    from study.tracking.view import view_of

    if args.folder.is_dir() and not (args.folder / "record.json").is_file():
        store = Store(args.folder)
        ids = store.ids()
    else:
        store, identity = find(str(args.folder), runs_folder())
        ids = [identity]
    specs = []
    for file in sorted(sweeps_of(store.folder).glob("*.yaml")):
        with suppress(InputError):  # such as a file for `study tune`
            specs.append(load(file))
    if args.sweep is not None:
        specs.append(load(sweep_file(args.sweep)))
        ids = [identity for identity in ids if identity in {cell.id for cell in specs[-1].runnable}]
    if not ids:
        whose = " of that sweep" if args.sweep else ""
        raise InputError(f"{args.folder}: expected records, got none{whose}. Name another folder of runs.")
    by_id = places({spec.path.resolve(): spec for spec in specs}.values())
    counts, in_a_row = Counter[str](), 0
    with push.opened() as project:
        print(f"W&B: {len(ids)} runs for the project {project.entity}/{project.name}", flush=True)
        for number, identity in enumerate(ids, 1):
            try:
                store.check_copy(identity)
                view = view_of(store, identity, by_id.get(identity))
                outcome, line = project.send(view), f"{identity}  {view.label['name']}"
            except KeyboardInterrupt:
                print(f"interrupted: {number - 1} of {len(ids)} runs done; the same command again continues")
                return INTERRUPTED
            except Exception as problem:
                outcome, line = "failed", f"{identity}: {cause(problem)}"
                in_a_row += of_the_server(problem)
            else:
                in_a_row = 0
            counts[outcome] += 1
            to = sys.stderr if outcome == "failed" else sys.stdout
            print(f"{number}/{len(ids)}  {outcome:<8}  {line}", file=to, flush=True)
            if in_a_row == HOPELESS:
                print(f"W&B: {HOPELESS} runs in a row failed; repeat the command later for the rest", file=sys.stderr)
                break
    print(", ".join(f"{counts[name]} {name}" for name in ("sent", "updated", "complete", "failed") if counts[name]))
    return int(counts["failed"] > 0)
