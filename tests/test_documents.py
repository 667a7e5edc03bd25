"""README, CONTRIBUTING and docs/: commands are run or parsed, links lead somewhere, numbers are computed."""

import argparse
import math
import re
import shlex
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest
import typst
import yaml
from scipy.stats import t as student

from study.__main__ import main
from study.analysis.runs import Runs
from study.claims.evaluate import evaluate
from study.claims.schema import HERE as CLAIMS
from study.claims.schema import read as read_claims
from study.claims.schema import read_all
from study.commands import train
from study.config import experiment_from, experiment_id
from study.corpora import load as load_corpus
from study.corpora import words as corpus_words
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.pruning.run import run
from study.publish.readme import ANSWERS, documents, filled, find
from study.publish.reproduce import Inputs
from study.publish.results import Results
from study.store import Store
from study.sweep.spec import load

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
README = TEXTS["README.md"]
SHELL = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```sh\n(?P<lines>.*?)```", re.DOTALL)
ID = re.compile(r"grammar-(?:recurrent|transformer)-\w+-[0-9a-f]{8}-s\d+")
TARGETS = {"sweep": ["sweep"], "report": ["report"]}
"""Targets of the Makefile that take SWEEP, and the verb that they call."""
(SCORE,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PARSED = 99
"""Status of a verb that ended when its arguments were parsed."""
REAL = ("show", "translate", "align", "ls", "check", "runs", "diff", "sentences", "corpus", "compare")
"""Verbs that are run; of the others the arguments are parsed."""


class Command(NamedTuple):
    page: str
    line: str

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def commands() -> list[Command]:
    """Every command of a block of shell without a reason not to run it."""
    found = []
    for page, text in TEXTS.items():
        for block in SHELL.finditer(text):
            lines = block["lines"].replace("\\\n", " ").splitlines()
            found += [] if block["reason"] else [Command(page, line) for line in lines if line.strip()]
    return found


def words(command: Command) -> list[str]:
    """The words of a command, without comment and without variables before it."""
    found = shlex.split(command.line, comments=True)
    while found and re.fullmatch(r"[A-Z_]+=.*", found[0]) and found[0] != "make":
        found.pop(0)
    return found


@pytest.fixture
def parse_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Verbs end when their arguments are parsed; `study train` ends when its experiment is built."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self, *given, **options):
        parse(self, *given, **options)
        if self.prog != "study train":
            raise SystemExit(PARSED)
        return parse(self, *given, **options)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(train, "_run", lambda experiment, folder, verbose: 0)
    for name in ("sweeps", "results", "tests"):
        (tmp_path / name).symlink_to(ROOT / name, target_is_directory=True)
    (tmp_path / "my_scores.py").write_text(SCORE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def check(verb: list[str]) -> None:
    """Check the arguments of a verb; a sweep file that is named is there."""
    assert main(verb) in (0, PARSED), verb
    assert all((ROOT / word).is_file() for word in verb if word.startswith("sweeps/"))


@pytest.mark.parametrize("page", TEXTS)
def test_commands_are_commands(page: str, parse_only: None) -> None:
    targets = set(re.findall(r"^([a-z ]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    targets = {name for group in targets for name in group.split()}
    for command in commands():
        if command.page != page:
            continue
        match words(command):
            case ["study", *verb]:
                if "--all" not in verb:
                    check(["train" if word == "explain" else word for word in verb])
            case ["make", target, *options]:
                assert target in targets, command
                given = dict(option.split("=", 1) for option in options)
                if target in TARGETS:
                    file = given.get("SWEEP", "sweeps/quickstart.yaml")
                    check([*TARGETS[target], file, *shlex.split(given.get("ARGS", ""))])
            case [".venv/bin/python", file]:
                assert (ROOT / file).is_file(), command
            case ["." | "source", ".venv/bin/activate"] | ["cd" | "export", *_]:
                pass
            case other:
                raise AssertionError(f"{command}: {other[0]} is not run here; give the block a reason")


def test_reasons_are_given_for_what_is_not_run() -> None:
    assert len(commands()) > 60
    reasons = [block["reason"] for text in TEXTS.values() for block in SHELL.finditer(text) if block["reason"]]
    assert reasons
    assert all(len(reason.split()) >= 3 for reason in reasons)
    assert {word for text in TEXTS.values() for word in re.findall(r"```(\w+)", text)} <= {
        "sh",
        "python",
        "yaml",
        "diff",
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run under the identities of the documents."""
    folder = tmp_path_factory.mktemp("documents")
    small = {
        "data.train_pairs": 200,
        "data.test_pairs": 8,
        "model.width": 8,
        "training.steps": 1,
        "decoding.beam": 1,
        "trainer.threads": 1,
        "trainer.device": "cpu",
    }
    experiment = experiment_from(small)
    run(experiment, folder / "runs" / "tiny", lambda line: None)
    for name in {found for command in commands() for found in ID.findall(command.line)}:
        (folder / "runs" / name).symlink_to(folder / "runs" / "tiny", target_is_directory=True)
    (folder / "my_scores.py").write_text(SCORE, encoding="utf-8")
    for name in ("sweeps", "results", "tests"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    return folder


@pytest.mark.parametrize("verb", REAL)
def test_commands_run(verb: str, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    lines = dict.fromkeys(tuple(words(one)[1:]) for one in commands() if words(one)[:2] == ["study", verb])
    assert lines
    for line in lines:
        assert main(line) == 0, line
        for option in ("--plot", "--png", "--out"):
            if option in line:
                assert Path(line[line.index(option) + 1]).exists()


def test_the_sentences_of_the_documents_have_known_words() -> None:
    experiment = load(ROOT / "sweeps/quickstart.yaml").cells[0].experiment
    seen = {word for pair in load_corpus(experiment.data).splits["train"] for word, _, _ in corpus_words(pair.source)}
    said = [words(one)[3] for one in commands() if words(one)[:2] == ["study", "translate"]]
    named = re.search(r"for example \*([\w, ]+)\* and\s\*([\w,\s]+)\*", TEXTS["docs/getting-started.md"])
    assert named
    nouns = named[1].split(", ")
    assert len(said) >= 3
    assert not {word for sentence in said for word, _, _ in corpus_words(sentence)} - seen
    assert not set(nouns) - seen


def test_the_runs_of_the_documents_are_declared_by_sweeps_or_made_by_commands() -> None:
    declared = {cell.id for path in (ROOT / "sweeps").glob("*.yaml") for cell in load(path).runnable}
    made = experiment_id(experiment_from({"model.family": "transformer", "training.steps": 800}))
    named = {found for text in TEXTS.values() for found in ID.findall(text)}
    assert made in named
    assert named <= declared | {made}
    quick = {cell.id for cell in load(ROOT / "sweeps/quickstart.yaml").runnable}
    assert len(quick) == int(re.search(r"train (\d+) small models", README)[1])
    local = {found for one in commands() if "--runs results" not in one.line for found in ID.findall(one.line)}
    assert local <= quick | {made}


def test_the_models_of_the_documents_can_be_pruned_as_they_say() -> None:
    cells = {cell.id: cell.overrides for cell in load(ROOT / "sweeps/quickstart.yaml").runnable}
    cells["grammar-transformer-dot-893ac9b7-s1"] = {"model.family": "transformer", "training.steps": 800}
    pruned = []
    for one in commands():
        if words(one)[:2] == ["study", "prune"]:
            base, *options = words(one)[2:]
            fields = {f"pruning.{key[2:]}": value for key, value in zip(options[::2], options[1::2], strict=True)}
            fields = fields or {"pruning.question": "curve"}
            pruned.append(experiment_from(cells[Path(base).name], fields).pruning)
    assert len(pruned) >= 5


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and mkdocs make it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower().strip()))


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert not target.startswith("http"), "links to other servers are not checked"
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, target


def test_the_site_has_every_page() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    leaves = [page for entry in site["nav"] for value in entry.values() for page in _leaves(value)]
    assert sorted(leaves) == sorted(path.name for kind in ("md", "ipynb") for path in (ROOT / "docs").glob(f"*.{kind}"))
    index = re.findall(r"\]\(([\w-]+\.md)", TEXTS["docs/README.md"])
    assert {*index, "README.md"} == {leaf for leaf in leaves if leaf.endswith(".md")}


def _leaves(value: object) -> list[str]:
    return (
        [value]
        if isinstance(value, str)
        else [leaf for one in value for part in one.values() for leaf in _leaves(part)]
    )


def test_a_block_is_replaced_and_the_rest_kept() -> None:
    text = "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    new = filled(text, "table: x", r"| \| |")
    assert new == "a\n<!-- table: x -->\n| \\| |\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    assert filled(new, "table: x", r"| \| |") == new
    with pytest.raises(InputError, match="no block"):
        filled(text, "table: z", "")


def test_generated_parts_are_what_the_results_say() -> None:
    results = Results(ROOT / "results")
    inputs = Inputs(results)
    verdicts = inputs.verdicts
    made = documents(results, inputs.runs, verdicts)
    assert {path.name for path in made} == {"README.md", "getting-started.md", "verdicts.md"}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "rewrite it: study reproduce readme"
        assert not re.search(r"\b1 are\b", text)
    seventh = made[ROOT / "docs/verdicts.md"].split("## Claim 7\n")[1].split("## Claim 8\n")[0]
    assert "Sweeps: [decoders](../results/tables/decoders.md)." in seventh
    assert "*recurrent*" in made[ROOT / "README.md"].split("<details>")[0]
    deciding = next(verdict.deciding for verdict in verdicts if verdict.claim.id == 7)
    assert f"{deciding.comparison.test.difference:+.1f}" in seventh, "the weakest contrast, not the first one"
    answers = [[find(verdicts, value)[1] for value in answer.values] for answer in ANSWERS]
    same = "no difference larger than the margin"
    expected = [["supported"] * 2] * 2 + [[same], ["contradicted", same], ["supported"] * 2, ["contradicted"]]
    assert answers == expected, "an answer of README says something else than the finding: write it anew"
    small = [verdict for verdict in verdicts if verdict.claim.id == 4 and "d = 4 and 16" in verdict.question.part]
    found = [f.word for verdict in small if not verdict.superseded for f in verdict.findings if "d 16" in f.fields]
    assert found == [same, "contradicted"], "README: in transformers from d = 16"
    summary = made[ROOT / "docs/verdicts.md"].split("## Claim 1\n")[0]
    assert len(re.findall(r"^\| \[\d+\]", summary, flags=re.MULTILINE)) == 29


def test_the_tree_of_the_readme_is_that_of_the_package() -> None:
    tree = re.search(r"```\n(study/.*?)```", README, re.DOTALL)
    listed = set(re.findall(r"^  (\w+)/ ", tree[1], flags=re.MULTILINE))
    assert listed == {path.parent.name for path in (ROOT / "study").glob("*/__init__.py")}
    assert all((ROOT / name).is_dir() for name in re.findall(r"\b(\w+)/", tree[1].splitlines()[-1]))


def test_the_example_by_hand_is_what_the_records_say() -> None:
    text = TEXTS["docs/statistics.md"].split("<!-- worked -->")[1].split("<!-- end -->")[0]
    rows = re.findall(r"^\| (\d) \| ([\d.]+) \| ([\d.]+) \| (\S+) \|$", text, flags=re.MULTILINE)
    first, second = re.findall(r"`(grammar-recurrent-\w+-[0-9a-f]{8})-s1`", text)
    store = Store(ROOT / "results")
    scored = [[store.record(f"{arm}-s{seed}").score("test", "exact") for arm in (first, second)] for seed, *_ in rows]
    assert [[float(a), float(b)] for _, a, b, _ in rows] == scored
    differences = [a - b for a, b in scored]
    assert [f"{value:+.1f}".replace("-", "−") for value in differences] == [shown for *_, shown in rows]
    parts = [statistics.variance(arm) / len(rows) for arm in zip(*scored, strict=True)]
    mean, se = statistics.fmean(differences), math.sqrt(sum(parts))
    df = sum(parts) ** 2 / sum(part**2 / (len(rows) - 1) for part in parts)
    gap = margin()
    says = [f"{mean:+.2f}", f"{se:.3f}", f"{df:.2f}", f"{gap:.2f} points", f"{gap / 20:.3f}"]
    says += [f"{part * len(rows):.3f}" for part in parts]
    for level in (0.975, 0.95):
        quantile = float(student.ppf(level, df))
        low, high = mean - quantile * se, mean + quantile * se
        says += [f"{quantile:.3f}", f"[{low:+.2f}, {high:+.2f}]".replace("-", "−")]
    assert [number for number in says if number not in text] == []
    assert -gap / 20 < low < high < gap / 20
    (verdict,) = evaluate(read_all(), Runs(ROOT / "results", ROOT / "sweeps"), wanted=["3"])
    assert verdict.word in text
    assert f"it **{verdict.outcome}**" in text


def margin() -> float:
    """Return the gain of all states over the final one in the recurrent family, from zero."""
    means, store = {}, Store(ROOT / "results")
    for cell in load(ROOT / "sweeps/bottleneck.yaml").runnable:
        model = cell.experiment.model
        if model.family == "recurrent" and model.init == "zero" and model.memory in ("states", "final"):
            score = store.record(cell.id).score("test", "exact")
            means.setdefault(model.memory, []).append(score)
    return sum(means["states"]) / len(means["states"]) - sum(means["final"]) / len(means["final"])


def test_the_files_of_the_documents_are_read(tmp_path: Path) -> None:
    claim, sweep = (
        re.search(r"```yaml\n(.*?)```", TEXTS[page], re.DOTALL)[1] for page in ("docs/statistics.md", "docs/sweeps.md")
    )
    (tmp_path / "mine.yaml").write_text(claim, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(sweep, encoding="utf-8")
    assert len(load(tmp_path / "sweep.yaml").runnable) == 4
    (verdict,) = evaluate(read_all(tmp_path / "mine.yaml"), Runs(ROOT / "results", ROOT / "sweeps"), wanted=["own"])
    assert verdict.outcome in ("holds", "not decided", "fails")
    assert len(read_claims(CLAIMS).claims) == int(re.search(r"Of all (\d+) claims", README)[1])


def test_the_paper_finds_every_row_and_number_that_its_text_names() -> None:
    pdf = typst.compile(str(ROOT / "paper" / "main.typ"), root=str(ROOT), ignore_system_fonts=True)
    assert pdf.startswith(b"%PDF")
