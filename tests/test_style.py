"""Docstrings begin with a verb or a noun."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLAUSE = re.compile(r"(What|How|Of|Where|Which|Who|Whose)\b")
KINDS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize("folder", ["study", "tests", "benchmarks"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder):
    found = [
        f"{path.relative_to(ROOT).as_posix()}: {text[:60]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, KINDS) and CLAUSE.match(text := ast.get_docstring(node) or "")
    ]
    assert found == []
