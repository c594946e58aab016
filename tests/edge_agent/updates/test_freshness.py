"""Whether anything new lies beside a bundle."""

from edge_agent.updates import cache
from edge_agent.updates.freshness import Freshness


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
