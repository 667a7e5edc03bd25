import csv
import io
import json
import math
from pathlib import Path

import pytest
import recompute
from published_lab import SWEEP
from scipy import stats
from tiny_sweep import Tiny

from study import files
from study.analysis import labels
from study.analysis.comparison import compare_arms
from study.analysis.figures import sweep as figure
from study.analysis.figures.sweep import points
from study.analysis.runs import Runs
from study.analysis.tables import Block, Column, Row, Table
from study.errors import InputError
from study.publish.report import report_sweep
from study.records import Score
from study.store import Store
from study.sweep.spec import load

GOLDEN = Path(__file__).parents[1] / "golden"


def report(tiny):
    return compare_arms(tiny.spec, Runs(tiny.runs))


def numbers(table):
    return {line["arm"]: line for line in csv.DictReader(io.StringIO(table.csv()))}


def test_the_golden_table(three):
    three.complete()
    table, _, _ = report(three)
    for suffix, text in {"md": table.markdown(), "csv": table.csv()}.items():
        assert text == (GOLDEN / f"table.{suffix}").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_a_narrow_terminal_drops_columns_and_breaks_no_number(three, width):
    three.complete()
    table, _, _ = report(three)
    print_to = io.StringIO()
    table.print(print_to, width=width)
    lines = [line.rstrip() for line in print_to.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    (row,) = (line for line in lines if line.startswith("bilinear"))
    assert "73.7 ± 3.2" in row or width == 40
    assert ("−8.3" in row) == (width >= 60)
    left = [line for line in lines if line.startswith("Not shown in")]
    assert bool(left) == (width <= 80), "columns that do not fit are named"


def test_the_golden_numbers_by_hand(three):
    """Variances 4 and 31/3 of three runs each: SE² = 43/9, df = (43/3)² / ((4² + (31/3)²) / 2) = 3.35."""
    three.complete()
    line = numbers(report(three).table)["score=bilinear"]
    se, df = math.sqrt(43) / 3, (43 / 3) ** 2 / ((4**2 + (31 / 3) ** 2) / 2)
    p, half = 2 * stats.t.sf(25 / 3 / se, df), stats.t.ppf(0.975, df) * se
    expected = {
        "difference": -25 / 3,
        "se": se,
        "df": df,
        "low": -25 / 3 - half,
        "high": -25 / 3 + half,
        "p": p,
        "holm": p,
        "test/exact mean": 221 / 3,
        "test/exact sd": math.sqrt(31 / 3),
        "entropy": (0.25 + 0.75 + 0.2) / 3,
        "tokens_per_second": 12002,
        "n": 3,
        "declared": 3,
    }
    assert {name: float(line[name]) for name in expected} == pytest.approx(expected, abs=5.1e-5)
    assert line["method"] == "welch"


def test_two_runs_of_an_arm_give_a_difference_and_a_footnote_that_says_why(tiny, three):
    tiny.complete()
    table, _, _ = report(tiny)
    row = table.blocks[0].rows[1]
    assert [row.cells[key] for key in ("difference", "interval", "holm")] == ["−9.0", "–", "–"]
    assert row.bold == frozenset()
    notes = " ".join(table.notes)
    assert notes.count("Arms of fewer than 3 runs have no interval, p or bold") == 1
    three.complete()
    assert "fewer than" not in " ".join(report(three).table.notes)


def test_p_values_keep_their_exponents_in_every_format():
    columns, row = [Column("holm", "Holm p")], Row({"holm": labels.p_value(3.14e-8)}, numbers={"holm": 3.14159e-8})
    table = Table("x", columns, [Block("", [row, Row({"holm": "–"}, numbers={"holm": None})])])
    assert table.csv() == 'holm\n3.14e-08\n""\n'
    assert "| 3e-8 |" in table.markdown()


def test_every_hole_is_a_row_and_no_average_hides_one(tiny):
    tiny.complete()
    tiny.write("bilinear", 2, 76.0, status="failed", error="out of memory")
    table, facets, frame = report(tiny)
    assert list(frame["state"]) == ["finished", "finished", "finished", "failed"]
    cells = table.blocks[0].rows[1].cells
    assert cells["n"] == "1 of 2, 1 failed"
    assert cells["test/exact"] == "70.0 (n 1)"
    assert (cells["difference"], cells["interval"]) == ("", "missing runs")
    assert any("out of memory" in note for note in table.notes)
    assert numbers(table)["score=bilinear"]["difference"] == ""
    assert points(facets)["seed"].tolist() == [1, 2, 1]


def test_a_score_that_is_null_in_a_finished_run_leaves_its_arm_without_a_mean(tiny):
    tiny.complete()
    nothing = [Score(split="test", metric="exact", value=None, n=50)]
    tiny.write("bilinear", 2, 0.0, scores=nothing)
    assert report(tiny).table.blocks[0].rows[1].cells["interval"] == "no value"
    tiny.write("dot", 1, 0.0, scores=nothing)
    assert report(tiny).table.blocks[0].rows[1].cells["interval"] == "no baseline"


def test_diverged_started_and_missing_runs_show_as_such(tiny):
    tiny.write("dot", 1, 80.0)
    tiny.write("dot", 2, 84.0)
    tiny.write("bilinear", 1, 0.0, status="diverged", scores=[], error="the loss became NaN")
    (tiny.runs / tiny.cells["score=bilinear", 2].id).mkdir()
    (tiny.runs / tiny.cells["score=bilinear", 2].id / "history.jsonl").touch()
    table, _, frame = report(tiny)
    assert list(frame["state"]) == ["finished", "diverged", "finished", "started"]
    cells = table.blocks[0].rows[1].cells
    assert cells["n"] == "0 of 2, 1 diverged, 1 started"
    assert cells["test/exact"] == "–"


def in_part(folder, made, **failed):
    """Table and facets of five seeds that are published in part: arm ↦ seeds; `failed` arms fail in these seeds."""
    folder.mkdir()
    (folder / "tiny.yaml").write_text(SWEEP.replace("[1, 2]", "[1, 2, 3, 4, 5]"))
    tiny = Tiny(load(folder / "tiny.yaml"), folder / "results")
    for arm, seeds in made.items():
        for seed in seeds:
            bad = {"status": "failed", "error": "out of memory"} if seed in failed.get(arm, ()) else {}
            tiny.write(arm, seed, 80.0 - 5 * (arm == "bilinear") + seed, published=True, **bad)
    manifest = {"sweeps": {"tiny": {"partial": {"reason": "time"}}}, "files": {}}
    files.write(folder / "results" / "manifest.json", json.dumps(manifest))
    return tiny, compare_arms(tiny.spec, Runs(folder / "results", folder))


def test_a_sweep_published_in_part_compares_the_seeds_that_all_arms_have(tmp_path):
    """Five seeds, two of them whole, then three: the dot product lacks seed 2, bilinear scores 4 and 5, then only 5."""
    made = {"dot": (1, 3, 4, 5), "bilinear": (1, 2, 3)}
    _, found = in_part(tmp_path / "two", made)
    row = found.table.blocks[0].rows[1]
    assert (row.cells["n"], row.cells["interval"]) == ("3 of 5, 2 missing", "no baseline")
    made["bilinear"] += (4,)
    tiny, (table, facets, frame) = in_part(tmp_path / "three", made)
    dot, bilinear = table.blocks[0].rows
    assert (dot.cells["n"], dot.cells["test/exact"]) == ("3 of 5", "82.7 ± 1.5 (n 3)")
    assert [dict(arm.values) for arm in facets[0].arms] == [{1: 81, 3: 83, 4: 84}, {1: 76, 3: 78, 4: 79}]
    assert (bilinear.cells["difference"], bilinear.numbers["n"], bilinear.numbers["set aside"]) == ("−5.0", 3, 1)
    assert set(bilinear.runs) == {tiny.cells["score=bilinear", seed].id for seed in (1, 3, 4)}
    assert frame["state"].value_counts().to_dict() == {"finished": 6, "set aside": 2, "missing": 2}
    left = "Not counted, because some arm of the corpus and family lacks their seed: 2 missing, 2 set aside."
    assert left in table.notes
    assert [text.get_text() for text in figure.draw(facets).axes[0].texts] == ["82.7", "77.7"]
    drawn, intervals = points(facets).set_index("arm").loc["score=bilinear"], bilinear.numbers
    assert drawn["low"].tolist() == pytest.approx([intervals["low"]] * 3, abs=1e-3), (
        "the figure has the interval of the table"
    )
    there = [{"id": cell.id, "seed": seed} for (_, seed), cell in tiny.cells.items() if cell.id in Store(tiny.runs)]
    absent = [cell.id for cell in tiny.cells.values() if cell.id not in Store(tiny.runs)]
    again = recompute.arms_of(there, absent).values()
    assert {(len(arm), arm.missing, arm.aside, arm.holes) for arm in again} == {(3, 1, 1, 0)}
    _, found = in_part(tmp_path / "failed", made, dot=(3,))
    dot, bilinear = found.table.blocks[0].rows
    assert bilinear.cells["interval"] == "no baseline", "a failure leaves no seed out"
    assert dot.cells["n"] == "2 of 5, 1 failed", "what only some rows lack stands in the row"
    assert figure.draw(found.facets).axes[0].texts[0].get_text().endswith(", 1 failed")


def test_the_figure_of_five_seeds_shows_differences_with_their_interval(tmp_path):
    _, found = in_part(tmp_path / "five", dict.fromkeys(("dot", "bilinear"), range(1, 6)))
    (axes,) = figure.draw(found.facets).axes
    assert [text.get_text() for text in axes.texts] == ["", "−5.0"]
    assert list(axes.lines[-1].get_xdata()) == [-5.0] * 5


def test_published_records_read_like_working_ones(tiny, tmp_path):
    tiny.complete()
    published = Tiny(tiny.spec, tmp_path / "results")
    published.complete(published=True)
    files.write(published.runs / "manifest.json", '{"sweeps": {}, "files": {}}')
    assert report(published).table.csv() == report(tiny).table.csv()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"config_hash": "ab" * 32}, "config_hash: "),
        ({"seed": 7}, "seed: expected 2, as declared, got 7"),
        ({"id": "another-s1"}, "expected test/exact, got a record with no scores"),
        ({"scores": []}, "expected test/exact, got a record with no scores"),
        ({"protocol": 9, "config": {"training": {"steps": 3}}}, "config: "),
    ],
)
def test_a_record_changed_by_hand_is_refused_with_file_and_field(tiny, change, said):
    tiny.complete()
    path = tiny.write("bilinear", 2, 76.0)
    tree = json.loads(path.read_text())
    tree |= {name: value for name, value in change.items() if name != "config"}
    if "config" in change:
        tree["config"]["training"]["steps"] = 3
    path.write_text(json.dumps(tree))
    with pytest.raises(InputError, match=rf"record\.json: {said}"):
        report(tiny)


def test_runs_of_other_data_or_another_scorer_are_not_compared(tiny):
    tiny.complete()
    path = tiny.write("bilinear", 2, 76.0)
    path.write_text(path.read_text().replace("tok:13a", "tok:intl"))
    with pytest.raises(InputError, match=r"scores\.bleu\.signature: tok:intl"):
        report(tiny)
    path.write_text(path.read_text().replace("tok:intl", "tok:13a").replace('"test": "ab"', '"test": "cd"'))
    with pytest.raises(InputError, match=r"data\.files\.test: cd"):
        report(tiny)


def test_a_sweep_reports_itself_the_same_way_twice(tiny, capsys):
    tiny.complete()
    report_sweep(tiny.spec, tiny.runs)
    folder = tiny.runs / "report" / "tiny"
    said, first = capsys.readouterr().out, {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(first) == {f"table.{s}" for s in ("csv", "md")} | {f"figure.{s}" for s in ("svg", "png", "csv")}
    assert str(folder / "figure") in said
    assert max(map(len, said.split("\ntable ")[0].splitlines())) <= 100
    report_sweep(tiny.spec, tiny.runs)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_a_sweep_that_has_not_run_reports_holes(tiny, capsys):
    report_sweep(tiny.spec, tiny.runs)
    assert "0 of 2" in capsys.readouterr().out


def test_words_for_numbers():
    assert labels.number(-0.04) == "0.0"
    assert labels.number(-1234.56, sign=True) == "−1,234.6"
    assert labels.number(0.04, sign=True) == "0.0"
    assert labels.number(None) == labels.number(float("nan")) == "–"
    assert labels.interval(float("nan"), float("nan"), 2) == labels.interval(None, 1.0, 2) == "–"
    assert labels.interval(-1, 2, 1) == "[−1.0, +2.0]"
    assert [labels.p_value(p) for p in (2.6e-17, 0.0004, 0.0126, 1.0)] == ["3e-17", "4e-4", ".013", "1.000"]
    assert [labels.p_value(p) for p in (0.0, None)] == ["<1e-300", "–"]
