"""`study explain`: what it prints is what is built, recorded and written."""

from tiny_sweep import GRAPH

from study.config import experiment_from
from study.config.mechanisms import AXES
from study.models.cost import cost
from study.publish.catalogue import MARKER, PAGE, markdown
from study.training.batches import sizes_for
from study.training.run import run

SMALL = {"data.train_pairs": 200, "data.test_pairs": 20}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]


def in_order(told, *lines):
    """Return True if the text has these lines, one directly after the other."""
    return "\n".join(f"     {line}" for line in lines) in told


def test_what_is_chosen_is_one_value_and_adds_to_the_loss(printed):
    """The return is the one that training uses: without feeding, a draw at t changes log p(y_t) alone."""
    hard = ["--model.attention.reach", "hard", "--model.attention.entropy_bonus", "0.5"]
    for feeding, returned in (
        ("false", "R_t = log p(y_t), b_t = the running mean of log p"),
        ("true", "R_t = Σ_{t′ ≥ t} log p(y_t′), b_t = the running mean of log p × the tokens from t on"),
    ):
        assert in_order(
            printed("explain", *FLAGS, *hard, "--model.input_feeding", feeding),
            "in training z ~ a, in validation and search z = argmax_s a_s",
            "o = v_z",
            "c = o",
            "loss in training (REINFORCE): the mean over t of −[(R_t − b_t) · log a(z) + β entropy(a)]",
            f"  {returned}, β = 0.5",
        )


def test_a_configuration_in_formulas(printed):
    told = printed("explain", *FLAGS, "--preset", "luong2015_local_p", "--model.attention.window", "3")
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


def test_a_record_holds_the_same_numbers(tmp_path):
    small = {name: value for name, value in GRAPH.items() if not name.startswith("model.")}
    experiment = experiment_from(small, {"model.width": 8, "model.attention.score": "bilinear"})
    facts = run(experiment, tmp_path, lambda line: None).model
    found = cost(experiment.model, sizes_for(experiment.data))
    assert (facts.parameters, facts.parameters_attention) == (found.parameters, 64)
    assert facts.flops_per_token == found.flops_per_token > 0


def test_the_page_is_what_the_code_says():
    _, found, below = PAGE.read_text(encoding="utf-8").partition(MARKER)
    assert found
    assert below == "\n" + markdown(), "rewrite it: python -m study.publish.catalogue"
    of_start = ("logit_init", "map_rate", "bilinear_init")
    assert all(f"| `{value}` |" in below for axis in AXES if axis not in of_start for value in AXES[axis])
