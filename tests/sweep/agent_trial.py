"""`study train` as an agent calls it, with a stand-in for the training alone: W&B, records and signals are real.

FATES says what seeds do at first: `fail` raises, `wait` waits to be stopped. With a checkpoint they finish.
"""

import json
import os
import sys
import time
import types

from sweep_trials import finish, note

from study import files
from study.store import records
from study.tracking import tracker


def run(experiment, folder, watch=print, hold=None, base=None):
    """As `study.training.run.run` does: replay what is there, else train; here the training takes no time."""
    if records.state(folder) == "finished":
        record = records.read(folder / "record.json")
        tracker.Tracker(experiment, folder).finish(record)
        return record
    folder.mkdir(parents=True, exist_ok=True)
    fate = None if (folder / "checkpoint").exists() else _fate(experiment)
    run, record = tracker.Tracker(experiment, folder), None
    try:
        _train(experiment, folder, fate)
        finish(experiment, folder)
        record = records.read(folder / "record.json")
    except SystemExit as ending:
        run.stop(ending.code)
        raise
    finally:
        run.finish(record)
    return record


def _fate(experiment):
    return json.loads(os.environ.get("FATES", "{}")).get(str(experiment.seed))


def _train(experiment, folder, fate):
    checkpoint = folder / "checkpoint"
    note(folder, f"{experiment.seed} {'resumed' if checkpoint.exists() else 'new'}")
    if fate is None:
        return
    checkpoint.write_text("half")
    if fate == "fail":
        raise RuntimeError("out of luck")
    files.write(folder / "waiting", f"{os.getpid()} {os.getppid()}")
    time.sleep(1000)


def local(experiment, folder):
    """The same as a trial of the local engine."""
    run(experiment, folder)


if __name__ == "__main__":
    sys.modules["study.pruning.run"] = types.SimpleNamespace(run=run)  # neither torch nor seconds
    from study.__main__ import main

    sys.exit(main(sys.argv[1:]))
