"""A stand-in for the training of a search: the score follows from the experiment."""

from study import files
from study.config import config_hash, recorded
from study.scores.score import RecordedScore
from study.store import records
from study.store.records import Record


def write(experiment, folder, valid, status="finished"):
    """Write the record of an experiment. The test score says the opposite of validation."""
    scores = [("valid", valid), ("test", 100 - valid)] if valid is not None else []
    record = Record(
        protocol=experiment.protocol,
        id=folder.name,
        status=status,
        config=recorded(experiment),
        config_hash=config_hash(experiment),
        seed=experiment.seed,
        scores=[RecordedScore(split=split, metric="nll", value=value, n=9) for split, value in scores],
    )
    files.write(folder / "record.json", records.dumps(record))


def scored(experiment, folder):
    """Make a run at once."""
    write(experiment, folder, 1000 * experiment.training.learning_rate)
