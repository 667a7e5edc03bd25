"""One table over several sweeps as LaTeX, Markdown and CSV, made by a process of its own in an empty folder."""

import csv
import re
import shutil
import subprocess
import sys

import pytest

from study.analysis import latex
from study.folders import CHECKOUT as ROOT

SWEEPS = ("scale_small", "transfer_multi30k")


CALLS = "import sys; from study.__main__ import main; sys.exit(max(main(line.split()) for line in sys.argv[1:]))"


def report(folder, *calls):
    """Call `study report` in a folder that has nothing but the results, once for each line of arguments."""
    if not (folder / "results").exists():
        (folder / "results").symlink_to(ROOT / "results")
    command = [sys.executable, "-P", "-c", CALLS, *(f"report {words}" for words in calls)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    names = ("table.tex", "table.md", "table.csv", "figure.pdf")
    ran = report(folder, *(f"{' '.join(SWEEPS)} --runs results --out {name}" for name in names))
    assert ran.returncode == 0, ran.stderr
    return folder


def test_numbers_are_those_of_the_sweeps_own_tables(made):
    with (made / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in SWEEPS:
        with (ROOT / "results" / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            own = list(csv.DictReader(file))
        ours = [row for row in rows if row["sweep"] == name]
        assert [{key: row[key] for key in own[0]} for row in ours] == own
    page = (made / "table.md").read_text(encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and " ± " in line
    ]
    assert len(lines) == len(rows)
    for cells, row in zip(lines, rows, strict=True):
        number, _, stars = cells[-3].replace("−", "-").partition(" ")
        if row["holm"]:
            assert float(number) == pytest.approx(float(row["difference"]), abs=6e-4)
            assert stars.count("*") == sum(float(row["holm"]) < level for level in (0.05, 0.01, 0.001))


def test_latex_is_ascii_of_whole_rows_and_compiles(made):
    text = (made / "table.tex").read_text(encoding="utf-8")
    assert text.isascii()
    columns = re.search(r"begin{tabular}{([lr]+)}", text)[1]
    body = text.split("\\toprule")[1].split("\\bottomrule")[0]
    rows = [line for line in body.splitlines() if " & " in line]
    assert len(rows) > 30
    for row in rows:
        assert row.count(" & ") == len(columns) - 1
        assert row.count("{") == row.count("}")
    if not shutil.which("pdflatex"):
        pytest.skip("no pdflatex")
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\tiny\\input{table}\\end{document}"
    (made / "page.tex").write_text(page, encoding="ascii")
    ran = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=made,
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-1000:]


def test_a_figure_is_a_pdf_without_a_date(made):
    content = (made / "figure.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"CreationDate" not in content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/√d, 50% of W_Q & more", r"1/$\surd$d, 50\% of W\_Q \& more"),
        ("d^−¼", r"d\textasciicircum{}$-$$\frac{1}{4}$"),
        ("ρ ÷ S², é, ***", r"$\rho$ $\div$ S$^{2}$, \'{e}, $^{***}$"),
        ("[−1, 2] 語", r"{[}$-$1, 2{]} {[}U+8A9E{]}"),
    ],
)
def test_characters_by_hand(text, expected):
    assert latex.escaped(text) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("quickstart quickstart --runs results --out t.tex", "SWEEP: expected sweeps of different names"),
        ("quickstart scale_small --runs results --out t.doc", "--out: expected a file that ends in .tex"),
        ("quickstart heads_alone --runs results --out t.svg", "heads_alone: expected arms to compare"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line_and_writes_nothing(words, said, tmp_path):
    ran = report(tmp_path, words)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert said in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
