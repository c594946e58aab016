"""What is measured of a run, and a short one."""

import os

import pytest

from simulators.streams import camerabench, teaching
from simulators.streams.camerabench import bench, rss
from simulators.streams.servers import MjpegServer, has_ffmpeg
from simulators.streams.slides import painted
from tests.networks import extractor_bundle


def test_memory_is_held_to_the_second_tenth_of_a_run():
    grown = camerabench._growth([10.0] * 10 + [50.0] * 80 + [60.0] * 10)
    assert grown == {"early": 50.0, "late": 60.0, "largest": 60.0}
    assert camerabench._growth([5.0]) == {"largest": 5.0}
    assert rss(os.getpid()) > 1
    assert rss(2**22 + 1) == 0.0


@pytest.mark.skipif(not has_ffmpeg(), reason="ffmpeg is not installed")
def test_a_short_run_counts_frames_ages_and_cuts(tmp_path, monkeypatch):
    pytest.importorskip("av")
    monkeypatch.setattr(teaching, "EACH", 20)
    monkeypatch.setattr(camerabench, "DARK", 0.2)
    extractor_bundle(tmp_path / "x.pfb")
    taught = teaching.of_slides(tmp_path / "x.pfb", painted(8))
    server = MjpegServer(taught.slides, fps=100)
    row = bench(server, taught.bundle, 150, tmp_path, lambda words: None)
    assert row["frames"] >= 150
    assert [cut["lost_said"] for cut in row["cuts"]] == [1, 1]
    assert row["kinds"]["frame"] > 5
    assert row["age_s"]["median"] < 1
    assert row["own_age_s"]["largest"] <= 1
