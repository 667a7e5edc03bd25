"""`study check`: every built-in mechanism passes, and every kind of mistake is found by the check that is for it."""

from pathlib import Path

import pytest

from study.__main__ import main
from study.config.mechanisms import AXES
from study.models.conformance import KINDS, check

HEAD = """\
import torch
from torch import nn
from study.attention import Combine, Mixing, Reach, Scale, Score, Terms, Weighting
from study.attention.weighting import to_float32

class Mine({base}):
    facts = dict({facts})
"""
ATTENDS = [value for value, row in AXES["mixing"].items() if row.attends]
SCORE = "formula='mine', scale='none', d='K', equal_sizes=True"


@pytest.mark.parametrize("axis", KINDS)
def test_every_built_in_mechanism_passes(axis: str) -> None:
    outcomes = {value: list(check(axis, value)) for value in AXES[axis] if value not in ATTENDS}
    assert all(outcomes.values())
    assert [(value, case) for value, found in outcomes.items() for case in found if case.problem] == []


def own(folder: Path, base: str, facts: str, body: str) -> str:
    path = folder / "mine.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(HEAD.format(base=base, facts=facts) + lines, encoding="utf-8")
    return str(path)


RIGHT = {
    "score": (
        "Score",
        SCORE + ", reads=('query', 'key')",
        "def forward(self, query, prepared, view):\n    return -torch.cdist(query, prepared)\n"
        "@staticmethod\ndef reference(q, k, parameters):\n"
        "    return -(q[:, :, :, None] - k[:, :, None]).square().sum(-1).sqrt()",
    ),
    "scale": ("Scale", "formula='1/3'", "def forward(self):\n    return 1 / 3"),
    "weights": (
        "Weighting",
        "formula='e² / Σ e²', sums_to_one=True",
        "def forward(self, logits, mask):\n    e = to_float32(logits).square().masked_fill(~mask, 0.0)\n"
        "    return e / e.sum(-1, keepdim=True).clamp(min=1e-30)",
    ),
    "combine": (
        "Combine",
        "formula='½ Σ_n o_n W_O^n'",
        "def __init__(self, heads, size, width):\n    super().__init__(heads, size, width)\n"
        "    self.weight = nn.Parameter(torch.empty(heads, size, width))\n"
        "def forward(self, heads):\n    return (heads @ self.weight).sum(1) / 2",
    ),
    "reach": (
        "Reach",
        "within='s even'",
        "def window(self, query, view, gather_from=0.0):\n"
        "    return view._replace(mask=view.mask & (view.slot % 2 == 0))",
    ),
    "mixing": (
        "Mixing",
        "formula='y_s = x_{s−1}'",
        "def remember(self, states, mask):\n    return states * mask[..., None]\n"
        "def forward(self, query, memory, view):\n"
        "    return torch.cat([torch.zeros_like(memory[:, :1]), memory[:, :-1]], 1), Terms()",
    ),
}


@pytest.mark.parametrize("axis", RIGHT)
def test_a_mechanism_of_ones_own_on_every_axis_passes(
    axis: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = own(tmp_path, *RIGHT[axis])
    assert main(["check", path]) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert said.startswith(f"Mine, a value of {axis}\n")
    assert "\nfail" not in said


WRONG = {
    "detached": ("Output", "Score", SCORE, "def forward(self, query, prepared, view):\n    return query @ prepared"),
    "no gradient": (
        "Every parameter",
        "Score",
        SCORE,
        "def __init__(self, heads, query, key, **options):\n    super().__init__(heads, query, key)\n"
        "    self.weight = nn.Parameter(torch.empty(heads, query, key))\n"
        "def prepare(self, keys):\n    return keys @ self.weight.detach()",
    ),
    "empty row": (
        "A query that sees no slot",
        "Weighting",
        "formula='mine', sums_to_one=True",
        "def forward(self, logits, mask):\n    return to_float32(logits).masked_fill(~mask, -1e9).softmax(-1)",
    ),
    "mask ignored": (
        "Padding",
        "Weighting",
        "formula='mine', sums_to_one=True",
        "def forward(self, logits, mask):\n    return to_float32(logits).softmax(-1)",
    ),
    "counts padding": (
        "Padding",
        "Weighting",
        "formula='mine'",
        "def forward(self, logits, mask):\n    return (to_float32(logits) / logits.shape[-1]).masked_fill(~mask, 0.0)",
    ),
    "over slots": (
        "Token by token",
        "Score",
        SCORE,
        "def prepare(self, keys):\n    return keys - keys.mean(2, keepdim=True)",
    ),
    "not fusable": (
        "The fused kernel",
        "Score",
        SCORE,
        "fusable = True\ndef forward(self, query, prepared, view):\n    return -torch.cdist(query, prepared)",
    ),
    "heads not first": (
        "Removing heads",
        "Combine",
        "formula='mine'",
        "def __init__(self, heads, size, width):\n    super().__init__(heads, size, width)\n"
        "    self.weight = nn.Parameter(torch.empty(heads * size, width))\n"
        "def forward(self, heads):\n    return heads.transpose(1, 2).flatten(2) @ self.weight",
    ),
    "reference": (
        "The class equals",
        "Score",
        SCORE,
        "@staticmethod\ndef reference(q, k, parameters):\n    return 2 * q @ k.transpose(-1, -2)",
    ),
    "reads": (
        "A score depends",
        "Score",
        "formula='mine', d='K', reads=('query',)",
        "",
    ),
    "no rescale": (
        "With facts.matrix",
        "Score",
        SCORE + ", matrix=True",
        "def __init__(self, heads, query, key, **options):\n    super().__init__(heads, query, key)\n"
        "    self.weight = nn.Parameter(torch.empty(heads, query, key))\n"
        "def prepare(self, keys):\n    return keys @ self.weight.transpose(-1, -2)",
    ),
    "sums": (
        "Weights are 0",
        "Weighting",
        "formula='mine', sums_to_one=True",
        "def forward(self, logits, mask):\n    return torch.sigmoid(to_float32(logits)).masked_fill(~mask, 0.0)",
    ),
    "decoding": (
        "Models of both families",
        "Mixing",
        "formula='mine'",
        "def remember(self, states, mask):\n    return states.mean(1, keepdim=True)\n"
        "def forward(self, query, memory, view):\n    return memory.expand_as(query), Terms()",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_found_by_the_check_that_is_for_it(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, base, facts, body = WRONG[mistake]
    assert main(["check", own(tmp_path, base, facts, body or "pass")]) == 1
    said = capsys.readouterr().out
    assert f"\nfail  {name}" in said
    count = said.count("\nfail ")
    assert said.endswith("\n1 check fails\n" if count == 1 else f"\n{count} checks fail\n")
