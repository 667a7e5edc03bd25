"""`study check`: every built-in mechanism passes, and every kind of mistake is found by the check that is for it."""

import dataclasses
import re
from pathlib import Path

import pytest

from study.__main__ import main
from study.attention.part import Part
from study.config import plugins
from study.config.mechanisms import AXES
from study.models.conformance import check

HEAD = """\
import torch
from torch import nn
from study.attention import Combine, Mixing, Reach, Scale, Score, Site, Terms, Weighting
from study.attention.weighting import to_float32

class Mine({base}):
    facts = dict({facts})
"""
PLAIN = {"scale": "rsqrt", "logits": "plain", "norm": "none", "weights": "softmax", "reach": "global"}
PLAIN |= {"positions": "sinusoidal", "mixing": "attention", "site": "parts"}
"""Values of which the models of score dot are made, so that its checks are theirs."""
BUILT_IN = [
    (axis, value)
    for axis, rows in AXES.items()
    if rows.extensible or axis in ("norm", "logits")
    for value in rows
    if PLAIN.get(axis) != value
]
SCORE = "formula='mine', scale='none', d='K', equal_sizes=True"


@pytest.mark.parametrize(("axis", "value"), BUILT_IN)
def test_every_built_in_mechanism_passes(axis, value):
    found = list(check(axis, value))
    assert found
    assert [case for case in found if case.problem] == []


def problems(path):
    """Yield the checks that fail, one after another."""
    plugins.allow([path])
    plugin = plugins.read(path)
    return (found for found in check(Part.named(plugin.value).axis, plugin.value) if found.problem)


def own(folder, base, facts, body):
    path = folder / "mine.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(HEAD.format(base=base, facts=facts) + lines, encoding="utf-8")
    return str(path)


WRONG = f"""
== mask ignored | Padding | Weighting | formula='mine', sums_to_one=True
def forward(self, logits, mask):
    return to_float32(logits).softmax(-1)
== counts padding | Padding | Weighting | formula='mine'
def forward(self, logits, mask):
    return (to_float32(logits) / logits.shape[-1]).masked_fill(~mask, 0.0)
== over slots | Models with every reach decode | Score | {SCORE}
def prepare(self, keys):
    return keys - keys.mean(2, keepdim=True)
== heads not first | Removing a head | Combine | formula='mine'
def __init__(self, heads, size, width):
    super().__init__(heads, size, width)
    self.weight = nn.Parameter(torch.empty(heads * size, width))
def forward(self, heads):
    return heads.transpose(1, 2).flatten(2) @ self.weight
== future times 0 | Models with every reach decode | Site | formula='mine', sites=('decoder_self',)
def __init__(self, config, query_width, memory_width):
    super().__init__(config, query_width, memory_width)
    self.out, self.share = nn.Linear(memory_width, query_width), nn.Parameter(torch.zeros(()))
def remember(self, states, mask):
    return states.masked_fill(~mask[..., None], 0.0)
def forward(self, query, memory, view):
    past = view.mask[:, 0].double() @ memory
    return self.out(past + self.share * memory.sum(1, keepdim=True))
== neighbour times 0 | Removing a head | Combine | formula='mine', mixes='a + s a of the neighbour'
def __init__(self, heads, size, width):
    super().__init__(heads, size, width)
    self.weight, self.share = nn.Parameter(torch.empty(heads, size, width)), nn.Parameter(torch.zeros(heads))
def mix_weights(self, weights):
    return weights + self.share[:, None, None] * weights[:, [-1, *range(weights.shape[1] - 1)]]
def forward(self, heads):
    return (heads @ self.weight).sum(1)
== one number for all heads | Removing a head | Score | formula='mine', d='K', equal_sizes=True
def __init__(self, heads, query, key, **options):
    super().__init__(heads, query, key)
    self.heat = nn.Parameter(torch.ones(1))
def forward(self, query, prepared, view):
    return self.heat * (query @ prepared.transpose(-1, -2))
== reads | A score depends | Score | formula='mine', d='K', reads=('query', 'key')
def forward(self, query, prepared, view):
    return query.mean(-1, keepdim=True).expand(*query.shape[:3], prepared.shape[2])
== one head for all | A finite gradient | Score | {SCORE}
def forward(self, query, prepared, view):
    return query @ prepared[:, :1].transpose(-1, -2)
== gathered | Every window | Score | {SCORE}, reads=('query', 'key', 'slot')
gather_from = 11.0
def forward(self, query, prepared, view):
    return query @ prepared.transpose(-1, -2) - torch.arange(prepared.shape[2], device=query.device) ** 2
== position of the call | Models with every reach decode | Score | {SCORE}, reads=('query', 'key', 'position', 'slot')
def forward(self, query, prepared, view):
    t, s = (torch.arange(x.shape[2], device=x.device) for x in (query, prepared))
    return query @ prepared.transpose(-1, -2) - (t[:, None] - s).abs()
== left behind | It is built on another device | Score | {SCORE}
def __init__(self, heads, query, key):
    super().__init__(heads, query, key)
    self.slope = torch.ones(1)
def forward(self, query, prepared, view):
    return self.slope * (query @ prepared.transpose(-1, -2))
== float64 | A step of training | Score | {SCORE}
def prepare(self, keys):
    return keys * torch.ones(1, dtype=torch.float64, device=keys.device)
== unused by a layer | A finite gradient | Mixing | formula='x'
def __init__(self, width):
    super().__init__(width)
    self.weight = nn.Parameter(torch.empty(width, width))
def remember(self, states, mask):
    return states
def forward(self, query, memory, view):
    return memory, Terms()
"""
"""A mistake, the check that finds it, the base of its class, its facts and its methods."""


@pytest.mark.parametrize("mistake", WRONG.split("\n== ")[1:], ids=lambda text: text.partition(" |")[0])
def test_a_mistake_is_found_by_the_check_that_is_for_it(mistake, tmp_path):
    head, _, body = mistake.partition("\n")
    _, name, base, facts = head.split(" | ")
    assert any(found.name.startswith(name) for found in problems(own(tmp_path, base, facts, body)))


ZERO = """
== share of the past | Site | formula='mine', sites=('decoder_self',)
def __init__(self, config, query_width, memory_width):
    super().__init__(config, query_width, memory_width)
    self.out, self.share = nn.Linear(memory_width, query_width), nn.Parameter(torch.zeros(()))
def remember(self, states, mask):
    return states.masked_fill(~mask[..., None], 0.0)
def forward(self, query, memory, view):
    return self.out(query + self.share * (view.mask[:, 0].to(memory.dtype) @ memory))
== share of a query's gate | Combine | formula='mine', alone=''
def __init__(self, heads, size, width):
    super().__init__(heads, size, width)
    self.weight, self.share = nn.Parameter(torch.empty(heads, size, width)), nn.Parameter(torch.zeros(heads))
def transform(self, heads, query):
    return heads * (1 + self.share[:, None, None] * query.tanh().mean(-1)[:, None, :, None])
def forward(self, heads):
    return (heads @ self.weight).sum(1)
"""
"""Right mechanisms with a factor that starts at 0."""


@pytest.mark.parametrize("text", ZERO.split("\n== ")[1:], ids=lambda text: text.partition(" |")[0])
def test_a_factor_that_starts_at_0_is_no_mistake(text, tmp_path):
    head, _, body = text.partition("\n")
    _, base, facts = head.split(" | ")
    assert [found.problem for found in problems(own(tmp_path, base, facts, body))] == []


def test_one_number_for_all_heads_gets_the_remedy_of_head_removal(tmp_path):
    text = next(part for part in WRONG.split("\n== ") if part.startswith("one number for all heads"))
    (found,) = problems(own(tmp_path, "Score", SCORE, text.partition("\n")[2]))
    assert "make their first axis the heads'" in found.problem


def test_a_fact_of_another_type_is_one_line_that_leads_on(tmp_path, refused):
    line = refused("check", own(tmp_path, "Combine", "formula='mine', mixes=True", "pass"))
    assert "Mine.facts.mixes: expected a valid string, got True. docs/own-mechanisms.md lists the facts" in line
    assert "study check" not in line


def test_the_page_lists_every_fact_with_its_type():
    page = (
        (Path(__file__).parents[2] / "docs" / "own-mechanisms.md").read_text(encoding="utf-8").partition("## Facts")[2]
    )
    rows = {tuple(cell.strip(" `") for cell in line.split("|")[1:4]) for line in page.splitlines() if "| `" in line}
    listed = {(axis, fact): kind for axes, fact, kind in rows for axis in axes.split(", ")}
    words = {"str": "text", "bool": "True or False", "int": "whole number", "float": "number"}
    for axis, values in AXES.items():
        for field in dataclasses.fields(type(next(iter(values.values())))) if values.extensible else ():
            name = getattr(field.type, "__name__", str(field.type))
            kind = words.get(name, "list of texts" if "tuple" in name else "text")
            assert listed.pop((axis, field.name), listed.get(("every", field.name))) == kind, (axis, field.name)
    assert {axis for axis, _ in listed} == {"every"}


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
def test_an_error_is_told_once_and_at_the_users_line(mistake, tmp_path, capsys):
    method, wrong = RAISING[mistake]
    path = tmp_path / "alibi.py"
    path.write_text(HEAD_OF_ALIBI + ALIBI.replace(RIGHT_LINES[method], wrong), encoding="utf-8")
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert len(re.findall(rf"{path}:\d+, Alibi.{method}: \w+Error: ", said)) == 1
    assert said.startswith(f"Alibi, a value of score ({path}:3)\n")
    assert said.endswith("\n1 check fails\n")
    few = ["--data.train_pairs=200", "--data.test_pairs=20"]
    assert main(["explain", *few, "--model.attention.maps=separate", f"--model.attention.score={path}"]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"{path}:\d+, Alibi.{method}: \w+Error: .*Correct this line; `study check` tests the file", said)
    assert said.count("\n") == 1
