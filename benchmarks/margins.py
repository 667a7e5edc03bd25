"""Margins of the second edition and the seeds that they need, from the published runs of the first.

    python benchmarks/margins.py

One BLEU is worth so many nats per sentence, or points of exact match, as it is between the arms of the first edition:
the least-squares slope of an arm's mean NLL (or exact match) over its mean BLEU on the test set. On the grammar these
are the arms of the shared recipe with 90 BLEU or more, by family; on Multi30k all trained arms. The second edition's
margins are multiples of these slopes (`margins:` in study/claims/claims.yaml). The slopes are of all sentences, since
runs of the first edition have no NLL of single sentences; the second edition applies them to sentences without
third-person pronouns.

The seeds follow from the standard deviation s over seeds of the median one of these arms, by Welch's test of two arms
with n runs each: SE = s √(2/n), 2 (n − 1) degrees of freedom. A difference of (t_{1 − .05/2m} + t_.80) · SE shows with
power .80 in a family of m contrasts; an equivalence within (t_.95 + t_.90) · SE does, if there is no difference.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from scipy.stats import t

from study.store.folder import Store

ROOT = Path(__file__).parents[1]
RECIPE = {"training.steps": 800, "training.learning_rate": 0.01, "training.batch_tokens": 2000, "model.width": 64}
NEAR = 90.0
"""Arms of the grammar with less BLEU are not near the baselines."""
FIRST = 1
"""Protocol of the first edition."""


def arms(results: Path = ROOT / "results") -> pd.DataFrame:
    """Return the arms of the first edition that margins follow from.

    Columns: place (corpus/family), bleu, nll, exact (means over seeds), s_nll (standard deviation over seeds), n.
    """
    store = Store(results)
    runs, scores = store.runs, store.scores
    whole = scores[scores["subset"].isna() & scores["metric"].isin(["bleu", "nll", "exact"])]
    names = whole["split"].astype(str) + "/" + whole["metric"].astype(str)
    runs = runs.join(whole.assign(name=names).pivot(index="id", columns="name", values="value"), on="id")
    runs = runs[runs["pruning.question"].isna() & (runs["status"] == "finished") & (runs["seed"] <= 5)]
    runs = runs[runs["protocol"] == FIRST]
    recipe = (runs["data.name"] == "grammar") & (runs["data.test_pairs"] == 1000)
    for field, value in RECIPE.items():
        recipe &= runs[field] == value
    rows = []
    for corpus, split, chosen in (
        ("grammar", "test", recipe),
        ("multi30k", "test_2016_flickr", runs["data.name"] == "multi30k"),
    ):
        some = runs[chosen]
        for (_, family), arm in some.groupby(["arm", "model.family"]):
            nll, bleu = arm[f"{split}/nll"], arm[f"{split}/bleu"]
            if corpus == "multi30k" or bleu.mean() >= NEAR:
                exact = arm[f"{split}/exact"].mean()
                rows.append((f"{corpus}/{family}", bleu.mean(), nll.mean(), exact, nll.std(ddof=1), len(arm)))
    return pd.DataFrame(rows, columns=["place", "bleu", "nll", "exact", "s_nll", "n"])


def worth(found: pd.DataFrame, place: str, score: str) -> float:
    """Return what one BLEU is worth in a score: the absolute slope over BLEU, in three digits."""
    some = found[found["place"].str.startswith(place)]
    x, y = some["bleu"] - some["bleu"].mean(), some[score] - some[score].mean()
    return float(f"{abs((x * y).sum() / (x * x).sum()):.3g}")


def spread(found: pd.DataFrame, place: str) -> float:
    """Return the standard deviation of NLL over seeds of the median arm of a corpus and family."""
    return float(found[found["place"] == place]["s_nll"].median())


def shown(s: float, n: int, contrasts: int = 1) -> float:
    """Return the smallest difference that n seeds show with power .80, at Holm's first level."""
    df = 2 * (n - 1)
    return float(t.ppf(1 - 0.025 / contrasts, df) + t.ppf(0.8, df)) * s * math.sqrt(2 / n)


def equivalent(s: float, n: int) -> float:
    """Return the smallest margin within which n seeds show no difference with power .80."""
    df = 2 * (n - 1)
    return float(t.ppf(0.95, df) + t.ppf(0.9, df)) * s * math.sqrt(2 / n)


def main() -> None:
    """Print margins, and for each place the margins in nats and what 3, 5, 8 and 10 seeds show."""
    found = arms()
    for place in ("grammar/recurrent", "grammar/transformer", "multi30k/recurrent", "multi30k/transformer"):
        corpus = place if place.startswith("grammar") else "multi30k"
        nll, exact, s = worth(found, corpus, "nll"), worth(found, corpus, "exact"), spread(found, place)
        print(f"{place}: 1 BLEU = {nll:g} nats a sentence, {exact:g} points of exact match; s = {s:.3f} nats")
        print(f"  .5 BLEU = {0.5 * nll:.3f}, .3 BLEU = {0.3 * nll:.3f}, .25 BLEU = {0.25 * nll:.3f} nats")
        for n in (3, 5, 8, 10):
            print(
                f"  n = {n:2}: shows {shown(s, n):.3f} (of 2 contrasts {shown(s, n, 2):.3f}), "
                f"equivalent within {equivalent(s, n):.3f} nats"
            )


if __name__ == "__main__":
    main()
