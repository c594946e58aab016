"""Books as the journal has them: each message once, and those of the first release."""

import json

from coordinator.ledger.books import BY_DEVICES, VERSIONS, Book, as_text, from_text, newest


def test_versions_come_back_as_they_were_and_each_message_stands_once():
    message = "m" * 1000
    versions = [Book(), Book(waiting={"owl": message}, why="owl from x waits", by="x")]
    versions += [Book(admitted={"owl": message}, renamed={"owl": "tawny owl"}, removed=("ant",))]
    text = as_text(versions)
    assert from_text(text) == versions
    assert text.count(message) == 1


def test_a_list_alone_is_of_the_first_release():
    plain = [{}, {"admitted": {"owl": "m"}, "why": "owl from x"}]
    assert from_text(json.dumps(plain)) == [Book(), Book(admitted={"owl": "m"}, why="owl from x")]


def test_an_operator_s_decisions_are_remembered_longest_and_the_newest_always():
    by_devices = [Book(why=str(number), by="x") for number in range(2 * VERSIONS)]
    left = newest([Book(why="operator"), *by_devices])
    assert len(left) == 1 + BY_DEVICES
    assert (left[0].why, left[-1].why) == ("operator", by_devices[-1].why)
    operators = [Book(why=str(number)) for number in range(VERSIONS)]
    assert len(newest([*operators, Book(by="x")])) == VERSIONS
    assert newest([*operators, Book(by="x")])[-1].by == "x"
