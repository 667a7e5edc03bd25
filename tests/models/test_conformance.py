"""`study check`: every built-in mechanism passes, and every kind of mistake is found by the check that is for it."""

import re
from pathlib import Path

import pytest
import torch

import study
from study.__main__ import main
from study.config.mechanisms import AXES
from study.models.conformance import check

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


OPEN = [axis for axis, rows in AXES.items() if rows.extensible]
"""Axes that take a class of a user's own."""


@pytest.mark.parametrize("axis", OPEN)
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
    assert said.startswith(f"Mine, a value of {axis} ({path}:6)\n")
    assert "\nfail" not in said


WRONG = {
    "shape": ("Results are", "Score", SCORE, "def forward(self, query, prepared, view):\n    return query @ prepared"),
    "no gradient": (
        "A finite gradient",
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
        "Models with every reach decode",
        "Score",
        SCORE,
        "def prepare(self, keys):\n    return keys - keys.mean(2, keepdim=True)",
    ),
    "heads not first": (
        "Removing each head",
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
        "formula='mine', d='K', reads=('query', 'key')",
        "def forward(self, query, prepared, view):\n"
        "    return query.mean(-1, keepdim=True).expand(*query.shape[:3], prepared.shape[2])",
    ),
    "one head for all": (
        "A finite gradient",
        "Score",
        SCORE,
        "def forward(self, query, prepared, view):\n    return query @ prepared[:, :1].transpose(-1, -2)",
    ),
    "first head for all": (
        "Removing each head",
        "Score",
        SCORE,
        "def forward(self, query, prepared, view):\n    return query @ (prepared + prepared[:, :1]).transpose(-1, -2)",
    ),
    "gathered": (
        "Every reach",
        "Score",
        SCORE + ", reads=('query', 'key', 'slot')",
        "gather_from = 11.0\ndef forward(self, query, prepared, view):\n"
        "    return query @ prepared.transpose(-1, -2) - torch.arange(prepared.shape[2], device=query.device) ** 2",
    ),
    "position of the call": (
        "Models with every reach decode",
        "Score",
        SCORE + ", reads=('query', 'key', 'position', 'slot')",
        "def forward(self, query, prepared, view):\n"
        "    t, s = (torch.arange(x.shape[2], device=x.device) for x in (query, prepared))\n"
        "    return query @ prepared.transpose(-1, -2) - (t[:, None] - s).abs()",
    ),
    "left behind": (
        "It is built on another device",
        "Score",
        SCORE,
        "def __init__(self, heads, query, key):\n    super().__init__(heads, query, key)\n"
        "    self.slope = torch.linspace(1, 2, heads)[:, None, None]\n"
        "def forward(self, query, prepared, view):\n    return self.slope * (query @ prepared.transpose(-1, -2))",
    ),
    "float64": (
        "A step of training",
        "Score",
        SCORE,
        "def prepare(self, keys):\n    return keys * torch.ones(1, dtype=torch.float64, device=keys.device)",
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
        "Padding of the source",
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


RAISING = {
    "beside the device": ("forward", "distance = (view.position[:, None] - torch.arange(prepared.shape[2])).abs()"),
    "half an argument": ("__init__", "super().__init__()"),
}
HEAD_OF_ALIBI = "import torch\nfrom study.attention import Score\nclass Alibi(Score):\n"
ALIBI = """\
    facts = dict(formula="q·k − |t − s| 2^(−8h/H)", d="K", scale="rsqrt", reads=("query", "key", "position", "slot"))
    def __init__(self, heads, query, key):
        super().__init__(heads, query, key)
        self.register_buffer("slope", 2 ** (-8 * torch.arange(1, heads + 1) / heads))
    def forward(self, query, prepared, view):
        distance = (view.position[:, None] - view.slot).abs()
        return query @ prepared.transpose(-1, -2) - distance * self.slope[:, None, None]
"""
RIGHT_LINES = {
    "forward": "distance = (view.position[:, None] - view.slot).abs()",
    "__init__": "super().__init__(heads, query, key)",
}


@pytest.mark.parametrize("mistake", RAISING)
def test_an_error_is_told_once_and_at_the_users_line(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method, wrong = RAISING[mistake]
    path = tmp_path / "alibi.py"
    path.write_text(HEAD_OF_ALIBI + ALIBI.replace(RIGHT_LINES[method], wrong), encoding="utf-8")
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert len(re.findall(rf"{path}:\d+, Alibi.{method}: \w+Error: ", said)) == 1
    assert said.endswith("\n1 check fails\n")
    assert main(["explain", "--model.attention.maps", "separate", "--model.attention.score", str(path)]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"{path}:\d+, Alibi.{method}: \w+Error: .*Correct this line; `study check` tests the file", said)
    assert "report" not in said
    assert said.count("\n") == 1
    path.write_text(HEAD_OF_ALIBI + ALIBI, encoding="utf-8")
    assert main(["check", str(path)]) == 0


def test_positions_of_ones_own_work_in_windows_of_long_sources(tmp_path: Path) -> None:
    path = tmp_path / "alibi.py"
    path.write_text(HEAD_OF_ALIBI + ALIBI, encoding="utf-8")
    states = torch.randn(2, 40, 16)
    windowed = study.Attention(16, score=str(path), heads=2, reach="local_m", window=1)
    whole = study.Attention(16, score=str(path), heads=2)
    near = (torch.arange(40)[:, None] - torch.arange(40)).abs() <= 1
    torch.testing.assert_close(windowed(states), whole(states, mask=near.expand(2, -1, -1)))


def test_a_reach_of_ones_own_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = own(tmp_path, "Reach", "formula='every second slot'", RIGHT["reach"][2])
    assert main(["explain", "--model.attention.reach", path]) == 0
    assert "     reach: every second slot\n" in capsys.readouterr().out
