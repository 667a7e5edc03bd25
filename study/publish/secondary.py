"""Table of secondary scores of every published arm: other splits, alignment, and diagnostics of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from study import metrics
from study.analysis import labels
from study.analysis.inference import deviation
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.publish.store import Results
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

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

NOTE = (
    "Mean ± sd over runs. NLL: nats per sentence of test. Words: right words, %. Long, deep: exact match on sentences "
    "longer, or nested deeper, than any that was trained on, %. Pronouns: pairs of sentences told apart in which only "
    "the antecedent tells the pronoun, %. AER: of cross-attention on test. On gold: words whose largest weight is on "
    "a relevant one, %. 2016, 2017: BLEU on Multi30k's test sets."
)


def secondary_table(results: Results, runs: Runs) -> Table:
    """One block for each sweep, corpus and family; none for sweeps that look at validation alone.

    Raises:
        InputError: a sweep file or a record cannot be used.
    """
    columns = [Column("arm", "arm", "left"), *(Column(name, head) for name, head in SCORES.items())]
    told = [manifest for manifest in results.manifests.values() if not manifest.metric.startswith("valid/")]
    blocks = [block for manifest in told for block in _blocks(results.spec(manifest), runs)]
    return Table("Further scores", columns, blocks, [NOTE])


def _blocks(spec: Spec, runs: Runs) -> list[Block]:
    frame = runs.table(spec, list(SCORES))
    return [
        Block(
            _head(spec, labels.arm_words(facet)),
            _rows(spec, facet, frame[frame["facet"] == facet]),
            _head(spec, facet),
        )
        for facet in spec.arms
    ]


def _head(spec: Spec, facet: str) -> str:
    return f"{spec.name}: {facet}" if facet else spec.name


def _rows(spec: Spec, facet: str, frame: pd.DataFrame) -> list[Row]:
    rows = []
    for arm in spec.arms[facet]:
        known = {name: frame.loc[frame["arm"] == arm, name].dropna() for name in SCORES}
        cells = {name: _cell(name, values) for name, values in known.items()}
        numbers = {name: float(values.mean()) if len(values) else None for name, values in known.items()}
        rows.append(
            Row(
                {"arm": labels.arm_words(arm)} | cells,
                numbers={"sweep": spec.name, "facet": facet, "arm": arm} | numbers,
            )
        )
    return rows


def _cell(name: str, values: pd.Series) -> str:
    return labels.mean_sd(float(values.mean()), deviation(values), metrics.decimals(name)) if len(values) else ""
