"""Translations of a run by sentence, with a score of each, also beside those of another run. Needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.config import experiment_from
from study.corpora import load
from study.errors import InputError
from study.scores import scoring
from study.store.folder import Store

if TYPE_CHECKING:
    import pandas as pd

Named = tuple[Store, str]
"""A run: where it is, and its id."""


def sentences(
    run: Named,
    versus: Named | None,
    split: str | None,
    score: str | None,
    folder: Path | None,
) -> pd.DataFrame:
    """Return one row for each sentence of a split, the worst first.

    Columns: line (from 1), score (of the one sentence), source, reference, hypothesis. With another run also score_vs,
    difference (score minus score_vs, by which rows are sorted) and hypothesis_vs. `attrs` has the split and the score.

    Args:
        run: the run.
        versus: another run on the same corpus.
        split: name of a split (default: the first test split).
        score: chrf, bleu, exact, prefix or accuracy (default: chrf, or accuracy for a corpus without sentences).
        folder: folder of the text, for a run on text of one's own (default: $STUDY_FILES).

    Raises:
        InputError: the corpus cannot be read, or a run has no such translations, or the runs have other corpora.
    """
    import pandas as pd

    runs = {"": run}
    if versus is not None:
        runs["_vs"] = versus
    trees = [store.rest(identity) for store, identity in runs.values()]
    facts = [(tree["data"] or {}).get("files") for tree in trees]
    if versus is not None and all(facts) and facts[0] != facts[1]:
        raise InputError(f"{versus[1]}: expected the corpus of {run[1]}, got another. Choose another run.")
    data = experiment_from(trees[0]["config"], {} if folder is None else {"data.folder": str(folder)}).data
    score = score or ("chrf" if data.sentences else "accuracy")
    if score not in scoring.TEXT_SCORES:
        raise InputError(f"score: expected {', '.join(scoring.TEXT_SCORES)}, got {score}.")
    corpus = load(data)
    split = split or corpus.tests[0]
    if split not in corpus.splits or split == "train":
        raise InputError(f"split: expected {', '.join(['valid', *corpus.tests])}, got {split}.")
    pairs = corpus.splits[split]
    targets = [pair.target for pair in pairs]
    scorer = scoring.TEXT_SCORES[score]
    columns: dict[str, Any] = {"line": range(1, len(pairs) + 1)}
    texts = {}
    for end, (store, identity) in runs.items():
        lines = texts[f"hypothesis{end}"] = store.hypotheses(identity, split)
        if len(lines) != len(pairs):
            expected = f"expected {len(pairs)} translations of {split}, got {len(lines)}"
            raise InputError(f"{store.where(identity)}: {expected}. Restore the file.")
        columns[f"score{end}"] = [scorer([line], [target]).value for line, target in zip(lines, targets, strict=True)]
    frame = pd.DataFrame(columns)
    by = "score"
    if versus is not None:
        by = "difference"
        frame[by] = frame["score"] - frame["score_vs"]
    frame["source"], frame["reference"] = [pair.source for pair in pairs], targets
    frame = frame.assign(**texts).sort_values([by, "line"], ignore_index=True)
    frame.attrs = {"split": split, "score": score}
    return frame
