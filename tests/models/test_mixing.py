"""The encoder's convolution, and positions."""

import math

import model_cases as cases
import pytest
import torch

from study.attention import Lengths
from study.attention.mixing import Convolution
from study.attention.positions import sinusoids
from study.config import Transformer
from study.models import build
from study.models.search import beam_search
from study.models.translator import PAD

D, LONGEST = 5, 7
SOURCE, TARGET = cases.batch()


def model(**fields):
    return cases.model(cases.TRANSFORMER, cases.at(fields), lengths=Lengths(LONGEST, 5))


@pytest.mark.parametrize("width", [1, 2, 3, 11])
def test_convolution_by_hand(width):
    convolution = Convolution(D, width).double()
    assert convolution.weight.numel() == width * D**2
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        convolution.weight.normal_(generator=generator)
    mask = SOURCE != PAD
    x = torch.randn(*mask.shape, D, generator=generator, dtype=torch.float64)
    got, _ = convolution(x, convolution.remember(x, mask), None)
    for b, length in enumerate(cases.SOURCE_LENGTHS):
        for s in range(length):
            wanted = torch.zeros(D, dtype=torch.float64)
            for j in range(width):
                at = s + j - (width - 1) // 2
                if 0 <= at < length:
                    wanted += convolution.weight[:, :, j] @ x[b, at]
            torch.testing.assert_close(got[b, s], wanted)


def test_sinusoids_are_interleaved_as_their_formula_says():
    """ω_0 = 1 and ω_1 = 10000^(−2/4) = 1/100 at width 4."""
    t = 3
    row = sinusoids(t, 1, 4, torch.device("cpu"))[0].tolist()
    assert row == pytest.approx([math.sin(t), math.cos(t), math.sin(t / 100), math.cos(t / 100)], rel=1e-6)


def test_learned_positions_are_rows_of_a_table():
    translator = model(positions="learned")
    positions = translator.get_submodule("target_positions")
    assert positions.weight.shape == (LONGEST, cases.WIDTH)
    zeros = positions(2, torch.zeros(1, 3, cases.WIDTH, dtype=torch.float64))
    torch.testing.assert_close(zeros[0], positions.weight[2:5] * cases.WIDTH**0.5)
    assert not translator.get_parameter("source_positions.weight").equal(positions.weight)


def test_learned_positions_end_with_the_training_sentences():
    translator = model(positions="learned")
    assert translator.longest == LONGEST
    long = torch.full((1, LONGEST + 1), 5)
    with pytest.raises(ValueError, match="end at 7 tokens, and there are 8"):
        translator.encode(long, long != PAD)
    with torch.no_grad():  # a decoder that never stops by itself
        translator.get_parameter("unembedding.bias")[3] = -1e9
    found = beam_search(translator.float(), SOURCE, SOURCE != PAD, beam=3, length_penalty=1.0, limit=20)
    assert [len(tokens) for tokens in found] == [LONGEST] * 3
    with pytest.raises(ValueError, match="build with their lengths"):
        build(Transformer(positions="learned"), cases.VOCABULARY, 1)
