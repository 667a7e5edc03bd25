"""A sweep of two families of arms whose runs are written by value, a claim on it, and a measured site."""

import json

import yaml
from published_lab import PROVENANCE
from tiny_sweep import SWEEP, Tiny

from study import files
from study.analysis.runs import Runs
from study.claims.evaluate import evaluate
from study.claims.schema import read
from study.store import records
from study.sweep.spec import load

FIRST = {"width": 64, "score": "dot", "reach": "global", "slots": 16, "training": True}
MACHINE = PROVENANCE.model_copy(update={"git_commit": "a" * 40, "git_dirty": False, "device": "AMD EPYC"})
SEEDS = (1, 2, 3, 4, 5)
WIDE = SWEEP.replace("name: tiny", "name: wide").replace("[1, 2]", "[1, 2, 3, 4, 5]")
WIDE = (
    WIDE.replace("[dot, bilinear]", "[dot, bilinear, additive]")
    + "  training.learning_rate: {values: [0.001, 0.004]}\n"
)
SCORE, RATE = "model.attention.score", "training.learning_rate"
CLAIM = {
    "id": "mine",
    "slug": "my-claim",
    "statement": "dot beats bilinear",
    "type": "superiority",
    "questions": [
        {
            "sweep": "wide",
            "asked": ["grammar/recurrent"],
            "margin": 2,
            "where": {RATE: 0.001},
            "contrasts": [{"arm": {SCORE: "dot"}, "baseline": {SCORE: "bilinear"}}],
        }
    ],
}


class Study:
    """A folder of sweeps with one in it, its runs, and claims in a file."""

    def __init__(self, folder):
        self.folder, self.runs = folder, folder / "runs"
        (folder / "sweeps").mkdir()
        self.runs.mkdir()
        (folder / "sweeps" / "wide.yaml").write_text(WIDE)
        self.spec = load(folder / "sweeps" / "wide.yaml")

    def write(self, score, rate, values, status="finished", more=lambda value: [], **facts):
        for cell in self.spec.cells:
            seed, given = cell.experiment.seed, cell.overrides
            if (given[SCORE], given[RATE]) == (score, rate) and seed in values:
                value = values[seed]
                record = Tiny.record(cell, value or 0.0).model_copy(update={"status": status, **facts})
                scores = [*record.scores, *more(value)] if status == "finished" else []
                record = record.model_copy(update={"scores": scores})
                files.write(self.runs / cell.id / "record.json", records.dumps(record))

    def ask(self, *changes, margins=None, **question):
        entry = json.loads(json.dumps(CLAIM))
        entry["questions"][0] |= question
        for change in changes:
            entry |= change
        path = self.folder / "claims.yaml"
        path.write_text(yaml.safe_dump({"claims": [entry], "margins": margins or {}}))
        return evaluate([read(path)], Runs(self.runs, self.folder / "sweeps"))
