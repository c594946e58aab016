"""A picture of curves."""

from PIL import Image

from simulators.photos.tapsplot import taps_picture


def test_curves_and_live_points_are_drawn(tmp_path):
    rows = [{"taps": n, "accuracy": n / 100, "spread": 0.01} for n in (5, 10, 15)]
    answer = {
        "choices": {"queue": rows, "random": rows},
        "live": {"points": [{"taps": 5, "accuracy": 0.4}]},
    }
    taps_picture(answer, tmp_path / "plots" / "a.png")
    with Image.open(tmp_path / "plots" / "a.png") as picture:
        assert picture.size == (720, 440)
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20
