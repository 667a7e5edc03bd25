"""The figure that explains the scale, against Jacobians written out."""

import numpy as np

import study
from study.analysis.figures import softmax


def test_entropy_largest_weight_and_gradient_by_definition():
    frame = softmax.table(keys=3).set_index(["scale", "d"])
    random = np.random.default_rng(1)
    queries, keys = random.normal(size=(softmax.DRAWS, 8)), random.normal(size=(softmax.DRAWS, 3, 8))
    found = []
    for query, some in zip(queries, keys, strict=True):
        weights = np.exp(some @ query / np.sqrt(8))
        weights /= weights.sum()
        jacobian = np.diag(weights) - np.outer(weights, weights)
        found.append([-(weights @ np.log(weights)) / np.log(3), weights.max(), np.linalg.norm(jacobian)])
    np.testing.assert_allclose(frame.loc[("1/√d", 8), list(softmax.PANELS)], np.mean(found, axis=0), rtol=1e-9)


def test_without_a_scale_the_gradient_fades_and_with_one_it_does_not():
    gradient = softmax.table()["gradient"].set_axis([*map(tuple, softmax.table()[["scale", "d"]].to_numpy())])
    assert gradient["1", 1024] < 0.2 * gradient["1", 2]
    assert abs(gradient["1/√d", 1024] / gradient["1/√d", 2] - 1) < 0.1
    assert len(study.softmax(4).axes) == 3
