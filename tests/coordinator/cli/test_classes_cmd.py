"""The classes of a fleet as a person reads them."""

import json

from coordinator.cli.classes_cmd import echo_classes

LISTING = {
    "lineage": "extractor:e",
    "policy": "manual",
    "bundle": "ab" * 32,
    "contributors": ["x"],
    "awaited": ["y", "z"],
    "classes": [
        {"name": "ant", "rows": 2, "enrolled": False, "by": ""},
        {"name": "owl", "rows": 1, "enrolled": True, "by": "x"},
        {"name": "yak", "rows": 0, "enrolled": False, "by": ""},
    ],
    "waiting": ["tawny owl"],
    "waiting_by": {"tawny owl": "y"},
    "versions": [{"version": 0, "why": "the run's own"}],
}


def test_each_class_has_a_line_with_where_it_comes_from(capsys):
    echo_classes(LISTING, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "lineage extractor:e, new classes: manual",
        f"bundle {'ab' * 8}, contributions of 1 devices",
        "still to send theirs: y, z",
    ]
    assert [line.split() for line in lines[3:6]] == [
        ["ant", "2", "prototypes"],
        ["owl", "1", "prototypes", "enrolled", "by", "x"],
        ["yak", "0", "prototypes", "not", "known", "yet"],
    ]
    assert lines[6].endswith("of y waits: coordinator classes admit 'tawny owl'")
    assert lines[7] == "version 0: the run's own"


def test_a_class_of_a_ledger_says_how_much_there_is_of_it_and_whether_it_is_shown(capsys):
    row = {"enrolled": False, "by": "", "shown": True, "removed": False, "devices": 2}
    rows = [
        {**row, "name": "ant", "samples": 12},
        {**row, "name": "owl", "samples": 5, "enrolled": True, "by": "x", "shown": False},
    ]
    echo_classes({**LISTING, "classes": rows}, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split() == ["ant", "12", "samples", "of", "2", "devices"]
    assert lines[4].endswith("brought by x, not shown")


def test_before_anything_is_learnt_there_is_little_to_say(capsys):
    nothing = {"lineage": "", "bundle": "", "awaited": [], "classes": [], "waiting": []}
    echo_classes({**LISTING, **nothing, "versions": []}, as_json=False)
    assert capsys.readouterr().out == "lineage none yet, new classes: manual\n"


def test_for_programs_it_is_the_listing_itself(capsys):
    echo_classes(LISTING, as_json=True)
    assert json.loads(capsys.readouterr().out) == LISTING
