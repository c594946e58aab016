import pytest

from protofleet.errors import TrustError
from protofleet.trust.sequence import BLOCK, COMMAND, WILL, Numbers, Sequence


def test_numbers_rise_over_lives_that_end_anyhow(tmp_path):
    first = Sequence(tmp_path, wall=lambda: 5.0)
    numbers = [first.next() for _ in range(3)]
    assert numbers == [5000, 5001, 5002]
    first.close()  # as a kill does: nothing is written at the end
    second = Sequence(tmp_path, wall=lambda: 0.0)  # and the clock was lost with the power
    assert second.next() == 5000 + BLOCK
    for _ in range(BLOCK + 5):
        last = second.next()
    second.close()
    assert Sequence(tmp_path, wall=lambda: 0.0).next() > last


def test_a_file_that_was_lost_is_made_up_for_by_the_clock(tmp_path):
    first = Sequence(tmp_path, wall=lambda: 5.0)
    first.next()
    first.close()
    (tmp_path / "lane-0/next").unlink()
    assert Sequence(tmp_path, wall=lambda: 6.0).next() == 6000


def test_one_process_gives_out_the_numbers_of_a_lane(tmp_path):
    held = Sequence(tmp_path)
    with pytest.raises(TrustError, match="in use by another process"):
        Sequence(tmp_path)
    assert Sequence(tmp_path, COMMAND).lane == COMMAND
    held.close()
    (tmp_path / "lane-0/next").write_text("x")
    with pytest.raises(TrustError, match="holds no number"):
        Sequence(tmp_path)


def test_what_was_said_before_is_refused_and_the_last_word_may_come_again():
    highest = Numbers({("camera", "upload"): 7})
    for number in (7, 8, 8, 12):
        highest.take(highest.check("camera", "upload", 0, number), number)
    with pytest.raises(TrustError, match="said before: number 11, the last one was 12"):
        highest.check("camera", "upload", 0, 11)
    highest.check("camera", "state", 0, 3)  # each place by itself
    highest.check("camera", "upload", COMMAND, 3)  # and each lane
    assert highest.fresh == {("camera", "upload"): 12}
    with pytest.raises(TrustError, match="lane 9"):
        highest.check("camera", "upload", 9, 99)
    highest.forget("camera")
    highest.check("camera", "upload", 0, 1)


def test_a_will_is_true_once():
    highest = Numbers()
    highest.take(highest.check("camera", "state", WILL, 5), 5)
    with pytest.raises(TrustError, match="said before"):
        highest.check("camera", "state", WILL, 5)
