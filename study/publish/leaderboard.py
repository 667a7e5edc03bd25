"""Leaderboard: the models of the study on Multi30k, beside published results of others.

Each family is represented by its published arm with the best mean BLEU on validation, over all sweeps without pruning.
Test scores are read for the chosen arm and have no part in the choice.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from study.analysis import labels
from study.analysis.inference import FEWEST, deviation, one_sample
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.config import config_hash
from study.errors import InputError
from study.publish.results import Results
from study.records import Record

SYSTEMS = Path(__file__).with_name("systems.yaml")
CHOSEN_ON, TEST, SECOND = "valid", "test_2016_flickr", "test_2017_flickr"
NOTE = (
    "BLEU on test_2016_flickr, German to English; 2017: test_2017_flickr. Rows of this study: the published arm "
    "of each family that is best on validation (mean over seeds, same beam), with mean ± sd over its runs and "
    "Student's 95% CI of the mean, none with fewer than three runs; 1 of 3: so many of the declared runs. Other "
    "rows: as reported, scored in other ways, not comparable to the point."
)


@dataclass
class Candidate:
    """One arm: its declared runs by seed, each once even where several sweeps have it; None: missing or failed."""

    sweep: str
    label: str
    runs: dict[int, Record | None] = field(default_factory=dict)

    @property
    def made(self) -> list[Record]:
        """Records of the runs that are there, by seed."""
        found = (self.runs[seed] for seed in sorted(self.runs))
        return [record for record in found if record is not None]

    @property
    def diverged(self) -> int:
        """Number of runs that diverged and therefore have no score."""
        return sum(record.status == "diverged" for record in self.made)

    def bleu(self, split: str) -> list[float]:
        """Return the scores of a split, by seed.

        Raises:
            InputError: a record has none.
        """
        found = []
        for record in self.made:
            value = record.score(split, "bleu")
            if value is None:
                raise InputError(f"{record.id}: scores: expected {split}/bleu, got none. Run it again.")
            found.append(value)
        return found


def leaderboard_table(results: Results, runs: Runs) -> Table:
    """One block of the study, where it has published runs on Multi30k, and one of others.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [
        Column("system", "system", "left"),
        Column("bleu", "BLEU"),
        Column("interval", "95% CI"),
        Column("second", "2017"),
        Column("valid", "validation"),
        Column("n", "runs"),
        Column("parameters", "parameters"),
        Column("scorer", "scorer", "left"),
        Column("source", "source", "left"),
    ]
    arms = _arms(results, runs)
    ours = [_row(family, arm) for family, arm in _best(arms).items()]
    blocks = [Block("this study", ours)] if ours else []
    others = yaml.safe_load(SYSTEMS.read_text(encoding="utf-8"))
    blocks.append(Block("others", [_other(system) for system in others["systems"]]))
    return Table("Multi30k, German to English", columns, blocks, [NOTE, *_left_out(arms), others["note"]])


def _arms(results: Results, runs: Runs) -> dict[str, dict[str, Candidate]]:
    """Family ↦ hash of the configuration ↦ its runs."""
    out: dict[str, dict[str, Candidate]] = {}
    for manifest in results.manifests.values():
        spec = results.spec(manifest)
        for run in runs.of(spec):
            cell, record = run.cell, run.record
            e = cell.experiment
            if e is None or e.data.name != "multi30k" or e.pruning is not None:
                continue
            label = " ".join(word for word in spec.label(cell).split() if not word.startswith(("seed=", "family=")))
            arm = out.setdefault(e.model.family, {}).setdefault(config_hash(e), Candidate(spec.name, label))
            arm.runs[e.seed] = None if record is None or record.status == "failed" else record
    return out


def _best(families: dict[str, dict[str, Candidate]]) -> dict[str, Candidate]:
    """Family ↦ the arm with the best mean on validation, of those with runs of which none diverged."""
    out = {}
    for family in sorted(families):
        sound = [arm for arm in families[family].values() if arm.made and not arm.diverged]
        if sound:
            out[family] = max(sound, key=lambda arm: statistics.fmean(arm.bleu(CHOSEN_ON)))
    return out


def _left_out(families: dict[str, dict[str, Candidate]]) -> list[str]:
    """Return a note on arms that could not be chosen."""
    arms = [arm for family in sorted(families) for arm in families[family].values() if arm.diverged]
    said = [f"{arm.label} of {arm.sweep}, {arm.diverged} of {len(arm.runs)} runs diverged" for arm in arms]
    return [f"Not among those that could be chosen: {'; '.join(said)}."] if said else []


def _row(family: str, arm: Candidate) -> Row:
    tests, second, valid = (arm.bleu(split) for split in (TEST, SECOND, CHOSEN_ON))
    low, high = _interval(tests)
    first = arm.made[0]
    signatures = {str(s.signature) for r in arm.made for s in r.scores if (s.split, s.metric) == (TEST, "bleu")}
    parameters = first.model.parameters if first.model else None
    beam = first.config["decoding"]["beam"]
    return Row(
        {
            "system": _named(first),
            "bleu": labels.mean_sd(statistics.fmean(tests), deviation(tests), 2),
            "interval": labels.interval(low, high, 2, sign=False),
            "second": labels.mean_sd(statistics.fmean(second), deviation(second), 2),
            "valid": labels.mean_sd(statistics.fmean(valid), deviation(valid), 2),
            "n": str(len(tests)) if len(tests) == len(arm.runs) else f"{len(tests)} of {len(arm.runs)}",
            "parameters": labels.number(parameters, 0),
            "scorer": f"sacreBLEU, beam {beam}; {' and '.join(sorted(signatures))}",
            "source": f"sweep {arm.sweep}",
        },
        numbers={
            "system": family,
            "sweep": arm.sweep,
            "arm": arm.label,
            "config_hash": first.config_hash,
            "n": len(tests),
            "declared": len(arm.runs),
            "bleu": statistics.fmean(tests),
            "sd": deviation(tests),
            "low": low,
            "high": high,
            "second": statistics.fmean(second),
            "valid": statistics.fmean(valid),
            "parameters": parameters,
        },
        runs=[record.id for record in arm.made],
    )


def _named(record: Record) -> str:
    """`transformer, 4+4 layers of width 128`."""
    model = record.config["model"]
    if model["family"] == "transformer":
        return f"transformer, {model['layers']}+{model['layers']} layers of width {model['width']}"
    seen, score = model["memory"], model["attention"]["cross"]["score"]
    return f"recurrent, width {model['width']}, {f'{score} attention' if seen == 'states' else f'memory {seen}'}"


def _interval(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    """Student's interval of a mean; none with fewer than three values, or values that agree."""
    if len(values) < FEWEST:
        return None, None
    test = one_sample(values, values)
    return (None, None) if test.low is None or test.high is None else (test.low, test.high)


def _other(system: dict[str, Any]) -> Row:
    cells = dict.fromkeys(("interval", "second", "valid", "parameters"), labels.NOTHING)
    runs = system.get("runs")
    cells |= {name: system[name] for name in ("system", "scorer", "source")}
    bleu = ", ".join(labels.number(value, 2) for value in system["bleu"])
    cells |= {"bleu": bleu, "n": str(runs or labels.NOTHING)}
    numbers = {"system": system["system"], "n": runs, "bleu": statistics.fmean(system["bleu"])}
    return Row(cells, numbers=numbers | {"source": system["source"]})
