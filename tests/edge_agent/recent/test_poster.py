"""A small picture for a home: only where it is wished, small, and gone with the wish."""

import io

import numpy as np
from PIL import Image

from edge_agent.recent import poster


def jpeg(width, height, kind="JPEG"):
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


def test_it_is_made_small_where_it_is_wished_and_nowhere_else(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    poster.show(bundle, jpeg(64, 48))
    assert (poster.is_wished(bundle), poster.stamp(bundle), poster.read(bundle)) == (False, 0, b"")
    poster.wish(bundle, True)
    poster.show(bundle, jpeg(1600, 1200))
    data = poster.read(bundle)
    assert 0 < len(data) <= poster.LARGEST
    assert max(Image.open(io.BytesIO(data)).size) <= poster.SIDE
    assert poster.stamp(bundle)
    poster.wish(bundle, False)
    assert (poster.stamp(bundle), poster.read(bundle)) == (0, b"")


def test_what_is_no_picture_leaves_the_one_before(tmp_path):
    bundle = tmp_path / "fleet.pfb"
    poster.wish(bundle, True)
    poster.show(bundle, jpeg(40, 40))
    before = poster.read(bundle)
    for data in (b"", b"%!PS", jpeg(40, 40)[:200], jpeg(40, 40, "DDS")):
        poster.show(bundle, data)
        assert poster.read(bundle) == before
