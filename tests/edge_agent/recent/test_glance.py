"""What is seen now is read whole, or there is nothing."""

from edge_agent.recent import glance
from tests.edge_agent.recent.seeing import sighting


def test_the_newest_picture_and_its_feature_are_read_as_they_were_shown(tmp_path):
    bundle = tmp_path / "x.pfb"
    assert glance.read(bundle) is None
    for n in range(2):
        glance.show(bundle, sighting(n))
    seen = glance.read(bundle)
    assert (seen.picture, seen.at, seen.source) == (sighting(1).picture, 1001.0, "door")
    assert seen.feature.tolist() == sighting(1).feature.tolist()


def test_a_damaged_file_is_as_none(tmp_path):
    bundle = tmp_path / "x.pfb"
    glance.show(bundle, sighting())
    for data in (b"", b"{}\n", b"[]\nx", b'{"at": "x"}\n', b"\xff" * 100):
        glance.glance_file(bundle).write_bytes(data)
        assert glance.read(bundle) is None
