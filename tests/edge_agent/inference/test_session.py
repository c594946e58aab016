"""An extractor takes the points that are its own, and says what it is not given to judge."""

from dataclasses import replace

import numpy as np
import pytest

from edge_agent.inference.classifier import Classifier, Mismatch
from edge_agent.inference.session import BLOCK, block_of
from export.contents import npz
from export.writer import Wanted, export, write
from protofleet import wire
from protofleet.exchange import published
from protofleet.exchange.archive import BundleError
from protofleet.exchange.published import About, Bank
from protofleet.values.prototypes import Head, Mixtures, Prototypes
from tests.bundles import device, digits
from tests.knowing import knowing
from tests.networks import FILTERS, extractor_bundle, pictures


@pytest.fixture(scope="module")
def made():
    return export(device(), Wanted(by="prototype"))


@pytest.fixture
def bundle(made, tmp_path):
    write(made, tmp_path / "bundle")
    return tmp_path / "bundle"


def message_of(bank):
    return published.write(bank, wire.Envelope("global", "f", "r", round=9), "float32")


def test_prototypes_that_do_not_fit_are_refused_and_the_running_ones_stay(bundle):
    classifier = Classifier(bundle)
    before = classifier.loaded
    about, points = before.bank.about, before.bank.points
    narrow = Prototypes(points.classes, points.vectors[:, :5])
    for wrong, words in (
        (message_of(Bank(About("run:f/other", about.classes), points)), "of run:f/other"),
        (
            message_of(Bank(About("run:f/other", about.classes, "ab" * 32), points)),
            "fetch the bundle abababab",
        ),
        (message_of(Bank(about, narrow)), "5 numbers each"),
        (message_of(Bank(about, Prototypes([], np.zeros((0, points.dim))))), "not one class"),
        (b"\xa0", "no prototypes"),
        (bundle.joinpath("prototypes.cbor").read_bytes()[:-1], "no prototypes"),
    ):
        with pytest.raises(Mismatch, match=words):
            classifier.swap(wrong)
        assert classifier.loaded is before


def test_answers_come_in_the_order_of_the_samples_whatever_the_block(bundle):
    classifier = Classifier(bundle)
    x = digits().x[: 2 * BLOCK + 3]
    whole = classifier.look(x)
    alone = [classifier.look(x[i : i + 1]) for i in (0, BLOCK - 1, BLOCK, 2 * BLOCK + 2)]
    assert len(whole.best) == len(x)
    for i, one in zip((0, BLOCK - 1, BLOCK, 2 * BLOCK + 2), alone, strict=True):
        assert np.allclose(whole.scores[i], one.scores[0], rtol=1e-5, atol=1e-5)


def test_an_answer_ranks_its_classes_and_knows_their_distances(bundle):
    answer = Classifier(bundle).look(digits().x[:5])
    for row in range(5):
        ranked = answer.top(row, 3)
        assert ranked[0][0] == answer.best[row]
        assert [score for _, score in ranked] == sorted(answer.scores[row], reverse=True)[:3]
        nearest = answer.labels[int(answer.distances[row].argmin())]
        assert nearest == answer.best[row]
    assert (answer.distances >= 0).all()


def test_a_class_without_points_is_no_answer(bundle):
    classifier = Classifier(bundle)
    few = published.without(classifier.loaded.bank, ["3", "7"])
    classifier.use(few, "few")
    assert classifier.loaded.labels == [c for c in "0123456789" if c not in "37"]
    assert classifier.look(digits().x[:20]).scores.shape == (20, 8)


def test_unknown_things_are_told_by_check_samples_only(made, tmp_path):
    write(export(device(), Wanted(by="prototype", calibration=False)), tmp_path / "bare")
    assert Classifier(tmp_path / "bare").loaded.threshold is None
    with pytest.raises(BundleError, match="nothing to tell unknown things by"):
        Classifier(str(tmp_path / "bare"), unknown=True)


@pytest.fixture(scope="module")
def extractor(tmp_path_factory):
    return extractor_bundle(tmp_path_factory.mktemp("extractor") / "x.pfb")


def test_an_extractor_sees_and_answers_nothing_until_it_has_classes(extractor):
    classifier = Classifier(extractor)
    x = pictures(1)
    empty = classifier.look(x)
    assert (empty.best, empty.labels, empty.scores.shape) == ([None] * 6, [], (6, 0))
    assert classifier.embed(x).shape == (6, FILTERS)
    lineage = extractor.manifest.lineages[0]
    means = np.stack([classifier.embed(pictures(seed)).mean(0) for seed in (1, 2)])
    bank = Bank(About(lineage, ("one", "two")), Prototypes(np.arange(2), means))
    classifier.swap(message_of(bank))
    assert classifier.look(pictures(2)).best == ["two"] * 6
    classifier.swap(message_of(extractor.published.bank))
    assert classifier.look(x).best == [None] * 6


def test_an_extractor_takes_a_heads_rows_as_well(extractor):
    classifier, lineage = Classifier(extractor), extractor.manifest.lineages[0]
    features = classifier.embed(pictures(1))
    head = Head(np.arange(2), np.eye(2, FILTERS, dtype=np.float32), np.array([0.5, 0.0]))
    classifier.swap(message_of(Bank(About(lineage, ("one", "two")), head)))
    answer = classifier.look(pictures(1))
    assert np.allclose(answer.scores, features[:, :2] + [0.5, 0], atol=1e-5)
    others = Mixtures([0], [1.0], np.zeros((1, FILTERS)), np.ones((1, FILTERS)), [3])
    with pytest.raises(Mismatch, match="by prototypes, these are mixtures"):
        classifier.swap(message_of(Bank(About(lineage, ("one",)), others)))


def test_what_a_fleet_calibrated_is_a_probability_and_may_be_unknown(extractor):
    x = np.concatenate([pictures(seed, 40) for seed in (1, 2, 3)])
    plain, asked = Classifier(extractor), Classifier(extractor, unknown=True)
    features = plain.embed(x)
    bank = knowing(extractor.manifest.lineages[0], "abc", [(features, np.arange(120) // 40)])
    others = np.concatenate([x[::10], *(pictures(seed, 1) for seed in range(4, 24))])
    for classifier in (plain, asked):
        classifier.swap(message_of(bank))
    answer, head, sure = plain.look(others), bank.points, bank.about.calibration
    scores = answer.features.astype(np.float64) @ head.weight.T.astype(np.float64) + head.bias
    assert np.allclose(answer.scores, scores, rtol=1e-12)
    assert np.allclose(answer.probabilities, sure.shares(scores), atol=1e-9)
    assert np.array_equal(answer.unknown, sure.unknown(scores))
    assert answer.unknown[:12].mean() < 0.3 < answer.unknown[12:].mean()
    # The label stays where nobody asked for unknown things to have none.
    assert None not in answer.best
    assert [label is None for label in asked.look(others).best] == answer.unknown.tolist()
    # Before anybody counted nothing is called unknown, and asking for it is no reason to stop.
    bank = knowing(bank.about.lineage, "abc", [(features, np.arange(120) // 40)], counted=False)
    asked.swap(message_of(bank))
    answer = asked.look(others)
    assert answer.unknown is None
    assert answer.probabilities.sum(1) == pytest.approx(1)
    assert None not in answer.best


def test_an_extractor_is_tested_by_its_features(extractor):
    Classifier(extractor)
    files = dict(extractor.files)
    arrays = extractor.arrays("selftest.npz")
    changed = npz(arrays | {"feature": arrays["feature"] * 1.01})
    broken = replace(extractor, files=files | {"selftest.npz": changed})
    with pytest.raises(BundleError, match="self-test fails: features differ by"):
        Classifier(broken)
    none = replace(extractor, files=files | {"selftest.npz": npz({"image": arrays["image"]})})
    with pytest.raises(BundleError, match="inputs and features are due"):
        Classifier(none)


@pytest.mark.parametrize(
    ("shape", "most"), [((8, 8, 1), 64), ((32, 32, 3), 32), ((224, 224, 3), 1), ((6,), 64)]
)
def test_large_images_are_computed_few_at_a_time(shape, most):
    assert block_of(shape) == most


@pytest.mark.parametrize("number", [3e38, -2e15])
def test_points_of_which_no_score_would_be_a_number_are_refused(bundle, number):
    classifier = Classifier(bundle)
    before, points = classifier.loaded, classifier.loaded.bank.points
    large = Prototypes(points.classes, np.full_like(points.vectors, number))
    with np.errstate(all="ignore"), pytest.raises(Mismatch, match="no score of them"):
        classifier.swap(message_of(Bank(before.bank.about, large)))
    assert classifier.loaded is before
