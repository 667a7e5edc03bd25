"""Conditions on a table of runs, such as `scale == "none" and exact < 50`. They are parsed; nothing runs as code.

A condition has names of columns, constants, comparisons (chained ones, too), `and`, `or`, `not`, `in`, and `isna()`,
`notna()`, `isin([…])` and `str.contains("…")` of a column. `&`, `|` and `~` mean and, or, not.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 10_000
"""Characters of a condition."""
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda column, values: column.isin(values),
    ast.NotIn: lambda column, values: ~column.isin(values),
}
MARKS = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]*)`|([&|])""", re.DOTALL)
"""A text, a column in backticks, or a sign that is a word in Python."""


def evaluate(condition: str, columns: Mapping[str, pd.Series]) -> tuple[pd.Series, list[str]]:
    """Return the rows for which a condition holds, as a column of True and False, and the names of columns in it.

    Raises:
        Exception: anything else than a condition, or a comparison of a number with a text.
    """
    tree, quoted = _parsed(condition)
    read: list[str] = []

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(None | str() | int() | float() as constant):
                return constant
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as constant)):
                return -constant
            case ast.List(elements) | ast.Tuple(elements):
                return [value(element) for element in elements]
            case ast.Name(name) if (name := quoted.get(name, name)) in columns:
                read.append(name)
                return columns[name]
            case ast.Name(name):
                raise ValueError(f"name {name!r} is not defined")
            case ast.BoolOp(sign, operands):
                both = operator.and_ if isinstance(sign, ast.And) else operator.or_
                return reduce(both, map(truth, operands))
            case ast.UnaryOp(ast.Not() | ast.Invert(), operand):
                return ~truth(operand)
            case ast.Compare(left, signs, others) if all(type(sign) in COMPARISONS for sign in signs):
                sides = pairwise(map(value, [left, *others]))
                compared = [COMPARISONS[type(sign)](*two) for sign, two in zip(signs, sides, strict=True)]
                return reduce(operator.and_, compared)
            case ast.Call(ast.Attribute(ast.Name() as column, "isna" | "notna" as name), [], []):
                return value(column).isna() if name == "isna" else value(column).notna()
            case ast.Call(ast.Attribute(ast.Name() as column, "isin"), [ast.List() as values], []):
                return value(column).isin(value(values))
            case ast.Call(
                ast.Attribute(ast.Attribute(ast.Name() as column, "str"), "contains"), [ast.Constant(str(text))], []
            ):
                return _contains(value(column), text)
        raise ValueError(f"{ast.unparse(node)[:40]} is refused")

    def truth(node: ast.expr) -> pd.Series:
        column: pd.Series = value(node)
        if not hasattr(column, "dropna") or not set(column.dropna().unique()) <= {True, False}:
            raise ValueError("values that are not true or false")
        return column.fillna(False).astype(bool)

    return truth(tree), read


def _parsed(condition: str) -> tuple[ast.expr, dict[str, str]]:
    """Return a condition as an expression of Python, and the columns in backticks by their names in it."""
    if len(condition) > LONGEST:
        raise ValueError(f"more than {LONGEST} characters")
    quoted: dict[str, str] = {}

    def as_python(match: re.Match[str]) -> str:
        text, column, sign = match.groups()
        if column is None:
            return text or {"&": " and ", "|": " or "}[sign]
        name = f"quoted_{len(quoted)}_"
        quoted[name] = column
        return name

    with warnings.catch_warnings(action="ignore"):  # of escapes in texts
        return ast.parse(MARKS.sub(as_python, condition).strip(), mode="eval").body, quoted


def _contains(column: pd.Series, pattern: str) -> pd.Series:
    """Return the rows whose text has a match of a regular expression, in time that is linear in the text (RE2)."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(pa.array(column, pa.string(), from_pandas=True), pattern)
    return pd.Series(matches.fill_null(False).to_numpy(zero_copy_only=False), column.index)
