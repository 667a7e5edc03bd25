"""Stand-ins for training: each takes an experiment and its folder, and leaves a record, or does not."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

from study import records
from study.config import Experiment, config_hash, experiment_id


def note(folder: Path, line: str) -> None:
    """Append a line to the journal that all trials of a folder share."""
    with (folder.parent / "journal").open("a") as journal:
        journal.write(line + "\n")


def finish(experiment: Experiment, folder: Path, status: str = "finished") -> None:
    record = records.Record(
        protocol=1,
        id=experiment_id(experiment),
        status=status,
        config=experiment.model_dump(mode="json"),
        config_hash=config_hash(experiment),
        seed=experiment.seed,
    )
    records.write(folder / "record.json", records.dumps(record))


def quick(experiment: Experiment, folder: Path) -> None:
    note(folder, experiment_id(experiment))
    print("training")
    finish(experiment, folder)


def fated(experiment: Experiment, folder: Path) -> None:
    """Seed 1 finishes, 2 raises, 3 is killed, 4 diverges, 5 exits, 6 forgets its record."""
    note(folder, f"seed {experiment.seed}")
    match experiment.seed:
        case 2:
            raise OSError(f"cannot read {folder}/secret.txt\nand more")
        case 3:
            os.kill(os.getpid(), signal.SIGKILL)
        case 4:
            finish(experiment, folder, "diverged")
        case 5:
            os._exit(7)
        case 6:
            return
        case _:
            finish(experiment, folder)


def mended(experiment: Experiment, folder: Path) -> None:
    note(folder, f"again {experiment.seed}")
    finish(experiment, folder)


def telling(experiment: Experiment, folder: Path) -> None:
    """Write down what a trial finds."""
    found = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    (folder / "told.json").write_text(json.dumps({"env": found, "threads": experiment.trainer.threads}))
    finish(experiment, folder)


def together(experiment: Experiment, folder: Path) -> None:
    """Hold the lease until two launchers have a trial under way, so that their calls do overlap."""
    launcher = multiprocessing.parent_process().pid
    note(folder, f"{experiment_id(experiment)} {launcher}")
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        lines = (folder.parent / "journal").read_text().splitlines()
        if len({line.split()[1] for line in lines}) == 2:
            break
        time.sleep(0.01)
    finish(experiment, folder)


def interruptible(experiment: Experiment, folder: Path) -> None:
    """The first attempt leaves a checkpoint, says so and waits to be stopped; the next one finds it and finishes."""
    checkpoint = folder / "checkpoint"
    note(folder, f"{experiment.seed} {'resumed' if checkpoint.exists() else 'new'}")
    if experiment.seed > 1 and not checkpoint.exists():
        checkpoint.write_text("half")
        with (folder.parent / "started").open("w") as pipe:
            pipe.write("x")
        time.sleep(60)
    finish(experiment, folder)
