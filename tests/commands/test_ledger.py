"""Output of `study ls runs`, `compare` and `show` for published runs, runs of one's own and corpora."""

import io
import sys
from pathlib import Path

import pandas as pd
import pytest
from processes import output_of

import study
from study.analysis import ledger
from study.commands import ls
from study.errors import InputError
from study.store.folder import Store

ROOT = Path(__file__).parents[2]
RUNS = "grammar-recurrent-dot-4d03d1a2-s1", "grammar-recurrent-dot-b599617a-s1"


@pytest.fixture(scope="module")
def published():
    return ledger.table([Store(ROOT / "results")])


def test_own_runs_are_listed_before_the_published_ones(tiny, published, printed, monkeypatch):
    path = tiny.write("dot", 1, 80.0)
    (path.parent / "model.pt").write_bytes(b"x")
    tiny.write("bilinear", 2, 70.0, status="diverged")
    (tiny.runs / "broken").mkdir()
    (tiny.runs / "broken" / "record.json").write_text("{")
    table = pd.read_csv(io.StringIO(printed("ls", "runs", "--csv", "--runs", tiny.runs)), low_memory=False)
    store = Store(ROOT / "results")
    assert sorted(table["id"][2:]) == store.ids()
    assert dict(zip(table["status"], table["model"][:2], strict=False)) == {"finished": True, "diverged": False}
    assert table.set_index("status")["test/exact"].iloc[:2].to_dict()["finished"] == 80.0
    for identity in RUNS:
        row = table.set_index("id").loc[identity]
        assert row["test/exact"] == store.record(identity).score("test", "exact")
        assert row["training.steps"] == store.record(identity).config["training"]["steps"]
    whole = study.runs(runs=tiny.runs)
    assert whole["id"].tolist() == table["id"].tolist()
    with monkeypatch.context() as here:
        here.setattr(ls, "MOST", 3)
        assert printed("ls", "runs").splitlines()[-1].startswith(f"and {len(table) - 5} more of {len(table) - 2};")

    monkeypatch.setattr(ledger, "table", lambda *_: whole)  # as above, not made again
    own = printed("ls", "runs", "--runs", tiny.runs, "--query", f"model and folder == '{tiny.runs}'")
    assert [line.split()[0] for line in own.splitlines()] == ["id", path.parent.name]
    monkeypatch.setattr(ledger, "table", lambda *_: published)
    query = 'sweeps.str.contains("quickstart") and scale != "rsqrt" and `test/exact` <= 27'
    lines = [line.split() for line in printed("ls", "runs", "--query", query).splitlines()]
    place = lines[0].index("exact")
    assert sorted(line[place] for line in lines[1:]) == ["1.2", "17.6", "2.8", "27"]
    assert printed("ls", "runs", "--query", 'id == "nothing"') == "no runs\n"


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ('scale == "none"', ["model.attention.cross.scale"]),
        ("heads in [2, 4] and not steps < 100", ["model.attention.cross.heads", "training.steps"]),
        ("`test/exact` > 50 or exact.isna()", ["test/exact"]),
        ("status == 'finished' & seed == 1", ["status", "seed"]),
        ("learning_rate < 1e-2 and exact > .5e1", ["training.learning_rate", "test/exact"]),
        ("20 < exact <= 40", ["test/exact"]),
        ("not (family == 'recurrent' or ~(seed != 1))", ["family", "seed"]),
        ("score not in ('dot', 'additive') | seed > 4", ["model.attention.cross.score", "seed"]),
        ("exact.notna() and scale.isin(['none', 'rsqrt'])", ["test/exact", "model.attention.cross.scale"]),
        ("id.str.contains('^grammar-[rt].*s[12]$')", ["id"]),
        ('device.str.contains("&|`") or seed == -1 or seed == 2', ["device", "seed"]),
        ("`test/exact` > `valid/exact`", ["test/exact", "valid/exact"]),
    ],
)
def test_a_condition_names_columns_by_their_last_part(published, condition, names):
    """It holds for the runs for which it holds in pandas."""
    found, named = ledger.query(published, condition)
    assert named == names
    short = ledger.short_names(published)
    columns = {name: published[short[name]] for name in short}
    wanted = published.eval(condition, engine="python", resolvers=[columns])
    assert found["id"].tolist() == published["id"][wanted].tolist()
    assert 0 < len(found) < len(published)
    if condition.startswith("scale"):
        assert set(found["model.attention.cross.scale"]) == {"none"}


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("scale", "--query: expected a condition such as scale == 'none', got 'scale'"),
        ("exact > 'high'", "--query: expected a condition"),
        ("scael == 1", "name 'scael' is not defined"),
        ("@__loader__", "invalid syntax"),
        ("__import__('os')", "__import__('os') is refused"),
        ("id.to_csv('x')", "id.to_csv('x') is refused"),
        ("exact + 1 > 2", "exact + 1 is refused"),
        ("id.str.contains('(')", "missing ): ("),
        ("id.str.contains(3)", "id.str.contains(3) is refused"),
        ("exact.str.contains('3')", "--query: expected a condition"),
        ("1 == 1", "values that are not true or false"),
        ("", "invalid syntax"),
        ("seed == 1 or " * 1000, "more than 10000 characters"),
    ],
)
def test_a_wrong_question_is_one_line_and_runs_nothing(published, condition, problem):
    with pytest.raises(InputError) as refusal:
        ledger.query(published, condition)
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


ATTACKS = r"""
import contextlib, io, os, resource, sys
from study.__main__ import main
from study.analysis import ledger
table, read = ledger.table, []
def read_once(stores):
    read[:] = read or [table(stores)]
    return read[0].copy()
ledger.table = read_once
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
evil = r'id.isin.\x5f\x5fglobals\x5f\x5f["sys"].modules["os"].system("touch PWN") == index'
attacks = [
    f"id.reset_index().eval({evil!r}, engine='python') == 0",
    "id.agg('to_csv', 0, 'F')", "id.apply('to_pickle', args=['F'])", "`test/exact`.values.dump('F')",
    "id.isin(open('F', 'w'))", "[open('F', 'w') for x in id] == 1", "(lambda: open('F', 'w'))() == id",
    "id == f'{open(chr(70), chr(119))}'", "(x := open('F', 'w')) == id", "id[open('F', 'w')] == 1",
    "id.str.contains(open('F', 'w'))", "id.str.contains('a', flags=open('F', 'w'))", "id.isin([open('F', 'w')])",
    "`open('F', 'w')` == 1", "id == '`' + open('F', 'w') + '`'", "print(1) == id", "id.str.__class__ == 1",
    "exact.head(1) > 0", "id.sample(2) == 'a'", "exact.repeat(2) > 1", "exact", "id", "True", "None", "[]",
    "seed == [1]", "yield seed", "*seed", "seed == 1 if seed else 2",
    "9**9**9 == seed", "seed == 'a' * 10**10", "seed == 1 << 10**10", "seed == " + "9" * 9000,
    "seed == 0x" + "f" * 9000, "-" * 9000 + "1 == seed",
    "(" * 4000 + "seed == 1" + ")" * 4000, "not " * 2400 + "seed == 1", "~" * 9000 + "(seed == 1)",
    "seed" + ".a" * 4900, "seed in " + "[" * 4900, "seed == " + "[" * 190 + "]" * 190,
    "a" * 9999, "seed == 1\nimport os", "seed == 1; open('F', 'w')", "seed == '\0'", "\0", "\ud800 == 1",
    "sweeps.str.contains('" + "(" * 9000 + "')", "sweeps.str.contains('((a{1000}){1000}){1000}')",
]
for attack in attacks:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = main(["ls", "runs", "--query", attack])
    lines = said.getvalue().splitlines()
    assert (status, len(lines)) in ((2, 1), (0, 0)), (attack[:80], status, lines)
    assert status == 2 or "9" * 99 in attack or "fff" in attack or attack[-3:] == "0'", (attack[:80], "holds")
slow = r"sweeps.str.contains('(([a-z_]+ ?)+)+$') and id.str.contains('(.*)*(.*)*!$')"
assert main(["ls", "runs", "--query", slow]) == 0
assert main(["ls", "runs", "--query", "seed == 1 and " * 700 + "seed == 1"]) == 0
"""


@pytest.mark.slow
def test_an_attack_in_a_condition_runs_nothing_and_ends_at_once(tmp_path):
    """Code, files, numbers without end, nesting, and regular expressions that other engines try for years.

    The runs are read once, and each condition is put to a copy.
    """
    output_of(sys.executable, "-P", "-c", ATTACKS, cwd=tmp_path, STUDY_RUNS=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_difference_of_runs_has_fields_sizes_and_scores(published, printed):
    rows = study.compare(["quickstart/3", "quickstart/1"]).to_dict("records")
    by_field = {row["field"]: row for row in rows}
    ids = [f"grammar-recurrent-dot-{arm}-s1" for arm in ("b599617a", "c61874e4")]
    width = by_field["model.attention.cross.key_width"]
    assert (width["section"], *(width[one] for one in ids)) == ("configuration", 512, 16)
    first, second = (published.set_index("id").loc[one] for one in ids)
    assert by_field["parameters"]["difference"] == first["parameters"] - second["parameters"]
    assert by_field["test/exact"]["difference"] == pytest.approx(first["test/exact"] - second["test/exact"])
    assert "seed" not in by_field
    text = printed("compare", "quickstart/3", "quickstart/1").splitlines()
    assert text[:2] == [f"1  {ids[0]}", f"2  {ids[1]}"]
    assert [line.split()[1] for line in text[4:]] == [row["field"] for row in rows]
    assert "model.attention.cross.key_width" in printed("compare", "quickstart/3", "quickstart/1", "quickstart/2")
    assert printed("compare", "quickstart/3", "quickstart/3").endswith("no difference\n")


@pytest.fixture(scope="module")
def run():
    return study.load(RUNS[0])


def test_the_worst_sentences_of_a_published_run_against_another(published, run, printed):
    store = Store(ROOT / "results")
    text = printed("show", RUNS[0], "--sentences", "--versus", RUNS[1])
    rows = run.sentences(RUNS[1]).to_dict("records")
    assert len(rows) == 500
    assert [row["difference"] for row in rows] == sorted(row["difference"] for row in rows)
    texts = [store.hypotheses(run, "test") for run in RUNS]
    for row in rows:
        assert [row["hypothesis"], row["hypothesis_vs"]] == [text[row["line"] - 1] for text in texts]
        assert row["difference"] == pytest.approx(row["score"] - row["score_vs"])
    assert rows[0]["score_vs"] == 100.0  # the same words as the reference
    assert rows[0]["hypothesis_vs"] == rows[0]["reference"]
    assert text.startswith(f"{RUNS[0]}, test: chrf of each sentence, the worst first; vs: {RUNS[1]}\n")
    assert f"  hypothesis_vs  {rows[0]['hypothesis_vs']}\n" in text
    exact = published.set_index("id")["test/exact"][RUNS[0]]
    assert run.sentences(score="exact")["score"].mean() == pytest.approx(exact)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"split": "train"}, "split: expected valid, test, long, deep, pronoun, got train"),
        ({"versus": "graph-transformer-dot-620d9b48-s1"}, "expected the corpus of"),
    ],
)
def test_sentences_that_are_not_there_are_one_line(run, asked, problem):
    with pytest.raises(InputError, match=rf"^[^\n]*{problem}[^\n]*$"):
        run.sentences(**asked)


def test_a_corpus_shows_sizes_and_pairs_with_their_gold_links(printed):
    head, _, train, *lines = printed("show", "grammar", "--split", "valid").splitlines()
    assert head == "grammar: de → en"
    assert train.split()[:2] == ["train", "8000"]
    assert [line.split()[1] for line in lines if line.startswith("  line ")] == ["1", "2", "3"]
    gold = [line for line in lines if line.startswith("  gold ")]
    assert len(gold) == 3
    assert all("–" in line for line in gold)
