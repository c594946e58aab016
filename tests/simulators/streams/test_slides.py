"""Pictures that tell the time."""

import pytest

from protofleet.errors import UsageError
from simulators.streams.slides import HEIGHT, SLOT, WIDTH, Slides, painted


def test_the_clock_says_which_one_is_shown():
    slides = painted(5)
    assert [slides.at(100 * SLOT + k * SLOT + 0.01) for k in range(7)] == [0, 1, 2, 3, 4, 0, 1]


def test_a_class_says_how_old_its_frame_is_at_least():
    slides = painted(5)
    now = 1000 * SLOT + 0.1  # number 0 is shown, and was for 0.1 s
    assert slides.age("class-0", now) == 0.0
    assert slides.age("class-4", now) == pytest.approx(0.1)
    assert slides.age("class-3", now) == pytest.approx(0.1 + SLOT)
    assert slides.age("class-1", now) == pytest.approx(0.1 + 3 * SLOT)


def test_a_server_reads_them_one_after_the_other(tmp_path):
    slides = painted(4)
    data = slides.write(tmp_path / "slides").read_bytes()
    size = WIDTH * HEIGHT * 3
    assert data[size : 2 * size] == slides.pictures[1].tobytes()


def test_two_of_one_class_would_tell_nothing():
    four = painted(4)
    with pytest.raises(UsageError):
        Slides(four.pictures, ("a", "a", "b", "c"))
