"""`study` with a stand-in for training: a second of steps, each a function of the one before, kept in a checkpoint.

`engine.py` kills the processes of such sweeps, since it is the engines that are tested there and not the training.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from study import files, records
from study.__main__ import main
from study.commands import sweep
from study.config import Experiment, config_hash, experiment_id, recorded
from study.sweep import engines, local

STEPS, SECONDS = 10, 0.1


def trial(experiment: Experiment, folder: Path) -> None:
    """Make the steps that are missing, then the record. The file `finished` gets a line for each record."""
    checkpoint = folder / "checkpoint"
    state = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"step": 0, "value": experiment.seed}
    while state["step"] < STEPS:
        time.sleep(SECONDS)
        state = {"step": state["step"] + 1, "value": (state["value"] * 1103515245 + state["step"]) % 2**31}
        files.write(checkpoint, json.dumps(state), durable=False)
    record = records.Record(
        protocol=1,
        id=experiment_id(experiment),
        status="finished",
        config=recorded(experiment),
        config_hash=config_hash(experiment),
        seed=experiment.seed,
        history=[state],
    )
    files.write(folder / "record.json", records.dumps(record))
    with (folder / "finished").open("a", encoding="utf-8") as lines:
        lines.write(f"{state['value']}\n")


if __name__ == "__main__":
    import stand_in  # by this name workers find the trial

    template = engines.template
    engines.template = lambda *given: replace(template(*given), trial=stand_in.trial, preload=())
    local.run_sweep = partial(local.run_sweep, trial=stand_in.trial, preload=())
    sweep._report = lambda *_: None  # there are no scores
    sys.exit(main(sys.argv[1:]))
