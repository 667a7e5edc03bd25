"""Two corpora in one sweep file: the example of docs/sweeps.md, in a folder and in processes of its own."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from study.folders import CHECKOUT

PAGE = (CHECKOUT / "docs" / "sweeps.md").read_text(encoding="utf-8")
EXAMPLE = re.search(r"### Several corpora.*?```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
SMALL = (
    "  training: {parameters: {steps: {value: 1}, batch_tokens: {value: 300}}}\n"
    "  model.width: {value: 8}\n  decoding.beam: {value: 1}\n  trainer.device: {value: cpu}\n"
)
OF_FILES = "# metric: files test/bleu\n"
EXACT = {("grammar", "rsqrt"): 80.0, ("grammar", "none"): 70.5, ("files", "rsqrt"): 1.0, ("files", "none"): 2.0}
BLEU = {("grammar", "rsqrt"): 3.0, ("grammar", "none"): 4.0, ("files", "rsqrt"): 30.0, ("files", "none"): 35.25}
CLAIM = """claims:
- id: two
  slug: two
  statement: The scale matters on both.
  type: superiority
  questions:
"""
QUESTION = """  - {{sweep: two.yaml, asked: [{}/recurrent], metric: {}, margin: 5.0, contrasts: [
      {{arm: {{model.attention.scale: none}}, baseline: {{model.attention.scale: rsqrt}}, expect: different}}]}}
"""


def study(folder, *words, status=0):
    command = [sys.executable, "-P", "-m", "study", *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout if status == 0 else ran.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The four runs of one seed, after one update each, and what the sweep has printed."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "texts" / "cs_en").mkdir(parents=True)
    for split, size in {"train": 20, "valid": 2, "test": 2, "admin": 2}.items():
        for end, text in {"cs": "Dobrý den , pane .\n", "en": "Good day , sir .\n"}.items():
            (folder / "texts" / "cs_en" / f"{split}.{end}").write_text(text * size, encoding="utf-8")
    text = EXAMPLE.replace("[1, 2, 3]", "[1]").replace("corpus=grammar", "corpus=grammar train_pairs=60 test_pairs=4")
    (folder / "two.yaml").write_text(text + SMALL)
    return folder, study(folder, "sweep", "two.yaml")


@pytest.fixture(scope="module")
def scored(trained):
    """The same runs with scores that are known; those that do not decide point in the other direction."""
    folder, _ = trained
    for path in folder.glob("runs/*/record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        arm = record["data"]["name"], record["config"]["model"]["attention"]["cross"]["scale"]
        for score in record["scores"]:
            values = {"exact": EXACT, "bleu": BLEU}.get(score["metric"])
            if values and score["split"] == "test" and score["subset"] is None:
                score["value"] = values[arm]
        path.write_text(json.dumps(record), encoding="utf-8")
    return folder


def test_a_run_is_printed_with_the_score_of_its_corpus(trained):
    done = [line for line in trained[1].splitlines() if line.startswith("done")]
    assert len(done) == 4
    for line in done:
        assert ("test/bleu" if "name=files" in line else "test/exact") in line
    assert "Scores: split test, mean" in trained[1]
    assert "Δ: exact match (grammar), BLEU (files) minus the baseline's" in trained[1]


def test_each_corpus_has_its_own_score_and_baseline(scored):
    study(scored, "report", "two.yaml", "--runs", "runs")
    with (scored / "runs/report/two/table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["baseline", "few", "baseline", "few"]
    assert [row["difference"] for row in rows] == ["", "-9.5", "", "5.25"]
    with (scored / "runs/report/two/figure.csv").open(encoding="utf-8", newline="") as file:
        assert [row["score"] for row in csv.DictReader(file)] == ["80.0", "70.5", "30.0", "35.25"]
    study(scored, "report", "two.yaml", "--runs", "runs", "--out", "table.md")
    lines = [line.split(" | ")[-2] for line in (scored / "table.md").read_text().splitlines() if "| unscaled" in line]
    assert lines == ["−9.5", "+5.2"]
    (scored / "claim.yaml").write_text(
        CLAIM + QUESTION.format("grammar", "test/exact") + QUESTION.format("files", "test/bleu")
    )
    answers = study(scored, "claims", "two", "--claims", "claim.yaml", "--runs", "runs")
    assert "−9.5" in answers
    assert "+5.2" in answers
    study(scored, "site", "--runs", "runs", "--out", "site")
    pages = "".join(path.read_text(encoding="utf-8") for path in Path(scored, "site").rglob("*.js*"))
    assert '"metric": "test/bleu"' in pages.replace('":"', '": "')


@pytest.mark.parametrize(
    ("comment", "metric", "said"),
    [
        ("", "test/nll/without pronouns", "files has no test/nll/without pronouns. test/nll has the subsets kept 0.0"),
        ("# metric: files test/blue\n", "test/exact", "files has no test/blue. Did you mean test/bleu?"),
        (
            "# metric: multi30k test/bleu\n",
            "test/exact",
            "# metric: expected each once of grammar, files, got multi30k",
        ),
        (OF_FILES + "# metric: files admin/bleu\n", "test/exact", "got files, files. Correct the comment."),
        ("# metric: files\n", "test/exact", "files has no . "),
    ],
)
def test_a_score_that_a_corpus_lacks_is_refused_in_one_line_with_the_remedy(trained, comment, metric, said):
    folder, _ = trained
    text = (folder / "two.yaml").read_text().replace(OF_FILES, comment).replace("test/exact", metric)
    (folder / "bad.yaml").write_text(text)
    stderr = study(folder, "sweep", "bad.yaml", "--dry-run", status=2)
    assert stderr.count("\n") == 1
    assert said in stderr
    assert "`# metric: files SPLIT/SCORE`" in stderr or "Correct the comment" in stderr
