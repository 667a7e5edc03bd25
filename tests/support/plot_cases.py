"""Sweep files, and records whose scores are functions of the experiment."""

from published_lab import record_of

from study import files
from study.scores.score import RecordedScore
from study.store import records
from study.sweep.spec import load

HEAD = """
name: {name}
method: grid
metric: {{name: {metric}}}
command: ["${{env}}", "${{interpreter}}", "-m", "study", "train", "--overrides-json", "${{args_json}}"]
parameters:
  seed: {{values: {seeds}}}
"""


class Case:
    """One sweep file, and a folder of records made from a function of the experiment."""

    def __init__(self, folder, name, parameters, metric="test/exact", seeds=(1, 2, 3, 4, 5)):
        self.sweeps, self.runs = folder / "sweeps", folder / "results" / "runs"
        self.sweeps.mkdir(exist_ok=True)
        self.runs.mkdir(parents=True, exist_ok=True)
        path = self.sweeps / f"{name}.yaml"
        path.write_text(HEAD.format(name=name, metric=metric, seeds=list(seeds)) + parameters)
        self.spec = load(path)

    def write(self, score, more=lambda e: []):
        """A record for every run: `score(experiment)` in the sweep's metric, and the scores that `more` returns."""
        split, metric = self.spec.metric.split("/")
        for cell in self.spec.runnable:
            own = RecordedScore(split=split, metric=metric, value=score(cell.experiment), n=50)
            record = record_of(cell, [own, *more(cell.experiment)], [{"step": 20, "valid_bleu": 20.0}])
            files.write(self.runs / cell.id / "record.json", records.dumps(record))

    def path(self, seed, **fields):
        """The record of the run with these overrides."""
        wanted = {"seed": seed, **{name.replace("__", "."): value for name, value in fields.items()}}
        cell = next(c for c in self.spec.runnable if wanted.items() <= c.overrides.items())
        return self.runs / cell.id / "record.json"
