"""The paper: data that `paper/*.typ` read beside the tables of the sweeps, and its build.

results/tables/study.json          counts, sizes, verdicts, figures, the root hash and one entry per published sweep
results/tables/configurations.*    every published arm with its parameters
results/tables/signatures.*        how every score was computed
results/tables/orders.*            how stable orders of pruning are over seeds
results/tables/further.*           other splits and what models look at, by arm
results/tables/standing.*          the best models on Multi30k, beside what others report
results/tables/cost.*              time and memory of attention sites, where they were measured
paper/main.pdf                     the same bytes from the same results
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from study import metrics
from study.analysis import labels
from study.analysis.inference import deviation
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.claims import costs
from study.claims.verdicts import NOT_RUN, Outcome, Verdict, summaries
from study.config.pruning import TRAINING
from study.corpora.catalogue import KINDS
from study.corpora.grammar.lexicon import lexicon
from study.errors import InputError
from study.files import CHECKOUT, write
from study.publish.leaderboard import leaderboard_table
from study.publish.order_stability import stability_table
from study.publish.results import Manifest, Results
from study.records import Record
from study.sweep.grid import text
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

SOURCE = CHECKOUT / "paper" / "main.typ"


def write_data(results: Results, runs: Runs, verdicts: Sequence[Verdict]) -> list[Path]:
    """Write what the paper reads beside the sweeps' own tables and the verdicts; the paths written.

    Raises:
        InputError: a sweep file or a record cannot be read, or the verdicts were not computed before.
    """
    made = runs.records()
    published = [(manifest, results.spec(manifest)) for manifest in results.manifests.values()]
    tables = results.root / "tables"
    paths = [tables / "study.json"]
    facts = _facts(results, runs, verdicts)
    write(paths[0], json.dumps(facts, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    paths += _configurations(published, made).write(tables, "configurations")
    paths += _signatures(made.values()).write(tables, "signatures")
    paths += further_scores(results, runs).write(tables, "further")
    paths += stability_table(results, runs).write(tables, "orders")
    paths += leaderboard_table(results, runs).write(tables, "standing")
    if measured := costs.read(results.benchmarks):
        paths += costs.costs_table(measured).write(tables, "cost")
    return paths


def _facts(results: Results, runs: Runs, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts over all published runs, the verdicts' and one entry a sweep."""
    made = runs.records()
    states = Counter(record.status for record in made.values())
    seconds = sum(record.resources.wall_seconds for record in made.values() if record.resources)
    return {
        "root_hash": results.root_hash,
        "runs_counted": len(made),
        "prunings": sum(_is_pruned(record) for record in made.values()),
        "trainings": sum(not _is_pruned(record) for record in made.values()),
        "runs_diverged": states["diverged"],
        "runs_failed": states["failed"],
        "hours": labels.number(seconds / 3600),
        "devices": sorted({record.provenance.device for record in made.values() if record.provenance}),
        "claims": _answers(verdicts),
        "verdicts": summaries(verdicts),
        "second": _second_edition(verdicts),
        "agreements": sorted(p.stem.partition("-")[2] for p in (results.root / "tables").glob("correlation-*.json")),
        "figures": sorted(p.stem for p in (results.root / "figures").glob("*.svg") if not p.stem.startswith("sweep-")),
        "published": list(results.manifests),
        "sweeps": {name: _sweep(one, results.spec(one), made) for name, one in results.manifests.items()},
        "tiers": tiers(results, runs),
        "sizes": _sizes([record for record in made.values() if not _is_pruned(record)]),
    }


def _is_pruned(record: Record) -> bool:
    """Return True if a run prunes a model that another run trained. Retraining with a mask counts as training."""
    pruning = record.config.get("pruning")
    return pruning is not None and pruning["question"] not in TRAINING


def _sizes(trained: list[Record]) -> dict[str, Any]:
    """The sizes that most runs on the grammar have, and the first edition's recipes on Multi30k; empty without runs."""
    grammar = [record for record in trained if record.config["data"]["name"] == "grammar"]
    real = [r for r in trained if r.config["data"]["name"] == "multi30k" and r.protocol == 1]
    out: dict[str, Any] = {}
    if grammar:
        data = {
            name: _usual(r.config["data"][name] for r in grammar) for name in ("train_pairs", "test_pairs", "lexicon")
        }
        words = lexicon(data["lexicon"])
        seconds = statistics.median(r.resources.wall_seconds for r in grammar if r.resources)
        counts = [(r.config["model"]["family"], r.model.parameters) for r in grammar if r.model]
        out["grammar"] = {
            "train_pairs": labels.number(data["train_pairs"], 0),
            "test_pairs": labels.number(data["test_pairs"], 0),
            "lexicon": sum(len(getattr(words, field.name)) for field in fields(words)),
            "width": _usual(r.config["model"]["width"] for r in grammar),
            "seconds": labels.number(seconds, 0),
            "parameters": {
                family: labels.number(_usual(count for name, count in counts if name == family), 0)
                for family in sorted({name for name, _ in counts})
            },
        }
    for family in sorted({r.config["model"]["family"] for r in real}):
        recipes = [r.config["training"] for r in real if r.config["model"]["family"] == family]
        rates = sorted({recipe["learning_rate"] for recipe in recipes})
        out.setdefault("multi30k", {})[family] = {
            "learning_rate": " and ".join(text(rate) for rate in rates),
            "steps": " and ".join(labels.number(steps, 0) for steps in sorted({recipe["steps"] for recipe in recipes})),
        }
    return out


def _usual(values: Iterable[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def tiers(results: Results, runs: Runs) -> dict[str, dict[str, Any]]:
    """Count runs, hours and devices of each tier. Each run belongs to one tier."""
    found: dict[str, list[Record]] = {"quickstart": [], "embedded": [], "further": []}
    made = runs.records()
    sweeps: dict[str, set[str]] = {name: set() for name in made}
    specs = [results.spec(manifest) for manifest in results.manifests.values()]
    for spec in specs:
        for cell in spec.runnable:
            sweeps.get(str(cell.id), set()).add(spec.name)
    embedded = {spec.name for spec in specs if "embedded" in spec.tags}
    for name, record in made.items():
        kind = KINDS.get(record.config["data"]["name"])
        if kind is not None and kind.tier != "embedded":
            found.setdefault(kind.tier, []).append(record)
        elif "quickstart" in sweeps[name]:
            found["quickstart"].append(record)
        else:
            found["embedded" if sweeps[name] & embedded else "further"].append(record)
    return {tier: _took(some) for tier, some in found.items() if some}


def _took(runs: list[Record]) -> dict[str, Any]:
    seconds = sum(record.resources.wall_seconds for record in runs if record.resources)
    devices = {record.provenance.device for record in runs if record.provenance}
    return {"runs": len(runs), "hours": labels.number(seconds / 3600), "devices": sorted(devices)}


def _sweep(manifest: Manifest, spec: Spec, made: dict[str, Record]) -> dict[str, Any]:
    return {
        "description": spec.description.rstrip("."),
        "metric": manifest.metric,
        "partial": manifest.partial.reason if manifest.partial else None,
        "declared": len(spec.runnable),
        "runs": sum(cell.id in made for cell in spec.runnable),
        "seeds": len(spec.seeds),
        "arms": sum(len(arms) for arms in spec.arms.values()),
    }


def _answers(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Count the claims in total and by verdict."""
    counted = Counter(summaries(verdicts).values())
    return {"total": counted.total()} | {name.replace(" ", "_"): counted[name] for name in get_args(Outcome)}


def _second_edition(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Count the questions of the second edition, each in each corpus and family, and those without runs."""
    own = [one for one in verdicts if one.question.edition == 2]
    return {"questions": len(own), "waiting": sum(one.outcome == NOT_RUN for one in own)}


def _configurations(published: list[tuple[Manifest, Spec]], made: dict[str, Record]) -> Table:
    columns = [
        Column("arm", "arm", "left"),
        Column("parameters", "parameters"),
        Column("attention", "in attention"),
        Column("hash", "hash"),
    ]
    blocks = [Block(f"{m.name}: {_common(spec)}", list(_arms(spec, made))) for m, spec in published]
    return Table("Configurations", columns, blocks)


def _common(spec: Spec) -> str:
    """Join the fields that all cells of a sweep set alike, as `field=value`."""
    first = spec.cells[0].overrides
    return " ".join(f"{name}={text(value)}" for name, value in first.items() if name not in (*spec.varied, "seed"))


def _arms(spec: Spec, made: dict[str, Record]) -> Iterator[Row]:
    """One row for each arm: its first run stands for all, which differ in their seed alone."""
    shown: set[str] = set()
    for cell in spec.runnable:
        where = " ".join(word for word in spec.label(cell).split() if not word.startswith("seed="))
        record = made.get(str(cell.id))
        if where in shown or record is None:
            continue
        shown.add(where)
        facts = record.model
        yield Row(
            {
                "arm": labels.arm_words(where),
                "parameters": labels.number(facts.parameters if facts else None, 0),
                "attention": labels.number(facts.parameters_attention if facts else None, 0),
                "hash": record.config_hash[:8],
            },
            numbers={
                "sweep": spec.name,
                "arm": where,
                "parameters": facts.parameters if facts else None,
                "parameters_attention": facts.parameters_attention if facts else None,
                "config_hash": record.config_hash,
            },
            runs=[record.id],
        )


SCORES = {
    "test/nll": "NLL",
    "test/accuracy": "words",
    "long/exact": "long",
    "deep/exact": "deep",
    "pronoun/contrast": "pronouns",
    "test/aer": "AER",
    "test/attends_argmax": "on gold",
    "test_2016_flickr/bleu": "2016",
    "test_2017_flickr/bleu": "2017",
}
"""Score ↦ head of its column; a record has those of its corpus."""

FURTHER = (
    "Mean ± sd over runs. NLL: nats per sentence of test. Words: right words, %. Long, deep: exact match on sentences "
    "longer, or nested deeper, than any that was trained on, %. Pronouns: pairs of sentences told apart in which only "
    "the antecedent tells the pronoun, %. AER: of cross-attention on test. On gold: words whose largest weight is on "
    "a relevant one, %. 2016, 2017: BLEU on Multi30k's test sets."
)


def further_scores(results: Results, runs: Runs) -> Table:
    """One block for each sweep, corpus and family; none for sweeps that look at validation alone.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [Column("arm", "arm", "left"), *(Column(name, head) for name, head in SCORES.items())]
    told = [manifest for manifest in results.manifests.values() if not manifest.metric.startswith("valid/")]
    blocks = [block for manifest in told for block in _sweep_blocks(results.spec(manifest), runs)]
    return Table("Further scores", columns, blocks, [FURTHER])


def _sweep_blocks(spec: Spec, runs: Runs) -> list[Block]:
    frame = runs.table(spec, list(SCORES))
    return [
        Block(
            _titled(spec, labels.arm_words(facet)),
            _score_rows(spec, facet, frame[frame["facet"] == facet]),
            _titled(spec, facet),
        )
        for facet in spec.arms
    ]


def _titled(spec: Spec, facet: str) -> str:
    return f"{spec.name}: {facet}" if facet else spec.name


def _score_rows(spec: Spec, facet: str, frame: pd.DataFrame) -> list[Row]:
    rows = []
    for arm in spec.arms[facet]:
        here = frame[frame["arm"] == arm]
        known = {name: here[name].dropna() for name in SCORES}
        cells = {name: _mean_sd(name, values) for name, values in known.items()}
        numbers = {name: float(values.mean()) if len(values) else None for name, values in known.items()}
        rows.append(
            Row(
                {"arm": labels.arm_words(arm)} | cells,
                numbers={"sweep": spec.name, "facet": facet, "arm": arm} | numbers,
                runs=list(here["id"][here["state"].isin(("finished", "diverged"))]),
            )
        )
    return rows


def _mean_sd(name: str, values: pd.Series) -> str:
    return labels.mean_sd(float(values.mean()), deviation(values), metrics.decimals(name)) if len(values) else ""


UNSIGNED = "–: computed with the model at hand, from its probabilities; results/README.md defines every score."


def _signatures(made: Any) -> Table:
    """Return every metric and signature, with the number of scores that carry it; of layers and heads, `*` for any."""
    counted: Counter[tuple[str, str]] = Counter()
    for record in made:
        for score in record.scores:
            if score.subset is None:
                signature = re.sub(r"\b(layer|head):\d+", r"\1:*", score.signature or labels.NOTHING)
                counted[score.metric, signature] += 1
    columns = [Column("metric", "metric", "left"), Column("signature", "signature", "left"), Column("n", "scores")]
    rows = [
        Row(
            {"metric": metric, "signature": signature, "n": labels.number(count, 0)},
            numbers={"metric": metric, "signature": signature, "scores": count},
        )
        for (metric, signature), count in sorted(counted.items())
    ]
    unsigned = any(signature == labels.NOTHING for _, signature in counted)
    return Table("Signatures", columns, [Block("", rows)], [UNSIGNED] if unsigned else [])


def build(results: Results) -> list[Path]:
    """Compile the paper from a results folder that lies in the repository; the path of the PDF.

    Raises:
        InputError: typst stops: a file, a table, a row or a reference that the text names is not there.
        ModuleNotFoundError: typst is not installed.
    """
    if results.root.resolve().parent != CHECKOUT:
        return []
    import matplotlib
    import typst

    target = SOURCE.with_suffix(".pdf")
    try:
        # Without tags, which double the size: every cell of every table would be an object.
        pdf = typst.compile(
            str(SOURCE),
            root=str(CHECKOUT),
            font_paths=[str(Path(matplotlib.get_data_path(), "fonts", "ttf"))],  # the letters of figures
            ignore_system_fonts=True,
            timestamp=0,
            pdf_tags=False,
        )
    except typst.TypstError as problem:
        raise InputError(
            f"{SOURCE.relative_to(CHECKOUT)}: {problem.message}; {'; '.join(problem.hints) or 'mend it'}"
        ) from None
    temporary = target.with_suffix(".tmp")
    temporary.write_bytes(pdf)
    temporary.replace(target)
    return [target]
