"""Train a run again from its record, and compare both.

Data, losses, the history of validations, the tested step, scores, translations, diagnostics and the attention map are
compared; measured times are not. The last line is `equal bit for bit`, or the first difference and its likely cause.

A published run is trained in RUNS/ID, so that its model is there for `study translate`, another run in RUNS/rerun/ID. A
rerun that was interrupted continues. A rerun that is finished is compared without training; remove its folder to train
again. A run that was made on one CPU thread is made so again. Nothing is sent to W&B, unless WANDB_MODE is set.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, runs_folder
from study.config import Experiment, experiment_from, experiment_id
from study.engine import trial
from study.errors import InputError
from study.folders import published, require_working
from study.store import records
from study.store.find import find
from study.store.folder import Store
from study.store.records import Record


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, a record of another version, or data or a folder that cannot be used.
    """
    parser = Parser("rerun", __doc__, "run", "--data", "--runs")
    args = parser.parse_args(argv)
    runs = runs_folder(args.runs)
    require_working(runs)
    store, identity = find(args.run, runs)
    folder = runs / "rerun" / identity
    if published().is_dir() and identity in (results := Store(published())):
        store, folder = results, runs / identity
    record = store.record(identity)
    experiment = _experiment(record, store.where(identity), args.data)
    print(f"{identity}: {store.where(identity)} → {folder}", flush=True)
    if records.state(folder) in ("finished", "diverged"):
        print("this rerun has a record, so nothing is trained; remove its folder to train it again")
    os.environ.setdefault("WANDB_MODE", "disabled")
    repeated = trial.record_of(experiment, folder, lambda line: print(line, flush=True))
    from study.analysis.rerun import cause, differences

    if lines := list(differences(store, Store(folder.parent), identity)):
        print(f"first difference: {lines[0]}")
        if len(lines) > 1:
            print(f"further differences: {len(lines) - 1}, such as {lines[-1]}")
        print(f"likely cause: {cause(record, repeated)}")
        return 1
    print("equal bit for bit")
    return 0


def _experiment(record: Record, where: str, data: Path | None) -> Experiment:
    """Return the experiment of a record.

    Raises:
        InputError: this version gives it another identity.
    """
    if record.status == "failed":
        raise InputError(f"{where}: expected a finished run, got one that failed. Choose another.")
    changes = {} if data is None else {"data.folder": str(data)}
    if record.provenance and record.provenance.deterministic:
        changes |= {"trainer.device": "cpu", "trainer.threads": "1"}
    experiment = experiment_from(record.config, changes)
    if experiment_id(experiment) != record.id:
        now = f"got one that it names {experiment_id(experiment)}. Use the version that made the run."
        raise InputError(f"{where}: expected a configuration of this version, {now}")
    return experiment
