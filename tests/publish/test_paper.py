"""Numbers of the paper: looked up by typst, and asserted beside words."""

import json
import re
import shutil

import pandas as pd
import pytest
import typst

from study.analysis.figures import style
from study.folders import CHECKOUT as ROOT
from study.publish import paper
from study.store.manifest import Results


def test_counts_of_runs_by_hand():
    runs = pd.DataFrame(
        {
            "pruning.question": [None, None, "curve", "retrain"],
            "data.name": ["grammar"] * 4,
            "model.family": ["recurrent"] * 4,
            "status": ["finished", "diverged", "finished", "failed"],
            "parameters": [10.0, 10.0, 10.0, 8.0],
            "wall_seconds": [1800.0, 600.0, 600.0, 600.0],
        }
    )
    found = paper.facts(runs)
    assert (found["runs_counted"], found["prunings"], found["trainings"]) == (4, 1, 3)
    assert (found["runs_diverged"], found["runs_failed"]) == (1, 1)
    assert (found["hours"], found["seconds"], found["parameters"]) == ("1.0", "600", {"recurrent": "10"})


def asked(folder, call, tables):
    """Evaluate a function of the paper with these tables."""
    shutil.copytree(ROOT / "paper", folder / "paper", ignore=shutil.ignore_patterns("*.pdf"), dirs_exist_ok=True)
    source = folder / "paper" / "asked.typ"
    source.write_text(f'#import "numbers.typ": *\n#import "template.typ": *\n#metadata({call}) <found>')
    given = {"study": json.dumps({"tables": tables})}
    return json.loads(typst.query(str(source), "<found>", root=str(folder), field="value", one=True, sys_inputs=given))


def effect(arm, low, high):
    values = {"family": "recurrent", "arm": arm, "second_low": low, "second_high": high}
    return {"values": values, "cells": {"second": "+0.1", "second ci": f"[{low}, {high}]"}}


def test_a_word_on_an_interval_is_asserted(tmp_path):
    tables = {"agreement-longer": [effect("a", "0.0004", "0.2"), effect("b", "-0.1", "0.2")]}
    later = 'later("recurrent", "{}", clear: {})'.format
    found = asked(tmp_path, f"({later('a', 'true')}, {later('b', 'false')})", tables)
    assert found == ["+0.1 [0.0004, 0.2]", "+0.1 [-0.1, 0.2]"]
    for arm, clear in (("a", "false"), ("b", "true")):
        with pytest.raises(RuntimeError, match=f"the text calls the second effect of {arm}"):
            asked(tmp_path, later(arm, clear), tables)


@pytest.mark.parametrize("call", ['number("x", "b", "n")', 'number("x", "a", "n")', 'exact("x", "recurrent", "a")'])
def test_a_number_that_names_no_row_or_several_stops_the_build(tmp_path, call):
    rows = [{"values": {"arm": "a", "facet": facet}, "cells": {"n": "1"}} for facet in ("1", "2")]
    with pytest.raises(RuntimeError, match=r"\d rows are called"):
        asked(tmp_path, call, {"x": rows})


def test_letters_of_a_figure_become_text(tmp_path):
    figure, axes = style.subplots(figsize=(2, 2))
    axes.set_ylabel("a < b")
    axes.set_title("$x^2$")
    style.write_picture(figure, tmp_path / "figure.svg")
    svg = (tmp_path / "figure.svg").read_text()
    found = asked(tmp_path, 'lettered(read("../figure.svg"))', {})
    (label,) = re.findall(r"<text[^>]*>a &lt; b</text>", found)
    assert "rotate(-90)" in label
    assert found.count("<text") == svg.count("<!-- ") - 1
    assert found.count('"#DejaVuSans-') == 2, "the formula is drawn as it was"


def test_the_rows_of_every_table_are_printed(study_runs):
    published = Results(ROOT / "results")
    made = dict(paper._tables(published, study_runs))
    assert set(made) > {*published.manifests, "claims", "contrasts", "summary", "agreement-longer", "further"}
    row = made["bottleneck"][0]
    assert row["values"]["arm"] == "memory=states init=zero"
    mean, sd = (float(row["values"][f"test/exact {name}"]) for name in ("mean", "sd"))
    assert row["cells"]["test/exact"] == f"{mean:.1f} ± {sd:.1f}"
    assert made["further"][0]["cells"]["pronoun/contrast"]


def words_of(content):
    """The text of a piece of a typst document."""
    if isinstance(content, list):
        return "".join(map(words_of, content))
    if not isinstance(content, dict):
        return ""
    if "text" in content:
        return str(content["text"])
    parts = [words_of(part) for name, part in content.items() if name not in ("func", "target", "label", "dest")]
    return " " if content.get("func") == "space" else "".join(parts)


def test_the_paper_is_short(study_runs, tmp_path, monkeypatch):
    """At most nine pages of text and twenty in all, 150 words of abstract, three intervals in a paragraph."""

    def asked(source, **given):
        inputs = {name: given[name] for name in ("root", "font_paths", "ignore_system_fonts", "sys_inputs")}
        for name in ("par", "<abstract>", "<end-of-text>", "<end>"):
            answers[name] = json.loads(typst.query(source, name, **inputs))
        return b""

    answers = {}
    monkeypatch.setattr(typst, "compile", asked)
    paper.build(Results(ROOT / "results"), study_runs, tmp_path / "paper.pdf")
    assert len(words_of(answers["<abstract>"][0]["value"]).split()) <= 150
    assert answers["<end-of-text>"][0]["value"] <= 9
    assert answers["<end>"][0]["value"] <= 20
    paragraphs = [words_of(paragraph) for paragraph in answers["par"]]
    assert len(paragraphs) > 50
    interval = re.compile(r"\[[+−]?[\d.]+, [+−]?[\d.]+\]")
    crowded = [text for text in paragraphs if len(interval.findall(text)) > 3]
    assert crowded == []
