"""Names of runs: the RUN of every verb, and of `study.load`.

    runs/ID, runs/ID/record.json    folder of a run, or its record
    ID                              a whole id, the beginning of one id, or a part of one id
    quickstart/2                    the second run of a sweep, as the sweep file declares them
    last                            the run in the folder of runs whose record is the newest

Runs of one's own come before published ones.
"""

import difflib
from pathlib import Path

from study.errors import InputError
from study.folders import is_results, published, sweep_file, sweeps_of
from study.store.folder import Store

RUN = (
    "a run: its folder, its id, a unique part of the id, SWEEP/NUMBER such as quickstart/2, or last (the newest in the "
    "folder of runs); your own runs first, then the published ones"
)
"""Help of RUN, the same for every verb."""
LISTED = 4


def stores(runs: Path) -> list[Store]:
    """Return the runs of a folder and the published ones, each if it is there."""
    folders = [folder for folder in (runs, published()) if folder.is_dir()]
    return [Store(folder) for folder in folders[: 1 if is_results(runs) else 2]]


def find(run: str, runs: Path) -> tuple[Store, str]:
    """Return the store and the id of the run that a text names.

    Args:
        run: the text, see above.
        runs: folder of the runs.

    Raises:
        InputError: no run fits, several fit, or it has no record yet. The message has the nearest ids.
    """
    folder = Path(run).parent if Path(run).is_file() else Path(run)
    if (folder / "record.json").is_file():
        folder = folder.resolve()
        return Store(folder.parent), folder.name
    if run == "last":
        paths = [path for path in runs.glob("*/record.json") if path.is_file()]
        if not paths:
            raise InputError(f"last: expected a folder with runs, got {runs}, which has none. Name one with --runs.")
        return Store(runs), max(paths, key=lambda path: (path.stat().st_mtime_ns, path.parent.name)).parent.name
    stores_at, identity = stores(runs), _of_sweep(run, runs) or run
    ids = [(store, store.ids()) for store in stores_at]
    for fits in (str.__eq__, str.startswith, str.__contains__):
        for store, ids_of in ids:
            found = [name for name in ids_of if fits(name, identity)]
            if len(found) > 1:
                raise InputError(f"{run}: expected one run, got {len(found)}: {_some(found)}. Give more of the id.")
            if found:
                return store, found[0]
    if identity != run or (runs / run).is_dir() or folder.is_dir():
        raise InputError(f"{run}: expected a run that has a record, got {identity}, which has none. Train it first.")
    near = difflib.get_close_matches(run, [name for _, ids_of in ids for name in ids_of], LISTED, 0.3)
    hint = f"The nearest: {_some(near)}. " if near else ""
    places = " and ".join(str(store.folder) for store in stores_at) or runs
    raise InputError(f"{run}: no such run in {places}. {hint}`study ls runs` lists all.")


def _of_sweep(run: str, runs: Path) -> str | None:
    """Return the id that `SWEEP/NUMBER` names; None for another text."""
    sweep, _, number = run.rpartition("/")
    if not sweep or not number.isdecimal() or len(number) > 9:
        return None
    from study.sweep.spec import load

    beside = sweeps_of(runs) / f"{sweep}.yaml"
    path = beside if beside.is_file() else sweep_file(sweep)
    if not path.is_file():
        raise InputError(f"{run}: no such run, because there is no sweep {path}. `study ls sweeps` lists them.")
    cells = load(path).cells
    if not 1 <= int(number) <= len(cells):
        raise InputError(f"{run}: expected a number from 1 to {len(cells)}, got {number}.")
    cell = cells[int(number) - 1]
    if not cell.id:
        raise InputError(f"{run}: expected a run, got a combination that the configuration refuses: {cell.reason}.")
    return cell.id


def _some(names: list[str]) -> str:
    return ", ".join(names if len(names) <= LISTED else [*names[:LISTED], "…"])


def model_of(store: Store, identity: str) -> bytes:
    """Return the file of a run's trained model; for a run without one, that of the published run of this id.

    Raises:
        InputError: there is none.
    """
    for place in (store, *([Store(published())] if published().is_dir() else [])):
        if (content := place.model(identity)) is not None:
            return content
    got = f"got a record alone. Train it again: `study rerun {identity}`."
    if (state := store.state(identity)) != "finished":
        got = f"got one that {state}. Choose another run."
    raise InputError(f"{identity}: expected a run with a model, {got}")
