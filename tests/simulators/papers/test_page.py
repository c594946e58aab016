"""The page of results, made of a few small cells and a reading."""

import json
import shutil
from dataclasses import replace

import pytest

from simulators.papers import papers, records
from simulators.papers.cell import MARGINS, Aim, Cell, Places, at_seed, changed, run_seed, runs_of
from simulators.papers.page import page
from simulators.papers.plan import write_times
from simulators.papers.readings import Section
from simulators.papers.words import digest_of
from simulators.run import plots
from simulators.run.maps import EmbeddedSamples
from simulators.run.rounds import LabOptions, run_in
from simulators.run.setup import prepare
from simulators.run.workers import Local


@pytest.fixture(scope="module")
def made(small_lab, tmp_path_factory):
    config = small_lab(rounds=2)
    low = Cell(
        "low",
        "A low figure",
        config,
        "prototype",
        0.1,
        0.01,
        paper_floats=123,
        note="digits",
        cut="two rounds",
        where="Paper, table 1",
        seeds=2,
    )
    high = Cell(
        "high",
        "A high figure",
        config,
        "head",
        0.999,
        aims=(Aim("figure"), Aim("above", 0.5, "low"), Aim("within", 1.0, "low")),
        pick="best",
        over="samples",
        seeds=2,
        where="Paper, table 2",
        runs="low",
    )
    reading = Cell(
        "low-lam",
        "another λ",
        changed(config, ("lam=3",)),
        "prototype",
        aims=(),
        reading_of="low",
        seeds=1,
    )
    even = Cell(
        "even",
        "Margins",
        config,
        MARGINS,
        aims=(Aim("at least", 0.0), Aim("below", 0.0)),
        seeds=1,
        runs="low",
    )
    absent = Cell("absent", "Not run", changed(config, rounds=50), "prototype", 0.5)
    behind = Cell(
        "behind",
        "Behind nobody",
        config,
        "head",
        0.999,
        aims=(Aim("figure"), Aim("above", 0.0, "absent")),
        seeds=1,
        runs="low",
    )
    folder = tmp_path_factory.mktemp("made")
    places = Places(folder / "runs", folder / "records")
    for cell in (low, reading):
        for seed in cell.due():
            run_seed(cell, seed, places, Local())
    return places, [
        Section("first", "First things", (low, high), (reading,), main=True),
        Section("last", "Last things", (even, absent, behind), picture="maps"),
    ]


def rows(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_all_figures_come_first_each_with_what_became_of_it(made):
    places, sections = made
    text = page(sections, places, None)
    assert "Of 2 figures of the papers' main tables: 1 reached, 1 missed, 0 not run." in text
    assert "Of 2 figures of others: 0 reached, 1 missed, 1 not run." in text
    assert text.index("## All figures") < text.index("## First things")
    (low,) = rows(text, "| Paper, table 1 | A low figure |")
    assert "| 10.00 ± 1.00 |" in low
    assert low.endswith("| 2 of 2 | cut: two rounds | **reached** |")
    (high,) = rows(text, "| Paper, table 2 | A high figure |")
    assert high.endswith("| 2 of 2 | whole, 2 rounds | **not reached** |")
    (absent,) = rows(text, "|  | Not run |")
    assert absent.endswith("| – | – | – | not run yet |")


def test_a_section_says_what_was_asked_and_what_it_came_to(made):
    places, sections = made
    text = page(sections, places, None)
    (low,) = rows(text, "| A low figure (cut)")
    assert "the paper's: **reached**" in low
    assert "| 2 × 2 |" in low
    (high,) = rows(text, "| A high figure | 99.90")
    assert "the paper's: **not reached**" in high
    assert "50.00 over low" in high
    assert "within 100.00 of low" in high
    assert "| best, samples |" in high
    assert "(paper 123)" in text
    assert "cut: two rounds" in text
    assert "at least 0: **reached**; below 0: **not reached**" in text
    assert "0.00 over absent: not run yet" in text
    assert "Without a figure: Not run (not run yet)." in text


def test_ours_are_the_means_that_the_paper_reports(made):
    places, sections = made
    low, high = sections[0].cells
    text = page(sections, places, None)
    last = [run.document["final"]["each"]["prototype"] for run in runs_of(low, places)]
    best = [run.document["best"]["pooled"]["head"]["accuracy"] for run in runs_of(high, places)]
    assert f"| {100 * sum(last) / 2:.2f} ± " in rows(text, "| Paper, table 1")[0]
    assert f"| {100 * sum(best) / 2:.2f} ± " in rows(text, "| Paper, table 2")[0]


def test_readings_stand_beside_their_cell(made):
    places, sections = made
    text = page(sections, places, None)
    (reading,) = rows(text, "| another λ")
    assert "(low)" in reading
    assert "--set lam=3" in text


def test_a_figure_that_is_missed_says_which_reading_would_reach_it(made):
    places, (first, last) = made
    low, high = first.cells
    (reading,) = first.readings
    ours = reading.value(runs_of(reading, places)[0])

    def reached(paper):
        missed, other = (replace(each, paper=paper, paper_std=0.0) for each in (low, reading))
        section = replace(first, cells=(missed, high), readings=(other,))
        return rows(page([section, last], places, None), "| Paper, table 1")[0]

    between = (ours + low.value(runs_of(low, places)[0])) / 2
    assert between < ours < 0.9
    named = f"another λ ({100 * ours:.2f})"
    assert reached(ours).endswith(f"| **not reached**: by a reading it is: {named} |")
    assert reached(0.99).endswith("| **not reached**: by none of 1 readings |")
    assert reached(0.1).endswith("| **reached** |")


def test_nothing_is_concluded_but_beside_the_figures_it_was_written_for(made, tmp_path):
    places, sections = made
    first = sections[0]
    shutil.copytree(places.records, tmp_path / "records")
    here = Places(places.runs, tmp_path / "records")
    runs = [run for cell in (*first.cells, *first.readings) for run in runs_of(cell, here)]
    high = runs_of(first.cells[1], here)
    entries = {
        "first": {"of": digest_of(runs), "text": "It is so."},
        "last": {"of": "00000000", "text": "It was so once."},
        "high": {"of": digest_of(high), "text": "two rounds are few"},
    }
    (tmp_path / "records" / "words.json").write_text(json.dumps(entries))
    text = page(sections, here, None)
    assert "It is so." in text
    assert "It was so once." not in text
    assert f"<!-- first: {digest_of(runs)} -->" in text
    assert rows(text, "| Paper, table 2")[0].endswith("| **not reached**: two rounds are few |")
    assert "It is so." not in page(sections, places, None)


def test_a_page_without_runs_is_a_table_of_figures_that_were_not_run(made, tmp_path):
    _, sections = made
    cifar = replace(
        sections[1].cells[1],
        name="cifar",
        config=changed(sections[1].cells[1].config, dataset="cifar10"),
    )
    text = page([replace(sections[1], cells=(cifar,))], Places(tmp_path), None)
    assert "Of 1 figures of others: 0 reached, 0 missed, 1 not run." in text
    assert "not run yet on lossless images" in text
    assert "## Last things" not in text
    # What it would take is said where its like was timed.
    write_times(tmp_path, {"fedmps-cifar10": 3.0})
    (here,) = (c for c in papers.FEDMPS_CIFAR if c.name == "fedmps-cifar10")
    text = page([replace(sections[1], cells=(here,))], Places(tmp_path, tmp_path), None)
    assert "| – | – | – | not run yet on lossless images: 25 min a seed |" in text


def test_a_run_under_way_and_one_that_diverged_are_told_as_what_they_are(made, tmp_path):
    there, sections = made
    cell = replace(sections[1].cells[1], config=changed(sections[1].cells[1].config, rounds=9))
    places = Places(tmp_path / "runs", tmp_path / "records")

    class Cut(Exception):
        pass

    def cut_after_five(row):
        if row.round == 5:
            raise Cut

    setup = prepare(at_seed(cell.config, 0))
    with pytest.raises(Cut):
        run_in(setup, LabOptions(checkpoint_every=2), cut_after_five, places.run(cell, 0))
    section = Section("only", "Only", (cell,), about="It is a cell.")
    text = page([section], places, tmp_path)
    assert "| whole, 4 of 9 rounds | in round 4 of 9, " in text
    assert "0 missed, 1 under way, 0 not run" in text
    assert "It is a cell." in text
    assert "(images/results/only.png)" in text
    # The best can only rise: what is enough now is enough in the end, and no less is said to be.
    settled = replace(cell, paper=0.1, pick="best")
    text = page([replace(section, cells=(settled,))], places, None)
    assert "1 reached (1 by runs that are not over), 0 missed, 0 not run" in text
    (figure,) = rows(text, "|  | Not run |")
    assert "| ≥ " in figure
    assert figure.endswith("| 1 of 3 | whole, 4 of 9 rounds | **reached**, in round 4 of 9 |")
    assert "Reached before they are over: Not run (**reached**, in round 4 of 9)." in text
    # So does one that reads a figure which a whole run has missed.
    shutil.copytree(there.records, places.records)
    missed = replace(sections[0].cells[0], paper=0.999, paper_std=0.0)
    reading = replace(settled, name="again", reading_of=missed.name, runs=cell.name)
    text = page([replace(section, cells=(missed,), readings=(reading,))], places, None)
    assert "| **not reached**: by a reading it is: Not run (≥ " in text
    text = page([replace(section, cells=(replace(settled, pick="last"),))], places, None)
    assert "0 reached, 0 missed, 1 under way" in text
    failed = records.failed(cell.name, at_seed(cell.config, 0), "round 5: loss is nan", 4)
    records.write(failed, tmp_path / "records")
    text = page([section], places, None)
    assert "| – | – | – | round 5: loss is nan |" in text
    assert "0 reached, 0 missed, 1 not run" in text


def test_pictures_are_left_beside_the_page(made, tmp_path):
    places, sections = made
    text = page(sections, places, tmp_path)
    for name in ("figures", "first", "even"):
        assert f"(images/results/{name}.png)" in text
        assert (tmp_path / "images" / "results" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    without = page([replace(sections[0], picture="none")], places, tmp_path)
    assert "images" not in without.split("## First")[1]
    # A picture that was made once stays where the run's folder is gone.
    again = page(sections, Places(tmp_path / "nowhere", places.records), tmp_path)
    assert "(images/results/even.png)" in again


def test_what_networks_make_of_the_same_samples_is_drawn_once(made, tmp_path, monkeypatch):
    places, sections = made
    drawn = []
    monkeypatch.setattr(plots, "class_maps", lambda shown, path: drawn.append((shown, path)))
    section = replace(sections[0], maps=("low", "absent"))
    whole = [section, sections[1]]
    picture = tmp_path / "images" / "results" / "first-tsne.png"
    # Nothing is drawn by the stand-in, and what is not there is not shown.
    assert "first-tsne" not in page(whole, places, tmp_path)
    ((shown,), path) = drawn.pop()
    assert (shown.title, path) == ("A low figure", picture)
    samples = EmbeddedSamples.read(places.run(section.cells[0], 0))
    assert shown.points.shape == (len(samples.points), 2)
    assert shown.labels.tolist() == samples.labels.tolist()
    picture.write_bytes(b"drawn")
    assert "(images/results/first-tsne.png)" in page(whole, places, tmp_path)
    assert not drawn
    other = replace(section, cells=(replace(section.cells[0], config=sections[1].cells[1].config),))
    picture.unlink()
    # The folder's run is of other settings than this cell's.
    page([other, sections[1]], Places(places.runs), tmp_path)
    assert not drawn


def test_the_paper_s_figure_is_a_level_of_its_curve(made, tmp_path, monkeypatch):
    places, sections = made
    calls = []
    monkeypatch.setattr(plots, "curves", lambda *words: calls.append(words))
    page(sections, places, tmp_path)
    ((series, path, _, _, levels),) = calls
    assert path.name == "first.png"
    assert set(series) == {"low", "high"}
    assert levels == {"low": 0.1, "high": 0.999}


def test_of_two_cells_that_are_not_over_it_is_told_who_leads_in_the_last_round_that_both_have(
    made, tmp_path
):
    there, sections = made
    base = sections[0].cells[0]
    behind = replace(base, name="behind", title="Behind", config=changed(base.config, rounds=9))
    ahead = replace(
        behind,
        name="ahead",
        title="Ahead",
        config=changed(behind.config, ("lam=2",)),
        aims=(Aim("above", 0.01, "behind"),),
        pick="best",
    )
    places = Places(tmp_path / "runs", tmp_path / "records")
    curves = {ahead: [0.5, 0.75, 0.6, 0.9], behind: [0.2, 0.9, 0.5]}

    def stands(cell, curve):
        (run, *_) = runs_of(base, there)
        numbers = list(range(1, len(curve) + 1))
        document = {
            **run.document,
            "rounds": len(curve),
            "config": records.config_of(at_seed(cell.config, 0)),
            "curve": {**run.document["curve"], "rounds": numbers, "each": curve, "pooled": curve},
        }
        records.write(records.RunRecord(cell.name, 0, document), places.records)

    for cell, curve in curves.items():
        stands(cell, curve)
    section = Section("only", "Only", (ahead, behind))
    text = page([section], places, None)
    # Each as its paper reports it: the best of three rounds, and the last of them.
    assert rows(text, "| Ahead, over") == ["| Ahead, over Behind | +25.00 | 3 of 9 | 1.00 |"]
    # With both over, the table says what came of it, and so nothing else does.
    assert "side by side so far" not in page(sections, there, None)
