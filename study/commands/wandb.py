"""`study wandb push FOLDER`: runs of W&B, made or completed from records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.commands.options import Parser, folder, path
from study.errors import INTERRUPTED, InputError

if TYPE_CHECKING:
    from study.records import Record
    from study.store import Store
    from study.sweep.spec import Cell, Spec
    from study.training.push import View

DESCRIPTION = """\
Make the W&B run of every record of a folder, or complete it: also if the run was offline, was killed after its record
was written, or was deleted in W&B. A run that is complete is left alone, so the same command twice changes nothing.
If the folder holds published results, everybody can have their runs in a project of their own.

Config has the fields of the experiment and: sweep (all that declare the run), question, arm, facet, baseline (whether
the arm is the one that others are compared with), and arms.SWEEP, the arm in each sweep. The summary has the scores of
the tested step (`split/score`) and costs (`cost/...`). The group is the first sweep and the arm.

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

    store = Store(folder(args.folder, "FOLDER"))
    places = _places(args.sweeps, args.sweep)
    ids = [one for one in store.ids() if args.sweep is None or any(p.asked for p in places.get(one, []))]
    if not ids:
        raise InputError(f"{args.folder}: expected records, got none{' of that sweep' if args.sweep else ''}.")
    from study.training import push

    with push.opened() as project:
        print(f"W&B: {len(ids)} runs for the project {project.entity}/{project.name}", flush=True)
        counts = dict.fromkeys(("sent", "updated", "complete", "failed"), 0)
        in_a_row = 0
        for number, identity in enumerate(ids, 1):
            try:
                view = view_of(store, identity, places.get(identity, []))
                outcome, name = project.send(view, args.force)
                line = f"{name}  {view.name}"
                if name.startswith(f"{identity}-"):
                    line += f"  (W&B does not take the id {identity} again: its run was deleted)"
            except KeyboardInterrupt:
                print(f"interrupted: {number - 1} of {len(ids)} runs done; the same command again continues")
                return INTERRUPTED
            except Exception as problem:
                from study.training.tracking import cause

                outcome, line = (
                    "failed",
                    f"{identity}: {problem if isinstance(problem, InputError) else cause(problem)}",
                )
            counts[outcome] += 1
            in_a_row = in_a_row + 1 if outcome == "failed" else 0
            to = sys.stderr if outcome == "failed" else sys.stdout
            print(f"{number}/{len(ids)}  {outcome:<8}  {line}", file=to, flush=True)
            if in_a_row == HOPELESS:
                print(f"W&B: {HOPELESS} runs in a row failed; repeat the command later for the rest", file=sys.stderr)
                break
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))
    return int(counts["failed"] > 0)


def _parser() -> Parser:
    parser = Parser(prog="study wandb", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("what", choices=("push",), metavar="push", help="send runs to W&B")
    add("folder", type=Path, metavar="FOLDER", help="a folder of runs, or results: the published runs")
    add("--sweep", metavar="NAME", help="only the runs of this sweep: its name, or a sweep file")
    add("--sweeps", type=Path, default=Path("sweeps"), metavar="DIR", help="folder of sweep files (default: sweeps)")
    add("--force", action="store_true", help="send configuration and summary of complete runs again, too")
    return parser


@dataclass(frozen=True)
class Place:
    """A run's place in a sweep. `asked`: the sweep is the one of --sweep."""

    spec: Spec
    cell: Cell
    asked: bool


def _places(sweeps: Path, asked: str | None) -> dict[str, list[Place]]:
    """Identity ↦ the sweeps that declare it, by name.

    Raises:
        InputError: there is no sweep of the name `asked`, or a sweep file cannot be read.
    """
    from study.sweep.spec import load

    own = path(asked) if asked and asked.endswith((".yaml", ".yml")) else None
    files = {file.resolve(): file for file in sorted(sweeps.glob("*.yaml"))} | ({own.resolve(): own} if own else {})
    specs = {file: load(name) for file, name in files.items()}
    if own is None and asked is not None and asked not in [spec.name for spec in specs.values()]:
        raise InputError(f"--sweep: expected {', '.join(s.name for s in specs.values()) or 'a file'}, got {asked!r}.")
    found: dict[str, list[Place]] = {}
    for file, spec in sorted(specs.items(), key=lambda item: (item[1].name, item[0])):
        wanted = file == own.resolve() if own else spec.name == asked
        for cell in spec.runnable:
            found.setdefault(cell.id or "", []).append(Place(spec, cell, wanted))
    return found


def view_of(store: Store, identity: str, places: Sequence[Place]) -> View:
    """Return a run as W&B is to show it.

    Raises:
        InputError: its record cannot be read.
    """
    from study.training import points, tracking
    from study.training.push import View

    record = store.record(identity)
    question = (record.config.get("pruning") or {}).get("question")
    names = tuple(place.spec.name for place in places)
    tiers = tuple(dict.fromkeys(tag for place in places for tag in place.spec.tags))
    return View(
        id=identity,
        name=_name(record, places),
        group=f"{names[0]}: {_arm(places[0])}"[:128] if places else None,
        tags=(*names, *tiers),
        job_type=tracking.job(question),
        config={**record.config, "experiment_id": identity, "seed": record.seed, **_standing(places)},
        points=points.of_record(
            record, store.content(identity, "training.jsonl"), store.content(identity, "history.jsonl")
        ),
        summary=tracking.results(record),
        shown=lambda: _shown(store, identity),
    )


def _standing(places: Sequence[Place]) -> dict[str, Any]:
    """Return the run's place in sweeps, for its configuration; the first sweep by name decides where one value must."""
    if not places:
        return {"sweep": []}
    spec, cell = places[0].spec, places[0].cell
    return {
        "sweep": [place.spec.name for place in places],
        "question": spec.description,
        "arm": spec.arm(cell),
        "facet": spec.facet(cell),
        "baseline": spec.arm(cell) == spec.baseline(spec.facet(cell)),
        "arms": {place.spec.name: _arm(place) for place in places},
    }


def _arm(place: Place) -> str:
    """Return a run's facet and arm."""
    return " ".join(_parts(place))


def _parts(place: Place) -> Iterator[str]:
    if facet := place.spec.facet(place.cell):
        yield facet
    yield place.spec.arm(place.cell)


def _name(record: Record, places: Sequence[Place]) -> str:
    """Return the name of a run in W&B: its arm in words and its seed."""
    from study.analysis.labels import arm_words

    arm = " · ".join(map(arm_words, _parts(places[0]))) if places else record.id.rpartition("-s")[0]
    return f"{arm} · seed {record.seed}"


def _shown(store: Store, identity: str) -> dict[str, Any] | None:
    """Return the attention map of a run; None if there is none that can be drawn."""
    try:
        return store.attention(identity)
    except InputError:
        return None
