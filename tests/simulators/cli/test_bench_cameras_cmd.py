from click.testing import CliRunner

from simulators.cli.bench_cameras_cmd import cameras, table
from simulators.streams import servers


def test_what_cannot_be_served_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "has_ffmpeg", lambda: False)
    outcome = CliRunner().invoke(cameras, ["--source", "mjpeg"])
    assert "mjpeg cannot be served here" in str(outcome.exception)


def test_the_table_says_what_came_of_each_source():
    row = {
        "frames": 1000,
        "seconds": 12.3,
        "kinds": {"frame": 400, "answer": 3},
        "cpu_s": 4.2,
        "age_s": {"largest": 0.2},
        "own_age_s": {"largest": 0.1},
        "older_than_1_s": 0,
        "watch_mb": {"early": 90.0, "late": 90.1},
        "decoder_mb": {"largest": 55.0},
        "cuts": [{"lost_said": 1, "back_after_s": 2.0}],
    }
    words = table({"rtsp": row})
    assert "rtsp: 1,000 frames in 12 s, 400 looked at, 3 answers, 4 s of processor time" in words
    assert "older than 1 s: 0" in words
    assert "cut: said 1 times" in words
