"""`study` whose trials count their records: a stand-in for training, or with STUDY_TRIAL=real the training itself.

`engine.py` kills the processes of such sweeps. The stand-in takes a second: ten steps, each a function of the one
before, kept in a checkpoint.
"""

from __future__ import annotations

import json
import os
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
from study.sweep.server import PRELOAD
from study.sweep.trial import train

STEPS, SECONDS = 10, 0.1


def trial(experiment: Experiment, folder: Path) -> None:
    """Make the steps that are missing, then the record."""
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
    count(folder)


def real(experiment: Experiment, folder: Path) -> None:
    """Train the experiment, and count the record."""
    train(experiment, folder)
    count(folder)


def count(folder: Path) -> None:
    """Add a line to the file `finished`, which so has one for each record that was made."""
    with (folder / "finished").open("a", encoding="utf-8") as lines:
        lines.write("made\n")


if __name__ == "__main__":
    import stand_in  # by this name workers find the trial

    template, in_earnest = engines.template, os.environ.get("STUDY_TRIAL") == "real"
    chosen = {"trial": stand_in.real, "preload": PRELOAD} if in_earnest else {"trial": stand_in.trial, "preload": ()}
    engines.template = lambda *given: replace(template(*given), **chosen)
    local.run_sweep = partial(local.run_sweep, **chosen)
    sweep._report = lambda *_: None  # there are no scores
    sys.exit(main(sys.argv[1:]))
