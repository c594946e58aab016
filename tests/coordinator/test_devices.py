"""Who is there: births, last wills of this life and of earlier ones, and patience."""

from coordinator import devices
from coordinator.devices import Patience

ONLINE = {"online": True, "classes": ["apple"], "samples": 5, "secret": "not kept"}


def born(boot="b1", table=None, at=0.0):
    return devices.with_birth(table or devices.NOBODY, "a", boot, ONLINE, at)


def ended(table, boot="b1", reason="lost", at=10.0):
    return devices.with_birth(table, "a", boot, {"online": False, "reason": reason}, at)


def test_a_birth_says_who_a_device_is_and_only_what_is_wanted_is_kept():
    device = born()["a"]
    assert (device.online, device.boot) == (True, "b1")
    assert device.about == {"classes": ["apple"], "samples": 5}


def test_one_that_is_lost_may_be_asked_until_patience_ends_and_one_that_leaves_may_not():
    lost = ended(born())
    assert devices.eligible(lost, 10.0 + 99, Patience(100, 300)) == ("a",)
    assert devices.eligible(lost, 10.0 + 100, Patience(100, 300)) == ()
    assert devices.eligible(ended(born(), reason="left"), 10.0, Patience(100, 300)) == ()


def test_a_will_of_an_earlier_life_says_nothing():
    table = born("b2", born("b1"))
    assert ended(table, "b1") == table
    assert not ended(table, "b2")["a"].online


def test_the_will_of_a_stranger_registers_nobody():
    assert ended(devices.NOBODY) == {}


def test_a_device_from_the_journal_takes_any_will_for_its_own():
    table = devices.from_births({"a": {"left": False, "samples": 5}}, 0.0)
    assert not table["a"].online
    assert devices.eligible(table, 1.0, Patience(10, 300)) == ("a",)
    assert ended(table, "unknown", "left")["a"].left


def test_who_comes_back_has_not_left_and_declines_nothing():
    table = devices.alive(born(), "a", 1.0, declines="too warm")
    back = born("b2", ended(table, reason="left"), at=20.0)["a"]
    assert (back.left, back.declines, back.seen) == (False, "", 20.0)


def test_signs_of_life_count_for_registered_devices_only():
    table = ended(born())
    assert devices.all_alive(table, ["a", "x"], 50.0)["a"].seen == 50.0
    assert devices.all_alive(table, ["x"], 50.0) is table
    assert devices.alive(table, "x", 50.0) is table


SHORT = Patience(lost=10.0, silence=100.0)


def gone(table, now):
    return devices.gone(table, ["a", "never-born"], now, SHORT) == {"a", "never-born"}


def test_one_that_was_asked_and_says_nothing_is_gone_though_it_is_called_online():
    asked = devices.all_asked(born(at=1.0), ["a", "never-born"], 5.0)
    assert [gone(asked, now) for now in (5.0, 104.0, 105.0)] == [False, False, True]
    again = devices.all_asked(asked, ["a"], 90.0)  # it owes an answer since it was asked first
    assert gone(again, 105.0)
    assert not gone(devices.alive(asked, "a", 106.0), 1000.0)


def test_one_that_spoke_after_it_was_asked_and_owes_an_answer_still_is_gone_in_time():
    spoke = devices.alive(devices.all_asked(born(at=1.0), ["a"], 5.0), "a", 20.0)
    assert devices.all_owing(spoke, ["a"], 119.0, SHORT) is spoke
    assert gone(devices.all_owing(spoke, ["a", "never-born"], 120.0, SHORT), 120.0)


def test_who_is_heard_is_online_though_a_will_said_otherwise():
    assert devices.all_alive(ended(born()), ["a"], 50.0)["a"].online
    assert devices.alive(ended(born()), "a", 50.0)["a"].online
    assert not devices.alive(ended(born(), reason="left"), "a", 50.0)["a"].online


def test_the_place_that_another_may_take_is_of_the_one_that_was_gone_first():
    table = devices.with_birth(born(), "b", "b1", ONLINE, 0.0)
    assert devices.longest_gone(table, 500.0, SHORT) is None
    table = ended(table, at=20.0)
    assert devices.longest_gone(table, 29.0, SHORT) is None
    assert devices.longest_gone(table, 30.0, SHORT) == "a"


def test_of_a_birth_only_what_is_of_the_right_kind_is_kept():
    body = {"online": True, "samples": "many", "version": 3, "classes": ["apple", 3, None]}
    assert devices.with_birth(devices.NOBODY, "a", "b", body, 0.0)["a"].about == {
        "classes": ["apple"]
    }
