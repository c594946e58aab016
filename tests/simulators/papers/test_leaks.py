"""The tables of attacks: figures as they are, nothing where none are."""

import json

from simulators.papers.leaks import FILE, section, tables

FIGURES = {"vectors": 60, "ssim": 0.4, "stranger": 0.3, "retrieved": 0.25, "chance": 0.01}
METHOD = {
    "round": 20,
    "public": 900,
    "settings": {"steps": 300},
    "parts": [
        {
            "part": "prototypes",
            "width": 64,
            "loss": [[30, 0.5], [300, 0.0312]],
            "by_samples": [
                {"samples": 1, **FIGURES},
                {"samples": 100, **FIGURES, "ssim": 0.35, "vectors": 3},
            ],
        }
    ],
}


def test_a_method_has_a_row_a_part_and_its_settings(tmp_path):
    document = {"hijack": {"cifar10": {"0": {"fedproto": METHOD, "fedavg": None}}}}
    (tmp_path / FILE).write_text(json.dumps(document))
    text = "\n".join(section(tmp_path))
    assert "| fedproto | prototypes | 64 | 0.0312 | 0.35 (0.30) | silent | – | 0.40 (0.30)" in text
    assert "round 20, seeds a method: 1; decoders of 300 steps on 900 public images." in text
    assert "As sent: means over 3 vectors; of fewer samples over 60." in text
    assert "No vectors are sent by fedavg." in text
    assert "consistently fails" in text


def test_the_page_says_nothing_where_nothing_was_run(tmp_path):
    assert section(None) == section(tmp_path) == []
    (tmp_path / FILE).write_text(json.dumps({"uploads": {}}))
    assert section(tmp_path) == []


def test_silence_is_a_figure_and_seeds_are_averaged():
    held = {"minimum": 5, "changed": 5, "covariance": "open"}

    def run(ssim):
        rows = [
            {"samples": 1, "defences": held, "outcome": None},
            {"samples": 5, "defences": held, "outcome": {**FIGURES, "ssim": ssim}},
        ]
        return {"decoder": {"settings": {"width": 504}, "rows": rows}}

    text = "\n".join(tables({"uploads": {"digits": {"0": run(0.4), "1": run(0.6)}}}))
    assert "| 1 | 5 | open | silent | – |" in text
    assert "| 5 | 5 | open | 0.50 (0.30) | 25 % (1.0) |" in text
    assert "width 504; 2 seeds" in text
