import csv
import io
import json
import math

import pytest
from scipy import stats
from tiny_sweep import Tiny

from study import files
from study.analysis import labels
from study.analysis.comparison import compare_arms
from study.analysis.figures.sweep import points
from study.analysis.report import report_sweep
from study.analysis.runs import Runs
from study.analysis.tables import Row, Table
from study.errors import InputError
from study.scores.score import RecordedScore


def report(tiny):
    return compare_arms(tiny.spec, Runs(tiny.runs))


def numbers(table):
    return {line["arm"]: line for line in csv.DictReader(io.StringIO(table.csv()))}


def test_no_column_is_left_out_where_there_is_no_room_and_no_number_is_broken(three, capsys):
    three.complete()
    report(three).table.print()
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("bilinear"))
    assert all(text in row for text in ("73.7 ± 3.2", "−8.3"))


def test_the_numbers_of_a_row_by_hand(three):
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


def test_every_hole_is_a_row_and_no_average_hides_one(tiny):
    assert {row.cells["n"] for row in report(tiny).table.rows} == {"0 of 2, 2 missing"}
    tiny.complete()
    tiny.write("bilinear", 2, 76.0, status="failed", error="out of memory")
    table, facets, frame = report(tiny)
    assert list(frame["state"]) == ["finished", "finished", "finished", "failed"]
    cells = table.rows[1].cells
    assert [cells[key] for key in ("n", "exact")] == ["1 of 2, 1 failed", "70.0 (n 1)"]
    assert (cells["difference"], cells["interval"]) == ("", "missing runs")
    assert any("out of memory" in note for note in table.notes)
    assert numbers(table)["score=bilinear"]["difference"] == ""
    drawn = points(facets).set_index(["arm", "seed"])
    assert drawn["state"].to_dict()["score=bilinear", 2] == "failed"
    assert drawn["score"].to_dict()["score=bilinear", 1] == 70.0
    tiny.write("bilinear", 1, 0.0, status="diverged", scores=[], error="the loss became NaN")
    folder = tiny.runs / tiny.cells["score=bilinear", 2].id
    (folder / "record.json").unlink()
    (folder / "history.jsonl").touch()
    cells = report(tiny).table.rows[1].cells
    assert [cells[key] for key in ("n", "exact")] == ["0 of 2, 1 diverged, 1 started", "–"]


def test_a_score_that_is_null_in_a_finished_run_leaves_its_arm_without_a_mean(tiny):
    tiny.complete()
    nothing = [RecordedScore(split="test", metric="exact", value=None, n=50)]
    tiny.write("bilinear", 2, 0.0, scores=nothing)
    assert report(tiny).table.rows[1].cells["interval"] == "no value"
    tiny.write("dot", 1, 0.0, scores=nothing)
    assert report(tiny).table.rows[1].cells["interval"] == "no baseline"


def test_published_records_read_like_working_ones_and_show_the_runs_that_are_not_published(tiny, tmp_path):
    tiny.complete()
    published = Tiny(tiny.spec, tmp_path / "results")
    published.complete(published=True)
    files.write(published.runs / "manifest.json", '{"sweeps": {}, "files": {}}')
    assert report(published).table.csv() == report(tiny).table.csv()
    files.write(published.runs / "manifest.json", '{"sweeps": {"another": {}}, "files": {}}')
    assert set(report(published).frame["state"]) == {"finished"}, "a sweep file of another folder"
    ours = compare_arms(tiny.spec, Runs(published.runs, tiny.spec.path.parent))
    assert set(ours.frame["state"]) == {"missing"}, "runs that another sweep shares"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"config_hash": "ab" * 32}, "config_hash: "),
        ({"seed": 7}, "seed: expected 2, as declared, got 7"),
        ({"id": "another-s1"}, "id: expected grammar-.*, as declared, got another-s1"),
        ({"scores": []}, "expected test/exact, got a record without it"),
    ],
)
def test_a_record_changed_by_hand_is_refused_with_file_and_field(tiny, change, said):
    tiny.complete()
    path = tiny.write("bilinear", 2, 76.0)
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree | change))
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
    assert set(first) == {f"table.{s}" for s in ("csv", "md")} | {f"figure.{s}" for s in ("svg", "csv")}
    assert str(folder / "figure") in said
    assert max(map(len, said.split("\ntable ")[0].splitlines())) <= 100
    report_sweep(tiny.spec, tiny.runs)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first


def test_a_link_in_place_of_the_report_is_not_followed(tiny, tmp_path, refused):
    """A folder of runs from a stranger could make the report write anywhere."""
    tiny.write("dot", 1, 80.0)
    (tmp_path / "elsewhere").mkdir()
    for link in ("report", f"report/{tiny.spec.name}"):
        (tiny.runs / link).parent.mkdir(exist_ok=True)
        (tiny.runs / link).symlink_to(tmp_path / "elsewhere")
        line = refused("report", tmp_path / "tiny.yaml", "--runs", tiny.runs)
        assert f"{tiny.runs / 'report'}: expected a folder without links, got a link" in line
        (tiny.runs / link).unlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_text_of_a_table_is_markup_or_moves_the_cursor():
    evil = "<script>alert(1)</script>\x1b[2J"
    row = Row({"arm": evil, "x": "1"}, evil, frozenset(), {})
    text = Table(evil, {"arm": evil, "x": "x"}, [row], [evil]).markdown()
    assert text.count("\\<script>") == text.count("<script>") == 5
    assert "\x1b" not in text


def test_numbers_as_texts():
    assert [labels.number(value) for value in (-0.04, None, math.nan, -1234.56)] == ["0.0", "–", "–", "−1,234.6"]
    assert labels.number(0.04, sign=True) == "0.0"
    assert [labels.interval(low, 2, 1) for low in (math.nan, None, -1)] == ["–", "–", "[−1.0, +2.0]"]
    assert [labels.p_value(p) for p in (2.6e-17, 0.0004, 0.0126, 1.0)] == ["3e-17", "4e-4", ".013", "1.000"]
    assert [labels.p_value(p) for p in (0.0, None)] == ["<1e-300", "–"]
    row = Row({"holm": labels.p_value(3.14e-8)}, numbers={"holm": 3.14159e-8})
    table = Table("x", {"holm": "Holm p"}, [row, Row({"holm": "–"}, numbers={"holm": None})])
    assert table.csv() == 'holm\n3.14e-08\n""\n', "p keeps its exponent"
