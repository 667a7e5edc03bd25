"""Sweep files and records that figures can be drawn from, with nothing in them but what figures read."""

from study import files, records
from study.config import config_hash
from study.records import Record, Score, Selection
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

    def write(self, score, **more):
        """A record for every run: `score(experiment)` in the sweep's metric, `more` functions of the experiment too."""
        for cell in self.spec.runnable:
            e = cell.experiment
            split, metric = self.spec.metric
            scores = [Score(split=split, metric=metric, value=score(e), n=50)]
            changes = {name: make(e) for name, make in more.items()}
            record = Record(
                protocol=1,
                id=cell.id,
                status="finished",
                config=e.model_dump(mode="json"),
                config_hash=config_hash(e),
                seed=e.seed,
                selection=Selection(rule="last", step=20, value=20.0),
            )
            extra = changes.pop("scores", [])
            record = record.model_copy(update={"scores": scores + extra, **changes})
            files.write(self.runs / cell.id / "record.json", records.dumps(record))

    def path(self, seed, **fields):
        """The record of the run with these overrides."""
        wanted = {"seed": seed, **{name.replace("__", "."): value for name, value in fields.items()}}
        cell = next(c for c in self.spec.runnable if wanted.items() <= c.overrides.items())
        return self.runs / cell.id / "record.json"
