"""A random audit of the published runs, drawn by a text that nobody chooses freely: `audit.py COMMIT`.

The translations of a fortieth of the runs are scored again, and one short run is trained again. Another commit draws
other runs. A run that is equal bit for bit passes. Processors of other makers or with other instructions round sums
differently, and a trained model amplifies it. So a run that does not name the processor and the instructions of this
machine may differ after the first update, as far as seeds differ, and nowhere else.
"""

import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from study.commands.verify import progress
from study.publish.verify import drawn, verify
from study.store.folder import Store
from study.store.manifest import Results

PART = 40
LONGEST = 40.0
"""Seconds that the retrained run took."""
FLOORS = dict.fromkeys(("bleu", "chrf", "exact", "prefix", "accuracy", "contrast"), 3.0) | {"nll": 0.2, "aer": 0.03}
"""Score ↦ the difference that always passes. Beyond, it has to be less than SEEDS standard deviations over seeds."""
SEEDS = 4
Values = dict[tuple[str, str], float]


def differing(before: dict[str, Any], now: dict[str, Any], deviations: Values) -> Iterator[str]:
    """Yield what processors and seeds do not explain of the difference between a record and its rerun.

    Args:
        before: the published record.
        now: that of the rerun.
        deviations: split and score ↦ the standard deviation over seeds.
    """
    first, second = (tree.get("provenance") or {} for tree in (before, now))
    if first.get("instructions") and all(first[name] == second[name] for name in ("device", "instructions")):
        processor = f"{first['device']} with {first['instructions']}"
        yield f"processor: both have {processor}, so the rerun has to be equal bit for bit"
    for name in ("config_hash", "seed", "data", "protocol"):
        if before[name] != now[name]:
            yield f"{name}: expected {before[name]}, got {now[name]}"
    if before["model"]["parameters"] != now["model"]["parameters"]:
        yield f"parameters: expected {before['model']['parameters']}, got {now['model']['parameters']}"
    start, again = (tree["diagnostics"].get("gradients", {}).get("start", {}).get("norm") for tree in (before, now))
    if start != again and not (start and again and math.isclose(start, again, rel_tol=2e-3)):
        yield f"gradient before the first update: expected {start}, got {again}"
    found = scores(now)
    for (split, name), value in scores(before).items():
        most = max(FLOORS[name], SEEDS * deviations.get((split, name), 0.0))
        if not abs(found.get((split, name), math.inf) - value) <= most:
            yield f"{split}/{name}: expected {value} ± {most:.3g}, got {found.get((split, name), 'none')}"


def scores(tree: dict[str, Any]) -> Values:
    """Return the scores of whole test splits that `FLOORS` has."""
    whole = [one for one in tree["scores"] if one["subset"] is None and one["value"] is not None]
    return {(s["split"], s["metric"]): s["value"] for s in whole if s["split"] != "valid" and s["metric"] in FLOORS}


def deviations(store: Store, one: str) -> Values:
    """Return the standard deviation of every score over seeds: of a run's arm, or of the median arm if that is larger.

    Three or five seeds may agree by chance, and then say nothing of how far another run may be.
    """
    there = store.scores[store.scores.subset.isna()].merge(store.runs[["id", "arm", "corpus"]], on="id")
    corpus = there[there.corpus == there.corpus[there.id == one].iloc[0]]
    arms = corpus.groupby(["arm", "split", "metric"], observed=True).value.std().dropna()
    median, own = arms.groupby(["split", "metric"], observed=True).median(), arms.loc[one.rpartition("-s")[0]]
    return {key: max(value, own.get(key, 0.0)) for key, value in median.items()}


def main(commit: str) -> int:
    """Return 0 if nothing differs, 1 otherwise."""
    results = Results(Path("results"))
    store = results.store
    runs = store.runs[store.runs["data.name"] != "multi30k"]  # its text is not part of the repository
    short = runs[(runs.status == "finished") & (runs.wall_seconds <= LONGEST) & (runs.deterministic == True)]  # noqa: E712
    (one,) = drawn(list(short.id), len(short), commit)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "study", "rerun", one, "--runs", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as again:
            found = verify(results, rescore=PART, drawn_by=commit, told=progress)
            print("\n".join(found.lines()), flush=True)
            print(again.communicate()[0], flush=True)
        wrong = ["the rerun has no record"]
        if again.returncode == 0:
            wrong = []
            print(f"{one}: equal bit for bit")
        elif one in Store(Path(folder)):
            wrong = list(differing(store.tree(one), Store(Path(folder)).tree(one), deviations(store, one)))
        if again.returncode and not wrong:
            print(f"{one}: not equal bit for bit; equal before the first update, then no further apart than seeds are")
        print("\n".join(f"{one}: {line}" for line in wrong))
    return int(bool(found.problems) or bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
