"""The decoder-only family: its definition in float64, and its identities for all positions and both source masks."""

import importlib.util
import math
from itertools import product

import model_cases as cases
import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from study.attention import View
from study.config import AttentionConfig, experiment_from, trained
from study.config.mechanisms import AXES, POSITIONS
from study.errors import InputError
from study.models.cost import Sizes, cost
from study.models.translator import BOS, PAD
from study.training.alignment import over_source
from study.training.batches import Batch
from study.training.diagnostics import diagnose, observe

EXACT = {"rtol": 1e-9, "atol": 1e-11}
WIDTH, H, K = cases.WIDTH, 2, 6
MASKS = ("causal", "full")
KINDS = list(product(POSITIONS, MASKS))
every_kind = pytest.mark.parametrize(("positions", "source_mask"), KINDS)


def drawn(positions="sinusoidal", source_mask="causal", **fields):
    """A model whose parameters are all random: biases, gains and relative positions start at 0 or 1."""
    own = {"positions": positions, "source_mask": source_mask, "attention.key_width": K} | fields
    translator = cases.model(cases.DECODER_ONLY, cases.at(own))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in translator.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return translator


def normed(x, norm):
    return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias)


def defined(translator, source, target):
    """Logits of one sentence pair without padding, token by token and head by head."""
    parameters, root = dict(translator.named_parameters()), math.sqrt(WIDTH)
    count, config = len(source), translator.config
    place = [*range(-count, 0), *range(len(target))]
    x = root * torch.stack(
        [translator.source_embedding.weight[token] for token in source]
        + [translator.target_embedding.weight[token] for token in target]
    )
    for row, t in enumerate(place):
        if config.positions == "learned":
            table = parameters[f"{'source' if t < 0 else 'target'}_positions.weight"]
            x[row] = x[row] + root * table[t]  # of the source, a row counts from the end, as −1 does
        if config.positions == "sinusoidal":
            angle = torch.tensor([t * 10_000 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)])
            x[row] = x[row] + torch.stack([angle.sin(), angle.cos()], 1).flatten()
    for number, layer in enumerate(translator.layers):
        name = f"layers.{number}.attention."
        states = normed(x, layer.attention_norm)
        mixed = torch.zeros_like(x)
        for h in range(H):
            q, k, v = (states @ parameters[f"{name}map_{part}.weight"][h].T for part in ("query", "key", "value"))
            heads = []
            for row, t in enumerate(place):
                full = config.source_mask == "full" and t < 0
                sees = [s for s in place if s <= t or (full and s < 0)]
                logits = torch.stack([score(translator, q[row], k[place.index(s)], t, s, h) for s in sees])
                heads.append(logits.softmax(0) @ v[[place.index(s) for s in sees]])
            mixed = mixed + torch.stack(heads) @ parameters[f"{name}combine.weight"][h]
        x = x + mixed
        inner = layer.feedforward[1]
        x = x + inner.down(inner.up(normed(x, layer.feedforward[0])).relu())
    return translator.unembedding(normed(x, translator.norm))[count:]


def score(translator, q, k, t, s, h):
    positions = translator.target_positions
    if translator.config.positions == "rope":
        q, k = turned(q, t), turned(k, s)
    e = q @ k / math.sqrt(K)
    if translator.config.positions == "alibi":
        e = e - 2 ** (-8 * (h + 1) / H) * abs(t - s)
    if translator.config.positions == "t5":
        # Distances are below 32 here: one bucket each up to 15, or up to 7 in each direction, then by the logarithm.
        causal = translator.config.source_mask == "causal"
        half, away = (16, max(0, t - s)) if causal else (8, abs(t - s))
        far = half + int(math.log(max(away, half) / half) / math.log(128 / half) * half)
        bucket = away if away < half else far
        e = e + positions.bias_of[h, bucket + (0 if causal or s <= t else 16)]
    return e


def turned(x, t):
    pairs = x.view(-1, 2)
    angle = torch.tensor([t * 10_000 ** (-2 * i / K) for i in range(K // 2)], dtype=torch.float64)
    cos, sin = angle.cos(), angle.sin()
    even, odd = pairs.unbind(1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], 1).flatten()


@every_kind
@torch.no_grad()
def test_it_is_the_definition_for_every_sentence_of_a_batch(positions, source_mask):
    translator = drawn(positions, source_mask, layers=2)
    source, target = cases.batch()
    logits = cases.forced(translator, source, target)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if positions == "sinusoidal" else EXACT  # its table is in float32
    for row, (s, t) in enumerate(zip(cases.SOURCE_LENGTHS, cases.TARGET_LENGTHS, strict=True)):
        expected = defined(translator, source[row, :s].tolist(), target[row, :t].tolist())
        assert_close(logits[row, :t], expected, **tolerance)


def invariant(translator):
    """Check: steps are the whole; padding, company and order change nothing; nobody sees a later target token."""
    source, target = cases.batch()
    whole = cases.forced(translator, source, target)
    assert_close(cases.stepped(translator, source, target), whole, **EXACT)
    padded = cases.forced(translator, F.pad(source, (0, 3)), F.pad(target, (0, 3)))
    assert_close(padded[:, : target.shape[1]], whole, **EXACT)
    turned_round = cases.forced(translator, source.flip(0), target.flip(0)).flip(0)
    assert_close(turned_round, whole, **EXACT)
    for row, (s, t) in enumerate(zip(cases.SOURCE_LENGTHS, cases.TARGET_LENGTHS, strict=True)):
        alone = cases.forced(translator, source[row : row + 1, :s], target[row : row + 1, :t])
        assert_close(alone[0], whole[row, :t], **EXACT)
    later = target.clone()
    later[:, 5] = 4 + (target[:, 5] + 1) % (cases.VOCABULARY - 4)
    changed = cases.forced(translator, source, later)
    assert torch.equal(changed[:, :5], whole[:, :5])
    assert not torch.equal(changed[0, 5:], whole[0, 5:])
    for _, _, attention in translator.sites():
        attention.tap = lambda call: None
    assert_close(cases.forced(translator, source, target), whole, **EXACT)


@every_kind
@torch.no_grad()
def test_padding_company_order_and_cached_keys_change_nothing_with_any_positions(positions, source_mask):
    invariant(drawn(positions, source_mask))


COMPANIONS = {  # fields without which a value is refused
    ("weights", "normalised"): {"attention.score": "elu_kernel"},
    ("weights", "identity"): {"attention.scale": "rsqrt"},
    ("maps", "raw"): {"attention.key_width": None},
    ("combine", "sum_wide"): {"attention.output": "raw"},
    ("bilinear_init", "identity"): {"attention.score": "bilinear"},
    ("bilinear_init", "xavier"): {"attention.score": "bilinear"},
    ("output", "raw"): {"attention.value_width": WIDTH // H},
}
NO_KEYS = ("location", "uniform", "fixed_random")
UNSCALED = ("rsqrt", "inverse", "inverse_rsqrt")
VALUES = [
    (axis, value)
    for axis, rows in AXES.items()
    if axis in AttentionConfig.model_fields and axis != "site"
    for value in rows
    if value != "hard"
] + [("groups", 1), ("exclude_self", True), ("equal_start", True), ("cap", 3.0), ("window", 0)]


def fields_of(axis, value):
    fields = {f"attention.{axis}": value} | COMPANIONS.get((axis, value), {})
    if (axis == "score" and value in NO_KEYS) or (axis, value) == ("maps", "raw"):
        fields["attention.key_width"] = None
    if axis in ("logit_init", "map_rate") and value in UNSCALED:
        fields["attention.scale"] = "none"
    if axis == "cap":
        fields["attention.logits"] = "cap"
    if axis in ("reach", "window"):
        fields |= {
            "attention.window": 2 if axis == "reach" and value != "global" else value if axis == "window" else None
        }
        fields["attention.reach"] = value if axis == "reach" else "local_m"
    return fields


@pytest.mark.parametrize("source_mask", MASKS)
@pytest.mark.parametrize(("axis", "value"), VALUES)
@torch.no_grad()
def test_padding_company_order_and_cached_keys_change_nothing_with_any_mechanism(axis, value, source_mask):
    invariant(drawn("sinusoidal", source_mask, **fields_of(axis, value)))


@pytest.mark.parametrize("source_mask", MASKS)
@pytest.mark.parametrize("score", ["location", "fixed_random"])
@torch.no_grad()
def test_slots_beyond_a_table_on_either_side_of_the_boundary_are_masked(score, source_mask):
    """The training sentences had four tokens: of seven source tokens, the four before the boundary are seen."""
    fields = cases.at({"positions": "none", "source_mask": source_mask, "attention.score": score, "layers": 1})
    translator = cases.model(cases.DECODER_ONLY, fields, lengths=cases.LENGTHS._replace(longest=4, typical=4))
    source, target = cases.batch()
    whole = cases.forced(translator, source, target)
    far, near = source.clone(), source.clone()
    far[0, 2], near[0, 3] = 4 + (source[0, 2] + 1) % 9, 4 + (source[0, 3] + 1) % 9
    assert torch.equal(cases.forced(translator, far, target), whole)
    assert not torch.equal(cases.forced(translator, near, target)[0], whole[0])
    assert_close(cases.forced(translator, source[:1], target[:1])[0], whole[0], **EXACT)


@pytest.mark.parametrize("positions", ["none", "rope", "alibi"])
@torch.no_grad()
def test_with_a_full_source_mask_the_source_is_that_of_the_transformers_encoder(positions):
    translator = drawn(positions, "full", layers=2)
    fields = {"positions": positions, "layers": 2, "attention.key_width": K}
    encoder = cases.model(cases.TRANSFORMER, cases.at(fields))
    stack = translator.state_dict()
    like = {f"encoder.{name.removeprefix('layers.')}": value for name, value in stack.items() if "layers." in name}
    like["source_embedding.weight"] = stack["source_embedding.weight"]
    assert not encoder.load_state_dict(like, strict=False).unexpected_keys
    states = {}
    encoder.encoder[-1].register_forward_hook(lambda module, given, out: states.update(encoder=out[0]))
    translator.layers[-1].register_forward_hook(lambda module, given, out: states.setdefault("stack", out[0]))
    source, _ = cases.batch()
    encoder.encode(source, source != PAD)
    translator.encode(source, source != PAD)
    for row, count in enumerate(cases.SOURCE_LENGTHS):  # padding stands before the source in one, after it in the other
        assert_close(states["stack"][row, -count:], states["encoder"][row, :count], **EXACT)


@torch.no_grad()
def test_joint_attention_to_source_slots_alone_is_cross_attention_over_the_source_of_its_layer():
    translator = drawn("none", "full")
    cross = cases.model(cases.TRANSFORMER, cases.at({"attention.key_width": K})).decoder[0].cross_attention
    joint = translator.layers[0].attention
    cross.load_state_dict(joint.state_dict())
    generator = torch.Generator().manual_seed(1)
    source = torch.randn(2, 7, WIDTH, generator=generator, dtype=torch.float64)
    target = torch.randn(2, 4, WIDTH, generator=generator, dtype=torch.float64)
    mask = torch.arange(7) >= torch.tensor([[0], [3]])
    memory = joint.extend(joint.remember(source, mask), target)
    shown = F.pad(mask, (0, 4))[:, None, None]
    position = torch.arange(7, 11)
    context, _ = joint(target, memory, View(shown, position))
    other, _ = cross(target, cross.remember(source, mask), View(mask[:, None, None], position))
    assert_close(context, other, **EXACT)


@every_kind
def test_a_causal_source_mask_hides_later_source_tokens_and_a_full_one_shows_them(positions, source_mask):
    translator = drawn(positions, source_mask)
    source, _ = cases.batch()
    states = []
    translator.layers[-1].register_forward_hook(lambda module, given, out: states.append(out[0]))
    with torch.no_grad():
        for token in (4, 5):
            source[0, 4] = token
            translator.encode(source, source != PAD)
    changed = (states[0] - states[1])[0].abs().sum(-1) > 0
    assert changed.tolist() == ([source_mask == "full"] * 4 + [True] * 3)


@pytest.mark.parametrize(("layers", "equal"), [(1, True), (2, False)])
@torch.no_grad()
def test_with_one_layer_both_source_masks_are_one_model_and_are_trained_alike(layers, equal):
    fields = {"model.family": "decoder_only", "model.layers": layers}
    first, second = (cases.forced(drawn(source_mask=mask, layers=layers), *cases.batch()) for mask in MASKS)
    texts = {trained(experiment_from(fields | {"model.source_mask": mask})) for mask in MASKS}
    assert (torch.equal(first, second), len(texts) == 1) == (equal, equal)


@torch.no_grad()
def test_in_one_causal_layer_without_positions_the_order_of_earlier_tokens_is_lost():
    translator = drawn("none", "causal", layers=1)
    source, target = cases.batch()
    order = torch.tensor([3, 0, 5, 1, 6, 2, 4])
    logits, turned_round = (cases.forced(translator, tokens[:1], target[:1]) for tokens in (source, source[:, order]))
    assert_close(turned_round, logits, **EXACT)
    ordered = drawn("alibi", "causal", layers=1)
    assert not torch.allclose(
        cases.forced(ordered, source[:1, order], target[:1]), cases.forced(ordered, source[:1], target[:1])
    )


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "t5"])
def test_parameters_and_operations_are_those_counted_by_hand(positions):
    n, d, f, h, k, s, t, vocabulary, longest = 2, 24, 40, 3, 5, 11, 7, 50, 31
    fields = {"family": "decoder_only", "width": d, "layers": n, "feedforward": f, "positions": positions}
    fields |= {"attention.heads": h, "attention.key_width": k}
    found = cost(experiment_from(cases.at(fields)).model, Sizes(vocabulary, cases.LENGTHS, s, t))
    site = n * (3 * k * d * h - k * d * h + d // h * d * h + d // h * d * h)  # W_Q, W_K; W_V, W_O of width D/H
    tables = {"learned": 2 * longest * d, "t5": 32 * h}.get(positions, 0)
    norms = n * 2 * 2 * d + 2 * d
    feedforward = n * (2 * d * f + f + d)
    assert found.parameters_attention == site
    assert found.parameters == site + tables + norms + feedforward + 3 * vocabulary * d + vocabulary
    pairs = s * s + t * (s + t)  # a mask saves no product
    projections = 2 * (s + t) * n * (2 * k * d * h + 2 * d * d)
    products = 2 * n * pairs * (h * k + d)
    assert found.parts["joint"].flops == projections + products
    assert found.parts["stack"].flops == 2 * (s + t) * n * 2 * d * f
    assert found.parts["output layer"].flops == 2 * t * vocabulary * d
    assert list(found.parts) == ["stack", "joint", "output layer"]


@torch.no_grad()
def test_gradients_reach_source_embeddings_in_the_order_of_the_batch():
    translator = drawn("none", "causal")
    source, target = cases.batch()
    seen = []
    translator.source_embedding.register_forward_hook(lambda module, given, out: seen.append(out))
    translator.encode(source, source != PAD)
    assert torch.equal(seen[0], translator.source_embedding.weight[source])
    calls = []
    translator.layers[0].attention.tap = calls.append
    cases.forced(translator, source, target)
    of_source, of_target = (call.origin for call in calls)
    assert of_target.shape == (3, 7 + 11, 7)
    for row, count in enumerate(cases.SOURCE_LENGTHS):
        token = [j - (7 - count) for j in range(7)]
        wanted = torch.tensor([[float(i == j) for i in range(7)] for j in token], dtype=torch.float64)
        assert torch.equal(of_source[row], wanted)
        assert torch.equal(of_target[row], F.pad(wanted, (0, 0, 0, 11)))


REFUSED = [
    ({"memory": "states"}, "model.memory: decoder_only has none, because the target reads the source's tokens"),
    ({"mixing": "attention"}, "model.mixing: decoder_only has none, because attention at site joint is all"),
    ({"factors": "split"}, "model.factors: decoder_only has none, because queries and values"),
    (
        {"attention.cross.score": "dot"},
        "model.attention.cross: expected joint, the one site of decoder_only, got cross",
    ),
    ({"attention.encoder_self.heads": 2}, "model.attention.encoder_self: expected joint"),
    ({"attention.reach": "hard"}, "model.attention.reach: hard draws one slot of the source"),
    ({"attention.joint.reach": "hard"}, "model.attention.joint.reach: hard draws one slot of the source"),
    ({"source_mask": "prefix"}, "model.source_mask: expected 'causal' or 'full', got 'prefix'"),
    ({"width": 13, "attention.heads": 1}, "model.width: expected an even width with sinusoidal positions, got 13"),
    ({"positions": "rope", "attention.score": "additive"}, "model.attention.score: expected dot or cosine"),
    ({"cell": "lstm"}, "model.cell: expected with model.family recurrent, got decoder_only"),
    ({"family": "transformer", "source_mask": "full"}, "model.source_mask: expected with model.family decoder_only"),
]


@pytest.mark.parametrize(("fields", "says"), REFUSED, ids=lambda given: str(given)[:40])
def test_what_means_nothing_is_refused_with_the_reason(fields, says):
    with pytest.raises(InputError) as caught:
        experiment_from({"model.family": "decoder_only"}, cases.at(fields))
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_sentence_beyond_learned_positions_is_refused_on_either_side():
    translator = cases.model(
        cases.DECODER_ONLY, {"model.positions": "learned"}, lengths=cases.LENGTHS._replace(longest=7)
    )
    source, target = cases.batch()
    assert translator.longest == 7
    assert cases.forced(translator, source, target[:, :7]).isfinite().all()
    for tokens in ((F.pad(source, (0, 1)), target[:, :7]), (source, target[:, :8])):
        with pytest.raises(ValueError, match="learned positions end at 7 tokens, and there are 8"):
            cases.forced(translator, *tokens)
    assert (target[:, 0] == BOS).all()


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed: make parity"
)
@torch.no_grad()
def test_with_learned_positions_it_is_gpt2():
    """GPT-2 of random weights, its function relu, no biases in the maps, and the two embeddings side by side."""
    from transformers import GPT2Config, GPT2LMHeadModel

    mine = drawn("learned", "causal", layers=2, **{"attention.key_width": WIDTH // H})
    names = {"n_layer": 2, "n_head": H, "n_embd": WIDTH, "n_inner": 29, "n_positions": 62}
    off = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, "tie_word_embeddings": False}
    config = GPT2Config(
        vocab_size=cases.VOCABULARY, activation_function="relu", attn_implementation="eager", **names, **off
    )
    theirs = GPT2LMHeadModel(config).double().eval()
    stack = theirs.transformer
    for block, layer in zip(stack.h, mine.layers, strict=True):
        site, inner = layer.attention, layer.feedforward[1]
        maps = (site.map_query, site.map_key, site.map_value)
        block.attn.c_attn.weight.copy_(torch.cat([part.weight.flatten(0, 1) for part in maps]).T)
        block.attn.c_proj.weight.copy_(site.combine.weight.flatten(0, 1))
        for dense in (block.attn.c_attn, block.attn.c_proj):
            dense.bias.zero_()
        for dense, linear in ((block.mlp.c_fc, inner.up), (block.mlp.c_proj, inner.down)):
            dense.weight.copy_(linear.weight.T)
            dense.bias.copy_(linear.bias)
        block.ln_1.load_state_dict(layer.attention_norm.state_dict())
        block.ln_2.load_state_dict(layer.feedforward[0].state_dict())
    stack.ln_f.load_state_dict(mine.norm.state_dict())
    theirs.lm_head.weight.copy_(mine.unembedding.weight)
    root = math.sqrt(WIDTH)
    stack.wpe.weight.copy_(root * torch.cat([mine.source_positions.weight, mine.target_positions.weight]))
    source, target = cases.batch()
    logits = cases.forced(mine, source, target)
    for row, (s, t) in enumerate(zip(cases.SOURCE_LENGTHS, cases.TARGET_LENGTHS, strict=True)):
        embedded = root * torch.cat([mine.source_embedding(source[row, :s]), mine.target_embedding(target[row, :t])])
        place = torch.arange(31 - s, 31 + t)[None]
        found = theirs(inputs_embeds=embedded[None], position_ids=place).logits[0, s:] + mine.unembedding.bias
        assert_close(logits[row, :t], found, **EXACT)


def test_alignments_and_masses_are_shares_of_the_weight_on_the_source_in_the_order_of_the_batch():
    """Computed again from the raw weights of the padded sequence, sentence by sentence."""
    translator = drawn("none", "full")
    source, target = cases.batch()
    wanted = F.pad(target[:, 1:], (0, 1))
    raw = []
    translator.layers[0].attention.tap = raw.append
    cases.forced(translator, source, target)
    of_source, of_target = raw
    call = observe(translator, Batch(source, source != PAD, target, wanted))["joint", 0]
    shares = over_source(call, 7)
    masses = []
    for row, (s, t) in enumerate(zip(cases.SOURCE_LENGTHS, cases.TARGET_LENGTHS, strict=True)):
        onto = of_target.weights[row, :, :t, 7 - s : 7]
        assert_close(shares[row, :, :t, :s], onto / onto.sum(-1, keepdim=True), **EXACT)
        assert not shares[row, :, :t, s:].any()
        masses.append(onto.sum(-1)[:, : t - 1])  # the last query of a sentence is padding here
        own = of_source.weights[row, :, 7 - s :, 7 - s :]
        assert_close(call.sources.over_tokens(7)[row, :, :s, :s], own, **EXACT)
        assert call.sources.visible_tokens()[row, 0, :s].sum().item() == s * s
    (found,) = diagnose({("joint", 0): call}, Batch(source, source != PAD, target, wanted), {})["joint"]
    assert found["source_mass"] == pytest.approx(torch.cat(masses, 1).mean(1).tolist(), rel=1e-6)
    assert (translator.site_reading("target"), translator.site_reading("source")) == ("joint", "joint")
