"""What a device says of a class, and when again."""

import pytest

from edge_agent.contributing.rules import SpeechRules, to_say

FIVE = SpeechRules(5, 5)


def keys(*numbers):
    return tuple(map(str, numbers))


@pytest.mark.parametrize(
    ("now", "before", "spoken"),
    [
        (range(4), (), None),  # too few
        (range(5), (), range(5)),
        (range(9), range(5), range(5)),  # four more: not again
        (range(10), range(5), range(10)),
        ((0, 1, 2, 7, 8), range(5), range(5)),  # four differ: two came, two went
        ((0, 1, 7, 8, 9), range(5), (0, 1, 7, 8, 9)),
        ((), range(4, 9), None),  # all are gone
        ((), range(8), None),
        (range(2, 9), range(9), range(9)),  # two photos were removed
        ((0, 0, 0, 0, 0), (0,) * 5, (0,) * 5),
        ((0,) * 10, (0,) * 5, (0,) * 10),  # a photo that is there twice counts twice
    ],
)
def test_a_class_is_said_with(now, before, spoken):
    said = to_say({"a": keys(*now)}, {"a": keys(*before)} if before else {}, FIVE)
    assert said == ({} if spoken is None else {"a": keys(*spoken)})


def test_a_class_that_stays_is_said_as_it_was_beside_one_that_changed():
    before = {"a": keys(*range(5)), "b": keys(*range(5))}
    now = {"a": keys(*range(20)), "b": keys(*range(6))}
    assert to_say(now, before, FIVE) == {"a": now["a"], "b": before["b"]}


def test_both_numbers_can_be_set_and_classes_are_in_order():
    now = {"b": keys(1), "a": keys(1, 2)}
    assert list(to_say(now, {"a": keys(1)}, SpeechRules(1, 1)).items()) == [
        ("a", keys(1, 2)),
        ("b", keys(1)),
    ]


def test_what_its_owner_took_back_is_out_at_once_and_no_difference_shows_it():
    before = {"mug": tuple("abcdef"), "cup": tuple("vwxyz")}
    now = {"mug": tuple("abcde"), "cup": tuple("vwxyz")}
    assert to_say(now, before, FIVE) == before
    assert to_say(now, before, FIVE, frozenset("f")) == {"cup": before["cup"]}
    # still left out while the difference to what was said would be few, said anew after
    more = now | {"mug": tuple("abcdeghi")}
    assert to_say(more, before, FIVE, frozenset("f")) == {"cup": before["cup"]}
    enough = now | {"mug": tuple("abcdeghij")}
    assert to_say(enough, before, FIVE, frozenset("f"))["mug"] == tuple("abcdeghij")
    # put back again it is what it was
    assert to_say(before, before, FIVE, frozenset("f")) == before
