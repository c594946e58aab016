import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KNeighborsClassifier

from protofleet.values import nearest
from protofleet.values.prototypes import Mixtures, Prototypes


def draw(seed, n=40, p=7, d=5, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, (n, d)).astype(np.float32), rng.normal(shift, 1, (p, d)).astype(
        np.float32
    )


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1e3, -1e5]))
def test_distances_agree_with_scipy_also_far_from_the_origin(seed, shift):
    x, p = draw(seed, shift=shift)
    assert np.allclose(
        nearest.squared_distances(x, p), cdist(x, p, "sqeuclidean"), rtol=1e-9, atol=1e-9
    )
    assert np.allclose(nearest.cosines(x, p), 1 - cdist(x, p, "cosine"), atol=1e-9)


@pytest.mark.parametrize(("metric", "name"), [("euclidean", "euclidean"), ("cosine", "cosine")])
def test_the_nearest_of_several_per_class_is_scikit_learns(metric, name):
    x, p = draw(3, n=300, p=12)
    classes = np.arange(12) % 4
    scores = nearest.prototype_scores(x, Prototypes(classes, p), 6, metric)
    theirs = KNeighborsClassifier(1, metric=name, algorithm="brute").fit(p, classes).predict(x)
    assert np.array_equal(nearest.best(scores), theirs)
    assert np.isneginf(scores[:, 4:]).all()


def test_an_answer_among_some_classes_and_none_at_all():
    x, p = draw(1, n=50, p=3)
    scores = nearest.prototype_scores(x, Prototypes([0, 1, 2], p), 5)
    assert set(nearest.best(scores, [1, 2])) <= {1, 2}
    assert set(nearest.best(scores, [4])) == {-1}


def test_without_prototypes_there_is_no_answer():
    x, _ = draw(1, n=5)
    none = Prototypes(np.zeros(0, np.int64), np.zeros((0, 5), np.float32))
    assert nearest.best(nearest.prototype_scores(x, none, 5)).tolist() == [-1] * 5


def test_mixture_likelihood_agrees_with_scipy_and_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(2, 1, (60, 4)).astype(np.float32)
    models = [
        GaussianMixture(3, covariance_type="diag", random_state=c).fit(rng.normal(c, 1, (200, 4)))
        for c in (0, 1)
    ]
    parts = [
        (np.full(3, c), m.weights_, m.means_, m.covariances_)
        for c, m in zip((0, 3), models, strict=True)
    ]
    mixtures = Mixtures(
        *(np.concatenate(column) for column in zip(*parts, strict=True)), np.array([200, 200])
    )
    scores = nearest.mixture_scores(x, mixtures, 5)
    for c, model in zip((0, 3), models, strict=True):
        each = [
            multivariate_normal(m, np.diag(v)).logpdf(x)
            for m, v in zip(model.means_, model.covariances_, strict=True)
        ]
        assert np.allclose(
            scores[:, c], logsumexp(np.array(each).T + np.log(model.weights_), axis=1), rtol=1e-4
        )
        assert np.allclose(scores[:, c], model.score_samples(x.astype(np.float64)), rtol=1e-4)
    assert np.isneginf(scores[:, [1, 2, 4]]).all()
