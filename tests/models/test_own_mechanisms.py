"""Mechanisms as a user would write them, each in a file of at most 25 lines: `study check` takes them, models train."""

import re
from pathlib import Path

import pytest
import torch
from tiny_sweep import GRAPH

from study.__main__ import main
from study.attention.part import Part
from study.attention.site import build_site
from study.attention.view import View
from study.config import AttentionConfig, experiment_from, plugins
from study.config.mechanisms import AXES
from study.errors import InputError
from study.models import build, initialise

HEAD = """import torch
from torch import nn
"""
GROUPED = """
from study.attention import Site

class Grouped(Site):
    facts = dict(formula="[o_1; …; o_H] W_O, o_n = softmax(q_n·k/√K) v", options=("heads", "key_width"))

    def __init__(self, config, query_width, memory_width):
        super().__init__(config, query_width, memory_width)
        self.heads, self.size = config.heads, config.key_width
        self.q = nn.Linear(query_width, self.heads * self.size, bias=False)
        self.kv = nn.Linear(memory_width, 2 * self.size, bias=False)
        self.out = nn.Linear(self.heads * self.size, query_width, bias=False)

    def remember(self, states, mask):
        return self.kv(states).chunk(2, -1)

    def forward(self, query, memory, view):
        q = self.q(query).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        e = q @ memory[0][:, None].transpose(-1, -2) * self.size**-0.5
        a = e.masked_fill(~view.mask, -1e9).softmax(-1) * view.mask
        return self.out((a @ memory[1][:, None]).transpose(1, 2).flatten(2))
"""
LINEAR = """
from study.attention import Site

class Linear(Site):
    facts = dict(formula="Σ_s φ(q)·φ(k_s) v_s / Σ_s φ(q)·φ(k_s), φ(x) = elu(x) + 1", sites=("decoder_self",))

    def __init__(self, config, query_width, memory_width):
        super().__init__(config, query_width, memory_width)
        self.q, self.k, self.v = (nn.Linear(query_width, query_width, bias=False) for _ in range(3))

    def remember(self, states, mask):
        k = nn.functional.elu(self.k(states)) + 1
        return (k[..., None] * self.v(states)[..., None, :]).cumsum(1), k.cumsum(1)

    def extend(self, memory, states):
        return tuple(old[:, -1:] + new for old, new in zip(memory, self.remember(states, None)))

    def forward(self, query, memory, view):
        q = nn.functional.elu(self.q(query)) + 1
        return (q[:, :, None] @ memory[0])[:, :, 0] / (q * memory[1]).sum(-1, keepdim=True)
"""
PAGE = (Path(__file__).parents[2] / "docs" / "own-mechanisms.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
DOCUMENTED = {re.findall(r"class (\w+)", text)[0].lower(): text for text in BLOCKS}
"""The examples of the documentation."""
FILES = {"grouped": HEAD + GROUPED, "linear": HEAD + LINEAR} | DOCUMENTED


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(plugins.ALLOWED, "")
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    yield tmp_path
    for key in [key for key in Part._values if "@" in key[1]]:
        del Part._values[key]


@pytest.mark.parametrize("name", FILES)
def test_check_takes_it(here, name, capsys):
    assert len(FILES[name].splitlines()) <= 25
    assert main(["check", f"{name}.py"]) == 0, capsys.readouterr().out


def test_every_axis_that_is_open_has_an_example_with_a_parameter(here):
    plugins.allow(f"{name}.py" for name in DOCUMENTED)
    shown = {Part.named(plugins.read(f"{name}.py").value).axis for name in DOCUMENTED}
    assert shown == {axis for axis, rows in AXES.items() if rows.extensible}
    assert all(re.search(r"nn\.(Parameter|Linear)", text) for text in DOCUMENTED.values())


def built(**fields):
    plugins.allow(fields.values())
    module = build_site(AttentionConfig.model_validate(fields).resolved(24, 24), 24, 24, causal=True)
    initialise(module, 1)
    return module.double()


def contexts(module, states):
    """Contexts of causal self-attention."""
    count = states.shape[1]
    seen = torch.ones(count, count, dtype=torch.bool).tril()[None, None]
    memory = module.remember(states, seen.new_ones(states.shape[:2]))
    return module(states, memory, View(seen, torch.arange(count)))[0]


def test_sites_of_a_users_own_equal_those_of_the_package(here):
    """Grouped keys of one group, and linear attention by prefix sums, with the weights of parts that do the same."""
    states = torch.randn(2, 6, 24, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    with torch.no_grad():
        own, parts = built(site="grouped.py", heads=3), built(heads=3, groups=1)
        weight = {name.removeprefix("own."): tensor for name, tensor in own.named_parameters()}
        parts.map_query.weight.copy_(weight["q.weight"].view(3, 8, 24))
        parts.map_key.weight.copy_(weight["kv.weight"][None, :8])
        parts.map_value.weight.copy_(weight["kv.weight"][None, 8:])
        parts.combine.weight.copy_(weight["out.weight"].T.view(3, 8, 24))
        torch.testing.assert_close(contexts(own, states), contexts(parts, states), rtol=1e-9, atol=1e-12)
        own = built(site="linear.py")
        parts = built(score="elu_kernel", weights="normalised", output="raw")
        for mine, theirs in (("q", "query"), ("k", "key"), ("v", "value")):
            getattr(parts, f"map_{theirs}").weight.copy_(getattr(own.own, mine).weight[None])
        torch.testing.assert_close(contexts(own, states), contexts(parts, states), rtol=1e-9, atol=1e-12)


SMALL = [f"--{name}={value}" for name, value in GRAPH.items() if "heads" not in name]


@pytest.mark.usefixtures("few_validated")
def test_from_a_site_in_a_file_to_a_translation(here, printed, refused):
    sites = ["--model.attention.site", "grouped.py", "--model.attention.decoder_self.site", "linear.py"]
    assert main(["train", *SMALL, *sites]) == 0
    (run,) = (here / "runs").glob("graph-transformer-grouped-*")
    assert "this model has no weights over source tokens" in printed("translate", run, "der Onkel", "--allow-code")
    assert "expected sites with heads to prune, got all, which classes" in refused("prune", run, "--allow-code")


def test_explain_has_the_formula_of_a_users_own_on_every_axis(here, printed):
    arms = [
        {"positions": "slopes", "encoder_self.maps": "bent", "encoder_self.values": "offset", "cross.site": "grouped"}
        | {"encoder_self.output": "squashed", "encoder_self.weights": "biased", "decoder_self.combine": "gated"},
        {"mixing": "shift", "score": "laplace", "scale": "softplus", "reach": "fading"},
    ]
    shown = ""
    for arm in arms:
        places = {name: "" if name in ("positions", "mixing") else "attention." for name in arm}
        flags = [f"--model.{places[name]}{name}={file}.py" for name, file in arm.items()]
        small = ["--data.train_pairs=200", "--data.test_pairs=20"]
        shown += printed("explain", "--model.family=transformer", *small, *flags)
    for line in (
        "q = tanh(W_Q x)",
        "k = tanh(W_K m)",
        "v = W_V m + b",
        "e ← e − exp(g_n) |t − s|",
        "a = σ(e − b_n) over the S visible slots",
        "c ← tanh(c) W",
        "c = Σ_n σ(g_n·x) o_n W_O^n",
        "c = [o_1; …; o_H] W_O, o_n = softmax(q_n·k/√K) v",
        "key_width = 16",
        "y_s = W x_{s−1}",
        "e = (−b_n ‖q − k‖₁) · ln(1 + exp(g_n)) / √d, d = 16",
        "a ← a · exp(−|t − s| exp(r_n))",
    ):
        assert f"     {line}" in shown, (line, shown)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"family": "transformer", "attention.site": "linear.py"}, "stands at decoder_self"),
        ({"attention.site": "grouped.py", "attention.score": "additive"}, "score: no part of site Grouped"),
        ({"attention.site": "grouped.py", "memory": "empty"}, "memory empty has no slot"),
        ({"attention.maps": "bent.py", "attention.logit_init": "matched"}, "have none"),
        ({"attention.maps": "bent.py", "attention.groups": 1, "attention.heads": 2}, "groups: expected maps separate"),
        ({"attention.output": "squashed.py", "attention.combine": "sum_wide"}, "expected combine concat"),
        ({"family": "transformer", "positions": "rope", "attention.site": "grouped.py"}, "applies no positions rope"),
    ],
)
def test_what_means_nothing_is_refused(here, fields, said):
    plugins.allow(fields.values())
    with pytest.raises(InputError, match=re.escape(said)):
        build(experiment_from({f"model.{name}": value for name, value in fields.items()}).model, 10, 1)
