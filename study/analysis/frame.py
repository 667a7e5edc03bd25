"""Records of a sweep → one tidy table, a row for every declared cell: a run that is not there is a row too."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from study import records
from study.analysis import pruned
from study.analysis.inference import Arm
from study.config import Experiment, config_hash
from study.errors import InputError
from study.publish.store import runs_of
from study.sweep.spec import Cell, Spec

if TYPE_CHECKING:
    import pandas as pd

HOLES = ("missing", "started", "failed")
"""States that leave a declared run without a result. `diverged` is a result, `inapplicable` no run."""

NUMBERS = ("valid_bleu", "entropy", "tokens_per_second", "freed", "heads", "with_one_head")

Row = dict[str, Any]


def collect(spec: Spec, runs: Path, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """One row per declared cell, in the order of the sweep file.

    Columns: facet, arm, seed, id, state (finished, diverged, failed, started, missing, inapplicable), note (an
    error, or why a cell is no experiment), valid_bleu, entropy, tokens_per_second, freed, heads, with_one_head
    (of a pruning, see `pruned`), rule, device, and one column per metric: the sweep's own and `metrics`, each named
    `split/metric` or `split/metric/subset`. NaN: no such value.

    Args:
        spec: the sweep.
        runs: folder of the records, `<id>/record.json` (working) or `<id>.json` (published), or `results/` itself.
        metrics: further scores to read.

    Raises:
        InputError: a record cannot be read, is not of the cell that its name says, lacks the deciding score, or was
            made from other data or scored by another scorer than its neighbours.
    """
    import pandas as pd

    if not runs.is_dir():
        file = shlex.quote(str(spec.path))
        raise InputError(f"{runs}: no such folder of runs; `study sweep {file}` makes the runs, --runs says where")
    runs = runs_of(runs)
    names = list(dict.fromkeys([primary(spec), *metrics]))
    facts: dict[str, dict[str, tuple[str, str]]] = {}
    rows = []
    for cell in spec.cells:
        row: Row = {"facet": spec.facet(cell), "arm": spec.arm(cell), "seed": None, "id": cell.id, "note": ""}
        row |= dict.fromkeys((*NUMBERS, *names), math.nan)
        row |= {"rule": "", "device": ""}
        if cell.experiment is None:
            row |= {"seed": cell.overrides.get("seed"), "state": "inapplicable", "note": cell.reason or ""}
        else:
            row |= {"seed": cell.experiment.seed} | _found(cell, runs, names, facts.setdefault(row["facet"], {}))
        rows.append(row)
    return pd.DataFrame(rows)


def primary(spec: Spec) -> str:
    """The score that decides, as `split/metric`."""
    return "/".join(spec.metric)


def record_path(runs: Path, identity: str) -> Path | None:
    """Where the record of a run is, working or published; None if there is none."""
    for path in (runs / identity / "record.json", runs / f"{identity}.json"):
        if path.is_file():
            return path
    return None


def _found(cell: Cell, runs: Path, names: Sequence[str], facts: dict[str, tuple[str, str]]) -> Row:
    """What is on disk for one cell."""
    assert cell.id is not None
    path = record_path(runs, cell.id)
    if path is None:
        return {"state": records.state(runs / cell.id)}
    record = records.read(path)
    _check_identity(record, cell, path)
    _check_facts(record, path, facts)
    row: Row = {"state": record.status, "note": record.error or ""}
    if record.status == "finished":
        _check_score(record, names[0], path)
    if record.status != "failed":
        row |= {name: _number(record.score(*name.split("/", 2))) for name in names}
        row |= _of_training(record, path)
        row |= {"freed": _number(pruned.freed(record)), "heads": _number(pruned.number_of_heads(record))}
        row["with_one_head"] = _number(pruned.with_one_head(record))
        row["tokens_per_second"] = record.resources.tokens_per_second if record.resources else math.nan
    row["rule"] = record.selection.rule if record.selection else ""
    row["device"] = record.provenance.device if record.provenance else ""
    return row


def _of_training(record: records.Record, path: Path) -> Row:
    """Validation BLEU and entropy, which nothing but the record holds."""
    try:
        return {"valid_bleu": _number(validation_bleu(record)), "entropy": _number(entropy(record))}
    except (TypeError, ValueError) as problem:
        why = f"no number where one belongs ({problem})"
        raise InputError(f"{path}: history or diagnostics: {why}; restore the record, or run it again") from None


def entropy(record: records.Record, site: str = "cross") -> float | None:
    """Attention entropy of a site, 0–1: H(weights) / log(visible slots), the mean over layers and heads.

    0: every query looks at one slot; 1: at all alike. None where no head has one (a memory of one slot or none).
    """
    known = [value for value in _named(record.diagnostics.get(site, []), "entropy") if value is not None]
    return sum(known) / len(known) if known else None


def _named(tree: Any, name: str) -> Iterator[Any]:
    """Every value of that name in a site's diagnostics, through layers and heads."""
    for item in tree if isinstance(tree, list) else [tree]:
        if isinstance(item, list):
            yield from _named(item, name)
        elif isinstance(item, dict):
            yield from _named(item.get(name), name)
        else:
            yield item


def validation_bleu(record: records.Record) -> float | None:
    """BLEU on validation at the selected step, else at the last one that has any."""
    known = [point for point in record.history if point.get("valid_bleu") is not None]
    step = record.selection.step if record.selection else None
    chosen = [point for point in known if point.get("step") == step] or known[-1:]
    return float(chosen[-1]["valid_bleu"]) if chosen else None


def arms(frame: pd.DataFrame, metric: str) -> list[Arm]:
    """The arms of one facet's rows, as statistics takes them; cells that are no experiments left out.

    Raises:
        InputError: arms declare unequal lists of seeds.
    """
    out = []
    first: tuple[str, set[int]] | None = None
    for label, rows in frame[frame["state"] != "inapplicable"].groupby("arm", sort=False):
        seeds = {int(seed) for seed in rows["seed"]}
        first = first or (str(label), seeds)
        if seeds != first[1]:
            raise InputError(
                f"arm {label}: seeds {sorted(seeds)}, and arm {first[0]} has {sorted(first[1])}; "
                "a comparison needs the same list for every arm"
            )
        known = rows[rows[metric].notna()]
        if (rows[metric].isna() & (rows["state"] == "finished")).any():
            known = known[:0]
        bleu = rows["valid_bleu"].dropna()
        out.append(
            Arm(
                label=str(label),
                values={int(seed): float(value) for seed, value in zip(known["seed"], known[metric], strict=True)},
                diverged=int((rows["state"] == "diverged").sum()),
                holes=int(rows["state"].isin(HOLES).sum()),
                valid_bleu=float(bleu.mean()) if len(bleu) else None,
            )
        )
    return out


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _check_identity(record: records.Record, cell: Cell, path: Path) -> None:
    """The record is of this cell, and its configuration is the one that its hash was taken from."""
    assert cell.experiment is not None
    wanted = config_hash(cell.experiment)
    for name, found, expected in (
        ("id", record.id, cell.id),
        ("config_hash", record.config_hash, wanted),
        ("seed", record.seed, cell.experiment.seed),
        ("config.seed", record.config.get("seed", record.seed), cell.experiment.seed),
        ("config", _rehashed(record), wanted),
    ):
        if found is not None and found != expected:
            raise InputError(
                f"{path}: {name}: {found}, and the run declared here has {expected}; the record was changed by hand "
                "or moved: restore it, or remove it to run again"
            )


def _rehashed(record: records.Record) -> str | None:
    """The hash of the record's configuration; None for one that today's fields no longer take."""
    try:
        return config_hash(Experiment.model_validate(record.config))
    except ValidationError:
        return None


def _check_facts(record: records.Record, path: Path, facts: dict[str, tuple[str, str]]) -> None:
    """One data checksum and one signature per score in a comparison."""
    now = {f"scores.{s.split}.{s.metric}.signature": s.signature for s in record.scores if s.metric in ("bleu", "chrf")}
    now |= {f"data.files.{name}": digest for name, digest in (record.data.files if record.data else {}).items()}
    for name, value in now.items():
        first, where = facts.setdefault(name, (str(value), str(path)))
        if str(value) != first:
            raise InputError(
                f"{path}: {name}: {value}, and {where} has {first}; they can't be compared: run one of them again"
            )


def _check_score(record: records.Record, name: str, path: Path) -> None:
    split, metric, *subset = name.split("/", 2)
    wanted = (split, metric, subset[0] if subset else None)
    if not any((s.split, s.metric, s.subset) == wanted for s in record.scores):
        there = sorted({f"{s.split}/{s.metric}" for s in record.scores if s.subset is None})
        raise InputError(
            f"{path}: scores: no {name}, which the sweep's metric names; "
            f"the record has {', '.join(there) or 'none at all'}"
        )
