"""Marked numbers of the documents: found in the tables, and contradicted words stop the build."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from study.errors import InputError
from study.folders import CHECKOUT as ROOT
from study.publish import pages

PUBLISHED = SimpleNamespace(root=ROOT / "results")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two rows of a table `effects`, and an entry on them."""
    (tmp_path / "tables").mkdir()
    effects = pd.DataFrame({"arm": ["a", "b"], "difference": [-1.25, 0.5], "low": [-1.5, -0.1], "high": [-1.0, 1.1]})
    effects.to_csv(tmp_path / "tables" / "effects.csv", index=False)
    entries = {
        "effect": {"table": "effects", "row": 'arm == "{0}"', "show": "{difference:+.2f} [{low:+.1f}, {high:+.1f}]"},
        "fall": {"table": "effects", "row": 'arm == "{0}"', "show": "{low:.0f}", "words": {"falls": "high < 0"}},
        "signs": {"table": "effects", "count": "difference > 0", "show": "{count} of {rows}"},
    }
    monkeypatch.setattr(pages, "entries", lambda: entries)
    return SimpleNamespace(root=tmp_path)


def test_a_mark_gets_its_number_and_a_block_its_lines(results):
    text = "It falls by <!-- effect a -->0<!-- end -->, <!-- signs -->-<!-- end -->.\n"
    text += "<!-- list -->\nold\n<!-- end -->\nend"
    made = pages.filled(text, {"list": "| \\| |"}, results, "x.md")
    assert made.splitlines()[0] == (
        "It falls by <!-- effect a -->−1.25 [−1.5, −1.0]<!-- end -->, <!-- signs -->1 of 2<!-- end -->."
    )
    assert made.splitlines()[1:] == ["<!-- list -->", "| \\| |", "<!-- end -->", "end"]
    assert pages.filled(made, {"list": "| \\| |"}, results, "x.md") == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("It falls by <!-- fall b -->0<!-- end -->.", "high < 0"),
        ("It rises by <!-- fall a -->0<!-- end -->.\n\nThis falls.", '"falls": expected these words beside −2'),
        ("| it falls |\n| by <!-- fall a -->0<!-- end --> |", '"falls"'),
        ("By <!-- effect c -->0<!-- end -->.", "expected one row of effects.csv, got 0"),
        ("By <!-- unknown -->0<!-- end -->.", "expected an entry of docs/numbers.yaml"),
    ],
)
def test_a_word_that_a_number_contradicts_stops_the_build(results, text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        pages.filled(text, {}, results, "x.md")


def test_documents_are_what_the_tables_say():
    """Except for tiers and hours, which need the runs."""
    manifests = {path.stem: None for path in (ROOT / "results" / "tables").glob("*.csv")}
    published = SimpleNamespace(root=ROOT / "results", manifests=manifests)
    made = {"quickstart": pages.quickstart(published), "claims": pages.claims(published)}
    made |= {"findings": pages.findings_list(published), "answers": pages.answers_table(published)}
    made |= {"carried": pages.carried(published), "recall": pages.recall(published)}
    for name in pages.DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        there = {found["name"]: found["text"].strip() for found in pages.MARK.finditer(text)}
        kept = {mark: there[mark] for mark in there if mark.startswith("tier ") or mark == "published"}
        assert there, name
        assert pages.filled(text, kept | made, published, name) == text, "rewrite it: study reproduce readme"


def test_the_python_of_results_reads_all_scores_and_translations(published, monkeypatch):
    monkeypatch.chdir(published.top)
    found = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "results/README.md").read_text("utf-8"), re.DOTALL):
        exec(block.replace('"combine"', '"tiny"'), found)
    scores, sentences = found["scores"], found["sentences"]
    assert {"sweep", "label", "value"} <= set(scores)
    assert {"arm", "seed", "translation"} <= set(sentences)
    assert set(found["fields"]["model.attention.cross.score"]) == {"bilinear", "dot"}
    one = scores[(scores["split"] == "test") & (scores["metric"] == "exact") & scores["subset"].isna()]
    own = sentences[sentences["split"] == "test"].astype({"exact": float}).groupby("id")["exact"].mean()
    assert (100 * own).to_dict() == pytest.approx(one.set_index("id")["value"].to_dict(), rel=1e-5)
    assert sorted(own.index) == sorted(published.ids)
