"""Style of docstrings: they begin with a verb or a noun."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLAUSE = re.compile(r"(What|How|Of|Where|Which|Who|Whose)\b")
OPEN = {"study/analysis"}
"""Packages whose docstrings are yet to be rewritten. Take one away when it is done; add none."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring, those of attributes included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield statement.lineno, value.value.strip()


@pytest.mark.parametrize("folder", ["study", "tests", "benchmarks"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not any(name.startswith(f"{package}/") for package in OPEN):
            found += [f"{name}:{line}: {text[:60]}" for line, text in docstrings(path) if CLAUSE.match(text)]
    assert found == []
