"""Remove heads from a trained model and measure the loss.

The result is a run of its own beside RUN (in RUNS, if that is given): a record with the scores of the smaller model,
and its model.pt for `study translate`. The order of removal depends on training and validation data only. A pruning
that has a record is not repeated.
"""

from collections.abc import Sequence
from functools import partial

from study.commands.options import Parser, runs_folder
from study.config import experiment_from, experiment_id
from study.config.mechanisms import choices
from study.config.pruning import Pruning
from study.engine import trial
from study.errors import InputError
from study.store.find import find

FIELDS = tuple(name for name in Pruning.model_fields if name != "base_steps")  # RUN is the base


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: no such run, an option that means nothing, or a folder that cannot be written.
    """
    parser = Parser("prune", __doc__, "run", "--runs")
    for name in FIELDS:
        field = Pruning.model_fields[name]
        default = "" if field.default is None else f" (default: {field.default})"
        values = f"{', '.join(choices(field))}. " if choices(field) else ""
        text = values + (field.description or "").replace("%", "%%") + default
        metavar = name.upper() if values else "N"
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, help=text, metavar=metavar)
    args = parser.parse_args(argv)
    store, identity = find(args.run, runs_folder(args.runs))
    base, trained = store.folder / identity, store.record(identity)
    if trained.status != "finished" or trained.config.get("pruning") is not None:
        got = "a pruned one" if trained.status == "finished" else f"one that {trained.status}"
        raise InputError(f"{identity}: expected a finished run that was trained, got {got}. Choose another.")
    if not (base / "model.pt").is_file():
        raise InputError(f"{identity}: expected a run with a model, got none. `study rerun {identity}` makes one.")
    flags = {name: value for name in FIELDS if (value := getattr(args, name)) is not None}
    pruning = Pruning().model_dump(include={"question"}) | flags
    experiment = experiment_from(trained.config, {"pruning": pruning})
    folder = (args.runs or store.folder.resolve()) / experiment_id(experiment)
    print(f"{folder.name} → {folder}", flush=True)
    record = trial.record_of(experiment, folder, partial(print, flush=True), base=base)
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 1
    from study.analysis.run_text import scores

    removed = ", ".join(record.diagnostics["pruning"]["removed"]) or "no head"
    print(*scores(record), f"removed: {removed}", f"record: {folder}", sep="\n")
    return 0
