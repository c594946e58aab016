"""What is said, and under which word."""

import json

from edge_agent.cameras.saying.answers import SceneAnswer


def test_an_answer_is_one_line_of_json():
    answer = SceneAnswer(
        "answer", "door", "bin", 1.5, "käse", False, 0.87654321, "käse", 5, 0.12345, "ab" * 32
    )
    line = answer.line()
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "kind": "answer",
        "camera": "door",
        "region": "bin",
        "label": "käse",
        "unknown": False,
        "probability": 0.8765,
        "nearest": "käse",
        "frames": 5,
        "age": 0.123,
        "state": "ab" * 8,
    }
    assert answer.place == "door.bin"


def test_a_camera_that_is_lost_has_no_answer():
    document = SceneAnswer("lost", "door", "", 0.0).document()
    assert (document["kind"], document["label"], document["probability"]) == ("lost", None, None)
    assert SceneAnswer("lost", "door", "", 0.0).place == "door"
