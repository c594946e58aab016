"""Whether anything new lies beside a bundle."""

from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from edge_agent.updates.freshness import Freshness, kept_by_daemon
from edge_agent.updates.uses import AnswerCount, UseCount, read_uses
from protofleet.exchange import archive
from protofleet.util.files import lock
from simulators.rollouts.variants import write_variant


def test_what_a_daemon_or_a_person_left_is_noticed_once(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    fresh = Freshness(bundle)
    assert not fresh.changed()
    for file in (cache.state_file(bundle), cache.total_file(bundle)):
        file.write_bytes(b"x")
        assert fresh.changed()
        assert not fresh.changed()
    cache.enrolled_folder(bundle).mkdir()
    assert fresh.changed()
    cache.state_file(bundle).unlink()
    assert fresh.changed()
    assert not fresh.changed()


def test_a_bundle_that_a_daemon_replaced_is_in_use(tmp_path):
    bundle = write_variant("first", tmp_path / "fleet.pfb", "f")
    classifier, uses, fresh = Classifier(bundle), AnswerCount(bundle), Freshness(bundle)
    write_variant("good", bundle, "f")
    assert fresh.changed()
    fresh.settle(classifier, uses)
    assert classifier.bundle.digest == archive.name_of(bundle)
    assert classifier.bundle.manifest.backbone == "good"
    assert read_uses(bundle) == UseCount(classifier.bundle.digest, 1, 0, 0)
    # what cannot be opened is no reason to stop
    bundle.write_bytes(b"damaged")
    fresh.settle(classifier, uses)
    assert classifier.bundle.manifest.backbone == "good"


def test_a_daemons_bundle_is_kept_by_it_as_long_as_it_runs(tmp_path):
    assert not kept_by_daemon(tmp_path / "fleet.pfb")
    with lock(tmp_path):
        assert kept_by_daemon(tmp_path / "fleet.pfb")
        assert not kept_by_daemon(tmp_path / "other.pfb")
    assert not kept_by_daemon(tmp_path / "fleet.pfb")
