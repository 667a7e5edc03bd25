"""Index of `results/`: README.md, runs.csv with a row for each run, and record.schema.json; all are generated."""

from __future__ import annotations

import json
import types
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from study import files, records
from study.analysis import labels
from study.analysis.ledger import ledger
from study.analysis.runs import HOLES, Runs
from study.claims.costs import Costs
from study.metrics import METRICS
from study.publish import counts
from study.publish.results import Manifest, Results
from study.records import Record

HEAD = """\
# Published results

Every published run with its translations, and the tables and figures computed from them. `study publish SWEEP` adds
runs. `study reproduce` writes all other files but `sweeps/`, `models/`, `maps/` and `benchmarks/`. `study verify`
checks every file. None of it needs torch.

## Read the runs

One row for each run, with its configuration and its scores:

```python
import pandas as pd

runs = pd.read_csv("results/runs.csv")
```

All scores of all runs, also those by sentence length and by share of removed heads:

```python
import json
from pathlib import Path

import pandas as pd

arms = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(Path("results/runs").glob("*.json"))]
scores = pd.json_normalize(sum(arms, []), "scores", ["id"])
```

Translations, line by line in the order of the corpus:

```python
from pathlib import Path

from study.store import Store

store = Store(Path("results"))
lines = store.hypotheses("grammar-recurrent-dot-10a1cf6c-s1", "test")
```

Without Python: `tar xf results/runs/<arm>.tar.xz` unpacks the translations of all seeds of an arm.

## Files

An arm is a configuration without its seed. The id of a run is the name of its arm and its seed, `<arm>-s<seed>`. A run
that several sweeps declare is stored once.

| | |
|---|---|
| `runs.csv` | one row for each run: id, sweeps, status, the fields of the configuration \
in which runs differ, sizes, times, every score of a whole split |
| `runs/<arm>.json` | the records of an arm, a list by seed; one line for each score and each validation |
| `runs/<arm>.tar.xz` | the other files of these runs, see below |
| `supplement.csv` | BLEU and exact match on sentences without third-person pronouns, of runs whose records lack them; \
from their translations |
| `noise.csv` | tests of contrasts over test sentences: p of each seed, in the order of the runs, and the interval \
over seeds and sentences |
| `record.schema.json` | JSON Schema of a record, with units |
| `sweeps/<name>.json` | that a sweep is published, and what is missing of it |
| `models/<id>.pt` | trained models of some runs, or parts of one (`.pt.1`, `.pt.2`); `models.json` has their SHA-256 |
| `maps/<id>.json` | attention maps of a published model for ten test sentences, by site, layer and head, in 1/1000; \
`study site --maps` makes them, with the SHA-256 of the model and of the translations |
| `benchmarks/cost.json` | times and memory of attention sites, as `benchmarks/cost.py` measured them |
| `tables/<name>.*`, `figures/sweep-<name>.*` | its comparison, computed from the records |
| `tables/claims.*`, `tables/contrasts.*` | the verdict on every claim, and what each one rests on |
| `tables/matrix.*` | the same questions judged by five scores; post hoc |
| `tables/summary.*`, `figures/forest.*` | one line a claim, and the forest plot of them in units of the margin |
| `tables/agreement-transfer.*`, `tables/agreement-longer.*` | effects of the same arms in two sweeps: on the \
grammar and on Multi30k, at 800 and at 3,200 updates |
| `tables/correlation-transfer.*`, `tables/correlation-longer.*` | rank correlations of these effects |
| `tables/further.*` | other splits, alignment and what models look at, by arm of every sweep |
| `tables/orders.*` | how stable the orders are in which heads are removed, over seeds and against greedy removal |
| `tables/standing.*` | the best models on Multi30k, chosen on validation, beside what others report |
| `tables/cost.*` | time and memory of attention sites, times those of their base |
| `tables/configurations.*`, `tables/signatures.*` | parameters of every arm, and how scores were computed |
| `tables/study.json` | counts, sizes, and the root hash of everything in `sweeps/` |
| `figures/<figure>.*` | the figures of the study, each with its data |

Files in an archive:

| | |
|---|---|
| `<id>.<split>.hyp.txt` | translations, one a line, in the order of the corpus |
| `<id>.attention.json` | one attention map to look at, beside its gold alignment |
| `<id>.<split>.bleu.tsv` | counts of each translation that BLEU and exact match are computed from; \
only of a corpus whose references are not shipped (Multi30k) |
| `<id>.<split>.nll.txt` | NLL of each sentence in nats, one a line; no run of the first edition has it |

`study show ID --runs results --json` prints a record byte for byte as the run wrote it (sorted keys, indent 1). The
SHA-256 of this text is the one in `sweeps/`. The record has the SHA-256 of each file of translations.
"""
COLUMNS = {
    "source_words": "Words of the source, punctuation not counted.",
    "exact": "1: equal to the reference.",
    "sys_len": "Tokens of the translation.",
    "ref_len": "Tokens of the reference.",
    "correct1": "Its n-grams that the reference has, n from 1 to 4; it has max(0, sys_len − n + 1) in all.",
}
LISTED = 6
"""So many missing runs are named, the rest counted."""


def write_index(results: Results, runs: Runs) -> list[Path]:
    """Write `README.md`, `runs.csv` and `record.schema.json` of a results folder; the paths written.

    Raises:
        InputError: a sweep file or a record cannot be read.
    """
    texts = {
        "README.md": "\n".join([HEAD, *_counts(results, runs), *_dictionary()]) + "\n",
        "runs.csv": runs_csv(results, runs.records()),
        "record.schema.json": json.dumps(records.schema(), indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        files.write(results.root / name, text)
    return [results.root / name for name in texts]


def runs_csv(results: Results, made: Mapping[str, Record]) -> str:
    """Return the ledger of published runs as CSV, by id; see `study.analysis.ledger`."""
    sweeps: dict[str, list[str]] = {name: [] for name in made}
    for manifest in results.manifests.values():
        for name in manifest.files:
            if (identity := name.removesuffix(".json")) in sweeps:
                sweeps[identity].append(manifest.name)
    return ledger(made, sweeps).to_csv(index=False, lineterminator="\n")


def _counts(results: Results, runs: Runs) -> Iterator[str]:
    """Yield the table of published runs, by sweep."""
    made = runs.records()
    yield "## What is published\n"
    yield "| sweep | declared | finished | diverged | failed | missing | inapplicable | hardware | hours |"
    yield "|---|--:|--:|--:|--:|--:|--:|---|--:|"
    remarks: list[str] = []
    for manifest in results.manifests.values():
        spec = results.spec(manifest)
        there = [made[cell.id] for cell in spec.runnable if cell.id in made]
        yield _row(manifest.name, len(spec.runnable), there, len(spec.inapplicable))
        remarks += _remarks(manifest, {str(cell.id) for cell in spec.runnable} - made.keys())
    yield _row("all, each run once", None, list(made.values()), None)
    yield (
        "\nHours: from the start of the last call to its end, summed over runs that may have run side by side. "
        "Inapplicable: combinations that the configuration refuses."
    )
    yield from ["", *remarks] if remarks else []


def _row(name: str, declared: int | None, runs: list[Record], inapplicable: int | None) -> str:
    states = Counter(record.status for record in runs)
    devices = sorted({record.provenance.device for record in runs if record.provenance})
    hours = sum(record.resources.wall_seconds for record in runs if record.resources) / 3600
    missing = None if declared is None else declared - len(runs)
    counts = (declared, states["finished"], states["diverged"], states["failed"], missing, inapplicable)
    cells = ["" if count is None else str(count) for count in counts]
    return _pipes([name, *cells, ", ".join(devices), labels.number(hours, 2)])


def _remarks(manifest: Manifest, absent: set[str]) -> Iterator[str]:
    """Yield remarks that a reader of one sweep's numbers needs."""
    if manifest.partial:
        named = ", ".join(f"`{identity}`" for identity in sorted(absent)[:LISTED]) or "none any more"
        more = (
            f", and {len(absent) - LISTED} more that `sweeps/{manifest.name}.json` names"
            if len(absent) > LISTED
            else ""
        )
        yield f"- **{manifest.name}** is published in part: {manifest.partial.reason}. Missing: {named}{more}."
    if len(manifest.code) > 1:
        states = ", ".join(f"{code.runs} of `{code.state}`" for code in manifest.code)
        yield (
            f"- **{manifest.name}**: the code that decides numbers was changed between its runs ({states}), under the "
            "same `protocol`; `sweeps/` has the commits."
        )


def _dictionary() -> Iterator[str]:
    yield (
        "\n## Fields of a record\n\nJSON; numbers have 6 significant digits; `null`: not known. Records of version 1 "
        "lack\n`per_sentence`; this program reads them as if it were empty."
    )
    yield from _section(Record)
    yield "\n### Scores\n\n| metric | |\n|---|---|"
    yield from (_pipes([f"`{name}`", metric.description]) for name, metric in METRICS.items())
    yield "\n### Columns of a file of statistics\n\n| column | |\n|---|---|"
    yield from (_pipes([f"`{c}`", COLUMNS.get(c, "The same.")]) for c in counts.COLUMNS)
    yield "\n## Fields of a published sweep"
    yield from _section(Manifest)
    yield "\n## Fields of the measured costs"
    yield from _section(Costs)
    yield f"\nA declared run without a result is shown as {', '.join(HOLES[:-1])} or {HOLES[-1]}, never left out."


def _section(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the fields of a model as a table, nested ones dotted."""
    yield "\n| field | type | |\n|---|---|---|"
    yield from (_pipes([f"`{name}`", kind, said]) for name, kind, said in fields(model, prefix))


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Dotted name, type and meaning of every field; a list's own fields after `[]`."""
    for name, info in model.model_fields.items():
        inner, kind = _inside(info.annotation)
        dotted = f"{prefix}{name}{'[]' if inner and kind.startswith('list') else ''}"
        yield dotted, kind, info.description or ""
        if inner:
            yield from fields(inner, f"{dotted}.")


def _inside(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """Return the model that an annotation holds, if any, and its type in words."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, "object"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return None, " or ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        held = [_inside(argument) for argument in arguments if argument is not type(None)]
        kind = " or ".join(kind for _, kind in held)
        return held[0][0], f"{kind} or null" if type(None) in arguments else kind
    if origin is list:
        inner, kind = _inside(arguments[0])
        return inner, f"list of {kind}"
    if origin is dict:
        return None, "object"
    return None, {str: "text", int: "integer", float: "number", bool: "true or false"}.get(annotation, "any")


def _pipes(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
