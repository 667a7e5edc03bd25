"""`results/README.md` as a data scientist uses it: its Python runs, and gives what the records say."""

import hashlib
import re

import pandas as pd

from study.files import CHECKOUT as ROOT
from study.publish.dictionary import HEAD, runs_csv
from study.publish.results import Results
from study.store import Store


def test_the_python_of_the_readme_reads_all_runs_their_scores_and_translations(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    found = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, found)
    store = Store(ROOT / "results")
    made = {identity: store.record(identity) for identity in store.ids()}
    runs, scores = found["runs"].set_index("id"), found["scores"]
    assert list(runs.index) == list(made)
    for identity in list(made)[::100]:
        record = made[identity]
        assert runs.loc[identity, "seed"] == record.seed
        for score in record.scores:
            if score.subset is None and score.value is not None:
                assert runs.loc[identity, f"{score.split}/{score.metric}"] == score.value
    assert len(scores) == sum(len(record.scores) for record in made.values())
    record = made["grammar-recurrent-dot-10a1cf6c-s1"]
    digest = next(score.hypotheses_sha256 for score in record.scores if (score.split, score.metric) == ("test", "bleu"))
    assert hashlib.sha256("".join(f"{line}\n" for line in found["lines"]).encode()).hexdigest() == digest


def test_the_table_has_a_row_a_run_and_the_fields_in_which_runs_differ(published):
    """Four runs of `tiny`, and the columns in which they differ."""
    head, *rows = runs_csv(Results(published.results.root), Results(published.results.root).records).splitlines()
    columns = head.split(",")
    assert [row.split(",")[:3] for row in rows] == [[name, "tiny", "finished"] for name in sorted(published.ids)]
    assert "model.attention.cross.score" in columns
    assert "model.width" not in columns  # alike in all
    assert {row.split(",")[columns.index("test/nll")] for row in rows} == {"1.5"}


def test_every_row_of_a_table_of_runs_names_the_runs_behind_it():
    """`study show ID` finds each one. Tables without such a column count no runs: times of sites, signatures."""
    there, without = set(Store(ROOT / "results").ids()), set()
    for path in (ROOT / "results" / "tables").glob("*.csv"):
        table = pd.read_csv(path)
        if "runs" not in table:
            without.add(path.stem)
            continue
        named = table["runs"].fillna("").map(str.split)
        assert set().union(*named) <= there, path
        if "facet" in table and "finished" in table:  # of a sweep
            made = table["finished"].fillna(0) + table["diverged"].fillna(0)
            assert named.map(len).tolist() == made.tolist(), path
    assert without == {"cost", "signatures"}
    contrasts = pd.read_csv(ROOT / "results" / "tables" / "contrasts.csv")
    tested = contrasts[contrasts["difference"].notna() & (contrasts["corpus"] != "one site")]
    assert len(tested) > 100
    assert tested["runs"].notna().all()
