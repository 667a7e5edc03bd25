"""Style of docstrings: they begin with a verb or a noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLAUSE = re.compile(r"(What|How|Of|Where|Which|Who|Whose)\b")
QUESTION = re.compile(r"Whether\b")
"""Allowed for a field that is true or false. A function says "Return True if …"."""


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
