"""What is wrong with a client's answers is named, and nothing else."""

import copy

import pytest

from export.conformance.comparison import differences

ANSWER = {"label": "a", "scores": [3.0, -10.0], "probabilities": [0.9, 0.1], "unknown": False}
PLAIN = {"label": "b", "scores": [1.0, 2.0], "probabilities": None, "unknown": None}
EXPECTED = {
    "tolerance": {"score": 1e-3, "probability": 0.02},
    "inputs": [{"file": "inputs/00.ppm"}, {"file": "inputs/01.ppm"}],
    "states": [
        {"file": "states/sure.cbor", "answers": [ANSWER, dict(ANSWER)]},
        {"file": "states/half.cbor", "answers": [PLAIN, dict(PLAIN)]},
    ],
    "refused": ["refused/cut.cbor"],
}
FIRST = "states/sure.cbor, inputs/00.ppm: "


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("label", "b", "label 'b' where 'a' is due"),
        ("unknown", None, "unknown None where False is due"),
        ("scores", [3.011, -10.0], "scores differ by 0.011, at most 0.01 is allowed"),
        ("scores", [float("nan"), -10.0], "scores differ by nan, at most 0.01 is allowed"),
        ("scores", [3.0], "1 scores where 2 are due"),
        ("probabilities", [0.87, 0.13], "probabilities differ by 0.03, at most 0.02 is allowed"),
        ("probabilities", None, "probabilities: None where [0.9, 0.1] are due"),
    ],
)
def test_what_differs_is_named(name, value, words):
    answers = copy.deepcopy(EXPECTED) | {"refused": ["it is cut short"]}
    assert differences(answers, EXPECTED) == []
    answers["states"][0]["answers"][0][name] = value
    assert differences(answers, EXPECTED) == [FIRST + words]


def test_digits_of_a_float_are_no_difference():
    answers = copy.deepcopy(EXPECTED)
    answers["states"][0]["answers"][1] |= {"scores": [3.009, -9.991], "probabilities": [0.91, 0.09]}
    assert differences(answers, EXPECTED) == []


def test_what_is_left_out_is_named():
    answers = copy.deepcopy(EXPECTED)
    answers["states"].pop()
    assert differences(answers, EXPECTED) == ["1 states where 2 are due"]
    answers = copy.deepcopy(EXPECTED)
    answers["states"][1]["answers"].pop()
    assert differences(answers, EXPECTED) == ["states/half.cbor: 1 answers"]
    assert differences(EXPECTED | {"refused": [""]}, EXPECTED) == ["refused/cut.cbor was taken"]
    for wrong in ([], {"states": []}, {"states": [{}, {}], "refused": []}, None):
        (line,) = differences(wrong, EXPECTED)[-1:]
        assert line.startswith("the answers are not of the form")
