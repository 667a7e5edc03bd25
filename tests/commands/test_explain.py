"""`study explain`: what it prints is what is built, recorded and written; a mistake is one line."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from study.__main__ import main
from study.config import experiment_from
from study.config.mechanisms import AXES
from study.models import build
from study.models.catalogue import MARKER, PAGE, markdown
from study.models.cost import cost
from study.training.batches import sizes_for
from study.training.run import run

SMALL = {"data.train_pairs": 60, "data.test_pairs": 20}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


def explained(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["explain", *FLAGS, *argv]) == 0
    return capsys.readouterr().out


def in_order(told: str, *lines: str) -> bool:
    """Return True if the text has these lines, one directly after the other."""
    return "\n".join(f"     {line}" for line in lines) in told


@pytest.mark.parametrize(
    ("decoder", "returned"),
    [
        ([], "R_t = log p(y_t), b_t = the running mean of log p"),
        (
            ["--model.input_feeding", "true"],
            "R_t = Σ_{t′ ≥ t} log p(y_t′), b_t = the running mean of log p × the tokens from t on",
        ),
    ],
    ids=["luong", "input feeding"],
)
def test_what_is_chosen_is_one_value_and_adds_to_the_loss(
    decoder: list[str], returned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The return is the one that training uses: without feeding, a draw at t changes log p(y_t) alone."""
    told = explained(capsys, "--model.attention.reach", "hard", "--model.attention.entropy_bonus", "0.5", *decoder)
    assert in_order(
        told,
        "a = softmax(e) over the S visible slots, 0 elsewhere",
        "in training z ~ a, in validation and search z = argmax_s a_s",
        "o = v_z",
        "c = o",
        "loss in training (REINFORCE): the mean over t of −[(R_t − b_t) · log a(z) + β entropy(a)]",
        f"  {returned}, β = 0.5",
    )


def test_what_is_over_scaled_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    scaled = ("--model.attention.score", "additive", "--model.attention.scale")
    assert "over-scaled, a control: e without 1/d starts" in explained(capsys, *scaled, "inverse")
    assert "over-scaled" not in explained(capsys, *scaled, "learned")


def test_a_configuration_in_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    told = explained(capsys, "--preset", "luong2015_local_p", "--model.attention.window", "3", "--target", "4")
    for line in (
        "x: s_t, the decoder's state after it reads y_{t−1}; s_t = LSTM(s_{t−1}, y_{t−1}, r_{t−1}), of width 64",
        "m: h_1 … h_S; encoder: LSTM states h, of width 64, left to right",
        "q = x",
    ):
        assert f" {line}\n" in told
    assert in_order(
        told,
        "e = qᵀ W k",
        "window: |s − p| ≤ w, p = (S−1)·σ(v·tanh(W q)), w = 3",
        "a = softmax(e) over the S′ slots left of the S visible, 0 elsewhere",
        "a ← a · exp(−(s − p)² / 2(w/2)²), not normalised again",
        "o = Σ_s a_s v_s",
        "c = o",
    )
    assert "L = 4 tokens" in told


def test_what_it_counts_is_what_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    told = explained(capsys, "--model.attention.score", "additive", "--model.attention.maps", "separate")
    overrides = {"model.attention.score": "additive", "model.attention.maps": "separate"} | SMALL
    experiment = experiment_from(overrides)
    sizes = sizes_for(experiment.data)
    assert "q = W_Q x" in told
    model = build(experiment.model, sizes.vocabulary, 1, sizes.lengths)
    assert re.search(rf"^total +{sum(p.numel() for p in model.parameters())} ", told, re.MULTILINE)


def test_a_record_holds_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    brief = {"training.steps": 1, "model.width": 8, "decoding.beam": 1, "trainer.threads": 1, "trainer.device": "cpu"}
    experiment = experiment_from(SMALL | brief, {"model.attention.score": "bilinear"})
    facts = run(experiment, tmp_path, lambda line: None).model
    found = cost(experiment.model, sizes_for(experiment.data))
    assert facts is not None
    assert (facts.parameters, facts.parameters_attention) == (found.parameters, 64)
    assert facts.flops_per_token == found.flops_per_token > 0


def test_the_page_is_what_the_code_says() -> None:
    _, found, below = PAGE.read_text(encoding="utf-8").partition(MARKER)
    assert found
    assert below == "\n" + markdown(), "rewrite it: python -m study.models.catalogue"
    for axis, rows in AXES.items():
        assert all(
            f"| `{value}` |" in below for value in rows if axis not in ("logit_init", "map_rate", "bilinear_init")
        )


def test_the_gallery_counts_the_lines_of_its_classes() -> None:
    """The fifteen rows, each with the lines of code of what it names, docstrings and blank lines left out."""
    rows = re.findall(r"\| (`\w+\.\w+`(?:, `\w+\.\w+`)*) \| (\d+) \|", PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 15
    for names, count in rows:
        found = 0
        for module, name in re.findall(r"`(\w+)\.(\w+)`", names):
            tree = ast.parse(inspect.getsource(getattr(import_module(f"study.attention.{module}"), name)))
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                    node.body = node.body[1:] or [ast.Pass()]
            found += len(ast.unparse(tree).replace("\n\n", "\n").splitlines())
        assert found == int(count), (names, found)


MISTAKES = {
    "no such preset": (["--preset", "luong2015"], "preset: expected bahdanau2015, luong2015_"),
    "no tokens": (["--target", "0"], "--target: expected a whole number from 1"),
    "no number": (["--source", "ten"], "--source: expected a whole number from 1"),
    "too long": (
        [*FLAGS, "--model.family", "transformer", "--model.positions", "learned", "--source", "999"],
        "--source, --target: expected at most ",
    ),
    "unknown flag": (["--model.depth", "3"], "`study explain --help`"),
    "refused": (["--model.attention.heads", "3"], "model.attention.heads: expected a divisor of the width 64"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv, says = MISTAKES[mistake]
    assert main(["explain", *argv]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.err.startswith("study: ")
    assert (told.err.count("\n"), told.out) == (1, "")
