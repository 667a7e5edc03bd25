"""The table of mechanisms stands alone: no other list of values, no branch on a name, and rows that fit each other."""

import ast
from pathlib import Path

from study.config import AttentionConfig, Recurrent, Transformer
from study.config.mechanisms import AXES, DERIVED, SIZES

ROOT = Path(__file__).parents[2] / "study"
TABLE = ROOT / "config" / "mechanisms.py"
BRANCHING = (ROOT / "attention", ROOT / "config", ROOT / "models" / "bridge.py")
"""The places that may branch on a name."""
WORDS = {
    *("none", "raw", "learned", "identity", "mean", "max", "final", "states", "empty", "zero", "direct", "attention"),
    *("global", "standard", "separate", "concat", "uniform", "softmax", "location", "hard", "cosine", "structured"),
}
"""Values that are also words for something else: alone they prove nothing."""
NAMES = {axis: set(rows) for axis, rows in AXES.items()}
PLAIN = set.union(*NAMES.values()) - WORDS


def strings(node):
    """The texts in a display, or the keys of a dictionary."""
    match node:
        case ast.Tuple() | ast.List() | ast.Set():
            parts = [e.value if isinstance(e, ast.Starred) else e for e in node.elts]
        case ast.Dict():
            parts = list(node.keys)
        case _:
            return set()
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def lists(tree):
    """Lines where two values of one axis, one of them unmistakable, stand in one list."""
    for node in ast.walk(tree):
        held = strings(node)
        if any(len(held & names) > 1 and held & names & PLAIN for names in NAMES.values()):
            yield getattr(node, "lineno", 0)


def branches(tree):
    """Lines where something is compared with an unmistakable value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            compared = {part.value for part in (node.left, *node.comparators) if isinstance(part, ast.Constant)}
            if compared & PLAIN:
                yield node.lineno


def places(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    free = any(path.is_relative_to(place) for place in BRANCHING)
    return [f"{path}:{line}" for line in (*lists(tree), *(() if free else branches(tree)))]


def test_no_other_module_lists_mechanisms_or_branches_on_their_names():
    assert not [place for path in sorted(ROOT.rglob("*.py")) if path != TABLE for place in places(path)]


def test_the_check_above_finds_lists_and_branches():
    for text in ("x = ('rsqrt', 'none')", "x = {'dot': 1, 'additive': 2}", "x = [*a, 'tied', 'raw']"):
        assert list(lists(ast.parse(text)))
    assert list(branches(ast.parse("if site.score == 'low_rank': pass")))


def test_options_of_rows_are_fields():
    fields = {*AttentionConfig.model_fields, *Recurrent.model_fields, *Transformer.model_fields}
    options = {option for rows in AXES.values() for row in rows.values() for option in row.options}
    assert {*options, *SIZES, *DERIVED} <= fields
    assert set(DERIVED) <= options
