"""Formula (6) of ProtoNorm asked of what a run left: the nearest of a device's own class means."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from edge_agent.training.batches import blocks
from simulators.papers import own_means
from simulators.papers.cell import Cell, Places, at_seed, changed, kept, run_seed
from simulators.run.rundir import RunDir
from simulators.run.setup import prepare
from simulators.run.workers import Here, Local


@pytest.fixture(scope="module")
def ran(small_lab, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    places = Places(folder / "runs", folder / "records")
    config = small_lab(rounds=2)
    cell = Cell("small", "A cell", config, "prototype_all_classes", over="samples", seeds=1)
    assert run_seed(cell, 0, places, Local())
    own_means.keep(cell, kept(cell, 0, places), places)
    return cell, places


def right_by_neighbours(cell, places):
    """Who is right on each device's test samples, by scikit-learn's neighbour among class means."""
    setup = prepare(at_seed(cell.config, 0))
    saved = RunDir(places.run(cell, 0)).latest(setup)
    crew, contract = Here(setup, setup.agents), setup.contract
    crew.restore(saved.agents)
    crew.receive(len(saved.rows), saved.state)
    right = []
    for agent in crew.agents.values():
        train, test = agent.data.train, agent.data.test
        with torch.inference_mode():
            network = agent.network().eval()
            seen, asked = (
                np.concatenate(
                    [
                        network.features(block)[1].numpy()
                        for block in blocks(samples, contract.input, contract.numerics)
                    ]
                )
                for samples in (train, test)
            )
        labels = train.y.numpy()
        classes = np.unique(labels)
        means = np.stack([seen[labels == c].mean(0, np.float64) for c in classes])
        nearest = KNeighborsClassifier(1).fit(means, classes)
        right.append(nearest.predict(asked.astype(np.float64)) == test.y.numpy())
    return right


def test_it_is_the_nearest_mean_of_each_device_and_another_than_the_fleets(ran):
    cell, places = ran
    own = own_means.read(cell, kept(cell, 0, places), places)
    right = right_by_neighbours(cell, places)
    assert own.round == 2
    assert own.over("devices") == pytest.approx(np.mean([r.mean() for r in right]), abs=1e-5)
    assert own.over("samples") == pytest.approx(np.concatenate(right).mean(), abs=1e-5)
    assert own.pooled != pytest.approx(cell.value(kept(cell, 0, places)), abs=1e-3)


def test_a_run_is_asked_once_until_it_goes_on(ran, tmp_path):
    cell, places = ran
    record = kept(cell, 0, places)
    before = (places.records / own_means.FILE).stat().st_mtime_ns
    own_means.keep(cell, record, places)
    assert (places.records / own_means.FILE).stat().st_mtime_ns == before
    # Of a run that is not here nothing is asked, nor without records to keep it in.
    own_means.keep(cell, record, Places(tmp_path, tmp_path / "records"))
    own_means.keep(cell, record, Places(places.runs))
    assert not list(tmp_path.iterdir())
    assert own_means.read(cell, record, Places(places.runs)) is None


def test_the_table_has_the_runs_as_they_stand_now(ran):
    cell, places = ran
    record = kept(cell, 0, places)
    own = own_means.read(cell, record, places)
    final = record.document["final"]["pooled"]
    *_, row, _ = own_means.table([(cell, record)], places)
    figures = (final["prototype_all_classes"], own.pooled, final["head"])
    assert row == "| A cell | 2 of 2 | " + " | ".join(f"{100 * x:.2f}" for x in figures) + " |"
    further = replace(record, document={**record.document, "final": {}})
    assert own_means.table([(cell, further)], places) == []
    assert own_means.table([(replace(cell, name="another"), record)], places) == []


def test_weights_of_other_settings_are_not_asked(ran, tmp_path):
    cell, places = ran
    other = replace(cell, config=changed(cell.config, lr=0.5))
    elsewhere = Places(places.runs, tmp_path)
    own_means.keep(other, kept(cell, 0, places), elsewhere)
    assert not list(tmp_path.iterdir())
    own_means.keep(cell, kept(cell, 0, places), elsewhere)
    assert [path.name for path in tmp_path.iterdir()] == [own_means.FILE]
