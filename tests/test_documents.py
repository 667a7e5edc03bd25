"""README, CONTRIBUTING and docs/: commands are run or parsed, links lead somewhere, numbers are those of the tables."""

import argparse
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from study.__main__ import main
from study.commands import train
from study.config import experiment_from, experiment_id
from study.folders import CHECKOUT as ROOT
from study.pruning.run import run
from study.store.folder import Store
from study.sweep.spec import load

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
README = TEXTS["README.md"]
SHELL = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```sh\n(?P<lines>.*?)```", re.DOTALL)
ID = re.compile(r"grammar-(?:recurrent|transformer)-\w+-[0-9a-f]{8}-s\d+")
TARGETS = {"sweep": ["sweep"], "report": ["report"]}
"""Targets of the Makefile that take SWEEP, and the verb that they call."""
(SCORE,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PARSED = 99
"""Status of a verb that ended when its arguments were parsed."""
REAL = ("show", "translate", "ls", "check", "compare")
"""Verbs that are run; of the others the arguments are parsed."""


class Command(NamedTuple):
    page: str
    line: str

    @property
    def words(self):
        """The words of the command, without comment and without variables before it."""
        found = shlex.split(self.line, comments=True)
        while found and re.fullmatch(r"[A-Z_]+=.*", found[0]) and found[0] != "make":
            found.pop(0)
        return found


COMMANDS = [
    Command(page, line)
    for page, text in TEXTS.items()
    for block in SHELL.finditer(text)
    for line in block["lines"].replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#") and not block["reason"]
]


@pytest.fixture
def parse_only(monkeypatch, tmp_path):
    """Verbs end when their arguments are parsed; `study train` ends when its experiment is built."""
    parse = argparse.ArgumentParser.parse_args

    def parse_args(self, *given, **options):
        parse(self, *given, **options)
        if self.prog != "study train":
            raise SystemExit(PARSED)
        return parse(self, *given, **options)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(train, "_run", lambda experiment, folder: 0)
    for name in ("sweeps", "results", "tests"):
        (tmp_path / name).symlink_to(ROOT / name, target_is_directory=True)
    (tmp_path / "my_scores.py").write_text(SCORE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def check(verb):
    """Check the arguments of a verb; a sweep file that is named is there."""
    assert main(verb) in (0, PARSED), verb
    assert all((ROOT / word).is_file() for word in verb if word.startswith("sweeps/"))


@pytest.mark.parametrize("page", TEXTS)
def test_commands_are_commands(page, parse_only):
    targets = set(re.findall(r"^([a-z ]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    targets = {name for group in targets for name in group.split()}
    for command in (command for command in COMMANDS if command.page == page):
        match command.words:
            case ["study", *verb]:
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny run under the identities of the documents."""
    folder = tmp_path_factory.mktemp("documents")
    small = {"data.train_pairs": 200, "data.test_pairs": 20, "model.width": 8, "training.steps": 1}
    small |= {"decoding.beam": 1, "trainer.threads": 1, "trainer.device": "cpu"}
    run(experiment_from(small), folder / "runs" / "tiny", lambda line: None)
    for name in {found for command in COMMANDS for found in ID.findall(command.line)}:
        (folder / "runs" / name).symlink_to(folder / "runs" / "tiny", target_is_directory=True)
    (folder / "my_scores.py").write_text(SCORE, encoding="utf-8")
    for name in ("sweeps", "results", "tests"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    return folder


@pytest.mark.parametrize("verb", REAL)
def test_commands_run(verb, trained, monkeypatch):
    monkeypatch.chdir(trained)
    lines = dict.fromkeys(tuple(one.words[1:]) for one in COMMANDS if one.words[:2] == ["study", verb])
    assert lines
    for line in lines:
        assert main(line) == 0, line
        for option in ("--plot", "--out", "--maps"):
            if option in line:
                assert Path(line[line.index(option) + 1]).exists()


def test_the_runs_of_the_documents_are_published_or_made_by_commands():
    made = experiment_id(experiment_from({"model.family": "transformer", "training.steps": 800}))
    named = {found for text in TEXTS.values() for found in ID.findall(text)}
    assert made in named
    assert named <= {*Store(ROOT / "results").ids(), made}
    quick = {cell.id for cell in load(ROOT / "sweeps/quickstart.yaml").runnable}
    assert len(quick) == int(re.search(r"trains (\d+) small models", README)[1])
    local = {found for one in COMMANDS if "--runs results" not in one.line for found in ID.findall(one.line)}
    assert local <= quick | {made}


def slug(heading):
    """The anchor of a heading, as GitHub and mkdocs make it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower().strip()))


@pytest.mark.parametrize("page", [*TEXTS, "results/README.md"])
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"<!--.*?-->", "", text)):
        assert not target.startswith("http"), "links to other servers are not checked"
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            text = path.read_text(encoding="utf-8")
            headings = {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}
            assert anchor in {*headings, *re.findall(r'<a id="([\w-]+)"', text)}, target


def test_the_site_has_every_page():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    leaves = re.findall(r"[\w/-]+\.(?:md|ipynb)", yaml.safe_dump(site["nav"]))
    docs = ROOT / "docs"
    pages = [path.relative_to(docs).as_posix() for kind in ("md", "ipynb") for path in docs.rglob(f"*.{kind}")]
    assert sorted(leaves) == sorted(pages)
    index = re.findall(r"\]\(([\w/-]+\.md)", TEXTS["docs/README.md"])
    lab = re.findall(r"\]\(([\w-]+\.\w+)\)", TEXTS["docs/lab/index.md"])
    linked = {*index, "README.md", *(f"lab/{name}" for name in lab), "rebuild-a-table.ipynb"}
    assert linked == set(leaves)


def test_the_tree_of_the_page_for_contributors_is_that_of_the_package():
    tree = re.search(r"```\n(study/.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    listed = set(re.findall(r"^  (\w+)/ ", tree[1], flags=re.MULTILINE))
    assert listed == {path.parent.name for path in (ROOT / "study").glob("*/__init__.py")}
    assert all((ROOT / name).is_dir() for name in re.findall(r"\b(\w+)/", tree[1].splitlines()[-1]))


def test_the_map_of_the_code_names_what_is_there():
    text = TEXTS["docs/how-it-works.md"]
    assert text.count("\n") <= 100
    names = set(re.findall(r"`((?:study|tests)/[\w/]+\.\w+)`", text))
    assert len(names) > 30
    assert [name for name in sorted(names) if not (ROOT / name).is_file()] == []
    for file, kind, name in re.findall(r"`(study/[\w/.]+)`, (class|function) `(\w+)`", text):
        assert f"\n{kind.replace('function', 'def')} {name}(" in (ROOT / file).read_text(encoding="utf-8"), name
    packages = {path.parent.name for path in (ROOT / "study").glob("*/__init__.py")}
    assert packages <= set(re.findall(r"`(\w+)`", text.split("## Which package")[1].split("## Where")[0]))


def test_the_example_by_hand_is_what_the_records_say():
    text = TEXTS["docs/statistics.md"].split("<!-- worked -->")[1].split("<!-- end -->")[0]
    rows = re.findall(r"^\| (\d) \| ([\d.]+) \| ([\d.]+) \| \S+ \|$", text, flags=re.MULTILINE)
    arms = re.findall(r"`(grammar-recurrent-\w+-[0-9a-f]{8})-s1`", text)
    store = Store(ROOT / "results")
    scored = [[store.record(f"{arm}-s{seed}").score("test", "exact") for arm in arms] for seed, *_ in rows]
    assert [[float(a), float(b)] for _, a, b in rows] == scored
    assert len(rows) == 5
