"""What a device leaves to be sent: the same bytes for the same samples, a photo looked at once."""

import numpy as np
import pytest

from edge_agent.contributing.rules import SpeechRules
from edge_agent.contributing.statement import (
    Speaker,
    SpeechSettings,
    Statement,
    forecasts,
    labelled,
    take_back,
)
from edge_agent.data.labelled import LabelledSample
from edge_agent.inference.bundle import open_bundle
from edge_agent.inference.classifier import Classifier
from protofleet import wire
from protofleet.errors import DataError
from protofleet.exchange import contributed, learned
from protofleet.exchange.contributed import Claim
from protofleet.statistics import contribution as contributions
from protofleet.statistics import counts
from protofleet.statistics.contribution import Grid, fold
from protofleet.statistics.held_out import Samples
from protofleet.values.sums import merge
from tests.networks import extractor_bundle, pictures

SPEAKER = Speaker("f", "camera", "r")
SETTINGS = SpeechSettings(SpeechRules(5, 5), 8)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "x.pfb"
    extractor_bundle(path)
    return path


@pytest.fixture(scope="module")
def classifier(bundle):
    return Classifier(bundle)


def samples(*stretches):
    """`(label, seed, count)`: so many pictures of a colour."""
    return [
        LabelledSample(f"{seed:032x}{n:032x}", label, lambda image=image: image)
        for label, seed, count in stretches
        for n, image in enumerate(pictures(seed, count))
    ]


def stated(bundle, folder, classifier, have, speaker=SPEAKER):
    statement = Statement(folder / "b.pfb", open_bundle(bundle))
    looked_at = []

    def embed(images):
        looked_at.append(len(images))
        return classifier.embed(images)

    statement.embed(have, embed)
    return statement, statement.speak(have, SETTINGS, speaker), len(looked_at)


def test_a_new_photo_costs_one_look_and_nothing_is_said_before_five_changed(
    bundle, classifier, tmp_path
):
    few = samples(("a", 1, 8), ("b", 2, 6), ("c", 3, 4))
    statement, spoken, looks = stated(bundle, tmp_path, classifier, few)
    assert (spoken.samples, spoken.classes, spoken.short) == (14, ("a", "b"), {"c": 4})
    assert (spoken.new, looks) == (True, 18)
    # what is not spoken of is this device's own all the same
    assert labelled(statement.folder) == {"a": 8, "b": 6, "c": 4}
    first = statement.contribution.read_bytes()
    message = contributed.read(first)
    assert message.claim == Claim(statement.lineage, ("a", "b"))
    assert message.contribution.means.counts.tolist() == [8, 6]
    mean = classifier.embed(pictures(1, 8)).mean(0)
    assert np.allclose(message.contribution.means.vectors[0], mean, atol=2e-3)
    # four more of one class: they are looked at, and not spoken of
    more = samples(("a", 1, 12), ("b", 2, 7), ("c", 3, 4))
    statement, spoken, looks = stated(bundle, tmp_path, classifier, more)
    assert (spoken.samples, spoken.new, looks) == (14, False, 5)
    assert statement.contribution.read_bytes() == first
    # a fifth, and the class that did not change is what it was
    most = samples(("a", 1, 13), ("b", 2, 7), ("c", 3, 4))
    statement, spoken, looks = stated(bundle, tmp_path, classifier, most)
    assert (spoken.samples, spoken.new, looks) == (19, True, 1)
    again = contributed.read(statement.contribution.read_bytes())
    assert again.contribution.means.counts.tolist() == [13, 6]
    assert np.array_equal(
        again.contribution.means.vectors[1], message.contribution.means.vectors[1]
    )


def test_the_same_samples_have_the_same_bytes_and_another_run_is_told_anew(
    bundle, classifier, tmp_path
):
    have = samples(("a", 1, 6), ("b", 2, 6))
    one, _, _ = stated(bundle, tmp_path / "one", classifier, have)
    two, _, _ = stated(bundle, tmp_path / "two", classifier, have)
    assert one.contribution.read_bytes() == two.contribution.read_bytes()
    three, spoken, looks = stated(
        bundle, tmp_path / "two", classifier, have, Speaker("f", "camera", "other")
    )
    assert (spoken.new, looks) == (True, 0)
    messages = [wire.decode(s.contribution.read_bytes()) for s in (one, three)]
    assert messages[0].digest == messages[1].digest
    assert messages[1].envelope.run == "other"


def test_with_the_covariance_off_a_message_says_no_more_of_the_spread_than_its_size(
    bundle, classifier, tmp_path
):
    have = samples(("a", 1, 6), ("b", 2, 6))
    statement, _, _ = stated(bundle, tmp_path, classifier, have)
    opened = contributed.read(statement.contribution.read_bytes())
    even = SpeechSettings(SETTINGS.rules, SETTINGS.rank, "off")
    assert statement.speak(have, even, SPEAKER).new
    said = contributed.read(statement.contribution.read_bytes())
    assert (said.contribution.is_even, opened.contribution.is_even) == (True, False)
    # A message that is there already, of a class that was enrolled, is made so before it goes.
    mended = contributed.read(opened.evened())
    assert (mended.claim, mended.contribution.means) == (said.claim, said.contribution.means)
    assert mended.contribution.residual == pytest.approx(said.contribution.residual, rel=1e-2)
    assert not statement.speak(have, even, SPEAKER).new


def test_a_file_that_cannot_be_read_is_named_and_stops_nobody(bundle, classifier, tmp_path):
    def torn():
        raise DataError("torn.png: not a readable image")

    have = [*samples(("a", 1, 5)), LabelledSample("f" * 64, "a", torn)]
    _, spoken, _ = stated(bundle, tmp_path, classifier, have)
    assert (spoken.samples, spoken.broken) == (5, ("torn.png: not a readable image",))


def test_counts_are_those_of_the_samples_that_were_said(bundle, classifier, tmp_path):
    have = samples(("a", 1, 9), ("b", 2, 7))
    statement, _, _ = stated(bundle, tmp_path, classifier, have)
    with pytest.raises(DataError, match="another extractor"):
        statement.count(total_of(statement, "extractor:other"), SPEAKER)
    with pytest.raises(DataError, match="does not have this device's samples yet"):
        statement.count(total_of(statement, statement.lineage, ("z", "a")), SPEAKER)
    # a fleet that has another class before ours
    payload = total_of(statement, statement.lineage, ("z", "a", "b"))
    assert statement.count(payload, SPEAKER) == "t"
    message = contributed.read(statement.counts.read_bytes())
    assert (message.claim.total, message.counts.samples) == ("t", 16)
    _, moments = contributed.read_total(payload)
    features = np.concatenate([classifier.embed(pictures(1, 9)), classifier.embed(pictures(2, 7))])
    labels = np.repeat([1, 2], [9, 7])
    own = contributed.read(statement.contribution.read_bytes()).contribution.keyed([1, 2])
    due = counts.count(moments, Samples.of(features, labels, own))
    assert np.array_equal(message.counts.losses, due.losses)
    left = forecasts(statement.folder)
    assert (left["total"], set(left["classes"])) == ("t", {"a", "b"})
    assert left["classes"]["a"]["tested"] == 9


def test_a_photo_that_its_owner_took_back_takes_its_class_along_until_enough_changed(
    bundle, classifier, tmp_path
):
    have = samples(("a", 1, 8), ("b", 2, 6))
    statement, _, _ = stated(bundle, tmp_path, classifier, have)
    first = statement.contribution.read_bytes()
    take_back(tmp_path / "b.pfb", ["0" * 64])  # it was never said
    assert not statement.speak(have, SETTINGS, SPEAKER).new
    take_back(tmp_path / "b.pfb", [have[3].key])
    rest = have[:3] + have[4:]
    spoken = statement.speak(rest, SETTINGS, SPEAKER)
    assert (spoken.new, spoken.classes, spoken.short) == (True, ("b",), {"a": 7})
    assert contributed.read(statement.contribution.read_bytes()).claim.classes == ("b",)
    assert not statement.speak(rest, SETTINGS, SPEAKER).new
    # four more differ: a is said again, without that one
    more = samples(("a", 1, 12), ("b", 2, 6))
    more = [sample for sample in more if sample.key != have[3].key]
    statement, spoken, _ = stated(bundle, tmp_path, classifier, more)
    assert (spoken.new, spoken.classes, spoken.samples) == (True, ("a", "b"), 17)
    # put where it was before anything else changed, it is what it was
    other, _, _ = stated(bundle, tmp_path / "other", classifier, have)
    take_back(tmp_path / "other" / "b.pfb", [have[3].key])
    other.speak(rest, SETTINGS, SPEAKER)
    other.speak(have, SETTINGS, SPEAKER)
    assert other.contribution.read_bytes() == first


def test_who_takes_everything_back_says_so(bundle, classifier, tmp_path):
    have = samples(("a", 1, 5))
    statement, _, _ = stated(bundle, tmp_path, classifier, have)
    total = total_of(statement, statement.lineage)
    take_back(tmp_path / "b.pfb", [have[0].key])
    spoken = statement.speak(have[1:], SETTINGS, SPEAKER)
    assert (spoken.new, spoken.classes, spoken.samples) == (True, (), 0)
    message = contributed.read(statement.contribution.read_bytes())
    assert isinstance(message, contributed.Withdrawal)
    assert message.claim == Claim(statement.lineage)
    assert not statement.speak(have[1:], SETTINGS, SPEAKER).new
    with pytest.raises(DataError, match="nothing was contributed"):
        statement.count(total, SPEAKER)
    fresh = samples(("a", 1, 10))[1:]
    statement, spoken, _ = stated(bundle, tmp_path, classifier, fresh)
    assert (spoken.new, spoken.samples) == (True, 9)


def total_of(statement, lineage, names=("a", "b")):
    """What the statement says, and of every class forty samples more."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40 * len(names), 8)), np.arange(40 * len(names)) % len(names)
    total = fold(contributions.contribution(x, y, Grid(), 8), Grid())
    own = contributed.read(statement.contribution.read_bytes())
    if set(own.claim.classes) <= set(names):
        ids = [names.index(name) for name in own.claim.classes]
        total = merge(total, fold(own.contribution.keyed(ids), Grid()))
    state, _ = learned.state(total)
    claim = Claim(lineage, names, total="t")
    return contributed.write_total(claim, state.shared, wire.Envelope("global", "f", "r"))
