"""`results/runs.csv`, one row for each published run, and `results/record.schema.json`, the schema of its record."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from study import files, records
from study.analysis.run_text import flat
from study.publish.store import Results
from study.records import Record


def write_index(results: Results, made: Mapping[str, Record]) -> list[Path]:
    """Write both files of a results folder; the paths written.

    Args:
        results: the folder.
        made: its records by id.
    """
    table, schema = results.root / "runs.csv", results.root / "record.schema.json"
    files.write(table, dumps(results, made))
    files.write(schema, json.dumps(records.schema(), indent=1, ensure_ascii=False) + "\n")
    return [table, schema]


def dumps(results: Results, made: Mapping[str, Record]) -> str:
    """The table of runs as CSV, by id; an empty cell: not known, or no such field.

    Columns: id, sweeps (that declare the run, blanks between), status, every field of the configuration in which runs
    differ (dotted), parameters, flops_per_token, seconds of training and of all calls, tokens per second, the tested
    step, commit, device, and every score of a whole split (`split/metric`).
    """
    sweeps: dict[str, list[str]] = {name: [] for name in made}
    for manifest in results.manifests.values():
        for name in manifest.files:
            if (identity := name.removesuffix(".json")) in sweeps:
                sweeps[identity].append(manifest.name)
    configs = {name: dict(flat(record.config)) for name, record in made.items()}
    fields = sorted({field for config in configs.values() for field in config})
    fields = [f for f in fields if f == "seed" or len({repr(config.get(f)) for config in configs.values()}) > 1]
    scores = sorted({(s.split, s.metric) for record in made.values() for s in record.scores if s.subset is None})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "sweeps", "status", *fields, *_facts(None), *map("/".join, scores)])
    for name, record in sorted(made.items()):
        known = {(s.split, s.metric): s.value for s in record.scores if s.subset is None}
        cells = [name, " ".join(sweeps[name]), record.status, *map(configs[name].get, fields)]
        writer.writerow([*cells, *_facts(record).values(), *map(known.get, scores)])
    return out.getvalue()


def _facts(record: Record | None) -> dict[str, Any]:
    """Columns between configuration and scores."""
    model, took = (record.model, record.resources) if record else (None, None)
    chosen, made = (record.selection, record.provenance) if record else (None, None)
    return {
        "parameters": model and model.parameters,
        "flops_per_token": model and model.flops_per_token,
        "train_seconds": took and took.train_seconds,
        "wall_seconds": took and took.wall_seconds,
        "tokens_per_second": took and took.tokens_per_second,
        "tested_step": chosen and chosen.step,
        "git_commit": made and made.git_commit,
        "device": made and made.device,
    }
