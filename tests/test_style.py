"""Style of docstrings, pages, help texts and error messages; the worst habits only."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLAUSE = re.compile(r"(What|How|Of|Where|Which|Who|Whose)\b")
QUESTION = re.compile(r"Whether\b")
"""Allowed for a field that is true or false. A function says "Return True if …"."""

REMEDY = re.compile(r"; (call|choose|correct|give|measure|merge|name|remove|restore|run|set|try|unset|use|write)\b")
"""Remedy that does not stand in a sentence of its own."""
GOT = re.compile(r"\bgot\b|\{said\}")
"""Part of a message that says what there was; `said` is a text with it."""
HABITS = re.compile(
    r"(?:[.!:] |\n\n)Of (?!all )[a-z]"  # "Of several contrasts the weakest is shown"
    r"|\b(?:whoever|astray|of then|of now|thereof|whereof|lest|is told|are told|told apart|one's own)\b"
)


def docstrings(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of every docstring, those of attributes included, and whether it is a function's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield statement.lineno, value.value.strip(), not isinstance(node, ast.Module | ast.ClassDef)


@pytest.mark.parametrize("folder", ["study", "tests", "benchmarks"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for line, text, of_function in docstrings(path):
            if CLAUSE.match(text) or (of_function and QUESTION.match(text)):
                found.append(f"{path.relative_to(ROOT).as_posix()}:{line}: {text[:60]}")
    assert found == []


def test_errors_say_what_was_expected_and_got_and_then_the_remedy() -> None:
    """Form of error messages: `field: expected X, got Y. Remedy.`"""
    found = []
    for path in sorted((ROOT / "study").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("InputError", "ValueError", ".say")):
                text = "".join(str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant))
                inner = ast.unparse(node.func) == "ValueError"  # a part of another message
                if (REMEDY.search(text) and not inner) or ("expected " in text and not GOT.search(ast.unparse(node))):
                    found.append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    assert found == []


def test_pages_sweep_files_and_help_are_free_of_old_habits() -> None:
    folders = (("docs", "*.md"), ("sweeps", "*.yaml"), ("study/commands", "*.py"))
    pages = [path for folder, name in folders for path in (ROOT / folder).glob(name)]
    pages += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in pages}
    assert {name: found[0] for name, text in texts.items() if (found := HABITS.search(text))} == {}
