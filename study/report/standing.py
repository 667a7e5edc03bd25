"""Where the models of the study stand on Multi30k, beside what others report of theirs.

Of each family the published arm with the best mean BLEU on validation, whichever sweep it is of, pruned models aside.
The tests are looked at for the arm that validation chose, and have no part in choosing it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from study import records
from study.config import Experiment
from study.records import Record
from study.report import wording
from study.report.estimates import LEVEL, deviation
from study.report.published import Results
from study.report.tables import Block, Column, Row, Table

SYSTEMS = Path(__file__).with_name("systems.yaml")
CHOSEN_ON, TEST, SECOND = "valid", "test_2016_flickr", "test_2017_flickr"
NOTE = (
    "BLEU, German to English, test_2016_flickr; 2017: test_2017_flickr. Of each family of this study the published arm "
    "that is best on validation (mean over seeds, same beam): mean ± sd over its n runs, and Student's 95% interval of "
    "the mean, none with one run. Others: as reported, scored in their own ways, not comparable to the point."
)


@dataclass
class Candidate:
    """One arm: its runs by seed, each once even where several sweeps have it."""

    sweep: str
    label: str
    runs: dict[int, Record] = field(default_factory=dict)

    def bleu(self, split: str) -> list[float]:
        """The scores of a split, by seed."""
        found = (self.runs[seed].score(split, "bleu") for seed in sorted(self.runs))
        return [value for value in found if value is not None]


def standing(results: Results) -> Table:
    """One block of the study, where it has published runs on Multi30k, and one of others.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [
        Column("system", "system", "left"),
        Column("bleu", "BLEU"),
        Column("interval", "95% interval"),
        Column("second", "2017"),
        Column("valid", "validation"),
        Column("n", "n"),
        Column("parameters", "parameters"),
        Column("scorer", "scored", "left"),
    ]
    ours = [_row(family, arm) for family, arm in _best(_arms(results)).items()]
    blocks = [Block("this study", ours)] if ours else []
    return Table("Multi30k, German to English", columns, [*blocks, Block("others", list(_others()))], [NOTE])


def _arms(results: Results) -> dict[str, dict[str, Candidate]]:
    """Family ↦ hash of the configuration ↦ its runs."""
    out: dict[str, dict[str, Candidate]] = {}
    for manifest in results.manifests.values():
        spec = results.spec(manifest)
        for cell in spec.runnable:
            path = results.record_path(str(cell.id))
            if not _asked(cell.experiment) or not path.is_file():
                continue
            record = records.read(path)
            label = " ".join(word for word in spec.label(cell).split() if not word.startswith(("seed=", "family=")))
            arms = out.setdefault(record.config["model"]["family"], {})
            arms.setdefault(record.config_hash, Candidate(spec.name, label)).runs[record.seed] = record
    return out


def _asked(experiment: Experiment | None) -> bool:
    return experiment is not None and experiment.data.name == "multi30k" and experiment.pruning is None


def _best(families: dict[str, dict[str, Candidate]]) -> dict[str, Candidate]:
    """Family ↦ the arm with the best mean on validation, of those whose every run has scores."""
    out = {}
    for family in sorted(families):
        whole = [arm for arm in families[family].values() if len(arm.bleu(CHOSEN_ON)) == len(arm.runs)]
        if whole:
            out[family] = max(whole, key=lambda arm: statistics.fmean(arm.bleu(CHOSEN_ON)))
    return out


def _row(family: str, arm: Candidate) -> Row:
    tests, second, valid = (arm.bleu(split) for split in (TEST, SECOND, CHOSEN_ON))
    low, high = _interval(tests)
    first = arm.runs[min(arm.runs)]
    (signature,) = {s.signature for r in arm.runs.values() for s in r.scores if (s.split, s.metric) == (TEST, "bleu")}
    parameters = first.model.parameters if first.model else None
    beam = first.config["decoding"]["beam"]
    return Row(
        {
            "system": f"{_named(first)} (sweep {arm.sweep})",
            "bleu": wording.mean_sd(statistics.fmean(tests), deviation(tests), 2),
            "interval": _printed(low, high),
            "second": wording.mean_sd(statistics.fmean(second), deviation(second), 2),
            "valid": wording.mean_sd(statistics.fmean(valid), deviation(valid), 2),
            "n": str(len(tests)),
            "parameters": wording.number(parameters, 0),
            "scorer": f"sacreBLEU, beam {beam}; {signature}",
        },
        numbers={
            "system": family,
            "sweep": arm.sweep,
            "arm": arm.label,
            "config_hash": first.config_hash,
            "n": len(tests),
            "bleu": statistics.fmean(tests),
            "sd": deviation(tests),
            "low": low,
            "high": high,
            "second": statistics.fmean(second),
            "valid": statistics.fmean(valid),
            "parameters": parameters,
        },
    )


def _named(record: Record) -> str:
    """`transformer, 4+4 layers of width 128`."""
    model = record.config["model"]
    if model["family"] == "transformer":
        return f"transformer, {model['layers']}+{model['layers']} layers of width {model['width']}"
    return f"recurrent, width {model['width']}, {model['attention']['cross']['score']} attention"


def _interval(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    """Student's interval of a mean; none with one value, or values that agree."""
    from statsmodels.stats.weightstats import DescrStatsW

    if not deviation(values):
        return None, None
    low, high = DescrStatsW(values).tconfint_mean(LEVEL)
    return float(low), float(high)


def _printed(low: float | None, high: float | None) -> str:
    return wording.NOTHING if low is None else f"[{wording.number(low, 2)}, {wording.number(high, 2)}]"


def _others() -> Iterator[Row]:
    for system in yaml.safe_load(SYSTEMS.read_text(encoding="utf-8"))["systems"]:
        runs = system.get("runs")
        cells = dict.fromkeys(("interval", "second", "valid", "parameters"), "")
        bleu = ", ".join(wording.number(value, 2) for value in system["bleu"])
        cells |= {"system": system["system"], "bleu": bleu, "n": str(runs or ""), "scorer": system["scorer"]}
        yield Row(cells, numbers={"system": system["system"], "n": runs, "bleu": statistics.fmean(system["bleu"])})
