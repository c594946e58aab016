"""From photos that are like nothing to a class with a name."""

import json

import numpy as np
import pytest
from PIL import Image

from edge_agent.contributing import statement
from edge_agent.inference.classifier import Classifier
from edge_agent.recent.window import read_report
from edge_agent.updates import cache
from protofleet import wire
from protofleet.exchange import contributed, learned, published
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.statistics import counts
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.statistics.held_out import Samples
from tests.networks import extractor_bundle, pictures

NAMES = ("one", "three", "two")


@pytest.fixture
def fleet(tmp_path):
    """An extractor whose fleet knows three colours and was counted; the sums are here, too."""
    bundle = extractor_bundle(tmp_path / "x.pfb")
    lineage = bundle.manifest.lineages[0]
    images = np.concatenate([pictures(seed, 40) for seed in (1, 3, 2)])
    features, labels = Classifier(tmp_path / "x.pfb").embed(images), np.repeat([0, 1, 2], 40)
    own = contribution(features, labels, Grid())
    total = fold(own, Grid())
    counted = counts.count(moments(total), Samples.of(features, labels, own))
    state, whole = learned.state(total, counted)
    about = About(lineage, NAMES, bundle.digest, whole.calibration, "t")
    payload = published.write(Bank(about, whole.head), wire.Envelope("global", "f"), "float32")
    cache.state_file(tmp_path / "x.pfb").write_bytes(payload)
    message = contributed.write_total(
        Claim(lineage, NAMES, total="t"), state.shared, wire.Envelope("global", "f", "r")
    )
    return tmp_path / "x.pfb", message


def photos(folder, seed, count):
    folder.mkdir(exist_ok=True)
    for n, image in enumerate(pictures(seed, count)):
        Image.fromarray(image).save(folder / f"{seed}-{n}.png")


def test_a_cluster_of_unknown_things_gets_a_name(call, fleet, tmp_path):
    bundle, total = fleet
    for seed, count in ((1, 5), (2, 5), (4, 9)):
        photos(tmp_path / "photos", seed, count)
    assert "nothing unknown was kept" in call("unknowns", "--bundle", "x.pfb").stdout
    seen = call("infer", "--bundle", "x.pfb", "--collect", "--json", "photos")
    unknown = [a["path"] for a in json.loads(seen.stdout)["answers"] if a["unknown"]]
    assert sum("/4-" in path for path in unknown) == 9
    refused = call("unknowns", "--bundle", "x.pfb")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    cache.total_file(bundle).write_bytes(total)
    document = json.loads(call("unknowns", "--bundle", "x.pfb", "--json").stdout)
    assert document["unknown"] == len(unknown)
    (cluster, *_) = document["clusters"]
    assert (cluster["number"], cluster["things"]) == (1, 9)
    assert all((tmp_path / picture).exists() for picture in cluster["pictures"])
    done = call("enroll", "--bundle", "x.pfb", "--cluster", "1", "four")
    assert (done.returncode, done.stderr) == (0, "")
    assert "four: learned from 9 photos and in use on this device" in done.stdout
    again = json.loads(call("infer", "--bundle", "x.pfb", "--json", "photos").stdout)
    labels = {a["path"]: a["label"] for a in again["answers"]}
    assert all(label == "four" for path, label in labels.items() if "/4-" in path)
    left = json.loads(call("unknowns", "--bundle", "x.pfb", "--json").stdout)
    assert left["unknown"] == len(unknown) - 9
    nothing = call("enroll", "--bundle", "x.pfb", "--cluster", "7", "five")
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)


def test_what_was_seen_is_remembered_as_means_and_told_once_there_is_enough(call, fleet, tmp_path):
    bundle, total = fleet
    cache.total_file(bundle).write_bytes(total)
    for seed in (1, 2, 3):
        photos(tmp_path / "photos", seed, 20)
    half = sorted((tmp_path / "photos").iterdir())[::2]
    # Not a block more than is due: what each life of the process leaves open is not lost.
    for some in (half[:7], half[7:], sorted(set((tmp_path / "photos").iterdir()) - set(half))):
        assert call("infer", "--bundle", "x.pfb", "--collect", *map(str, some)).returncode == 0
    lineage, report = read_report(bundle)
    assert lineage == contributed.read_total(total)[0].lineage
    assert report.samples in (50, 60)  # two photos that are hardly apart are one
    assert report.unknown <= 0.2
    assert report.moved is not None
    assert not report.labelled


def test_what_a_device_labelled_is_likely_where_that_is_asked_for(call, fleet, tmp_path):
    bundle, _ = fleet
    folder = statement.folder_of(bundle, Classifier(bundle).bundle.manifest.lineages[0])
    photos(tmp_path / "photos", 2, 4)

    def shares(*words):
        done = call("infer", "--bundle", "x.pfb", "--json", "--top", "3", *words, "photos")
        rows = json.loads(done.stdout)["answers"]
        return [{one["label"]: one["probability"] for one in row["top"]} for row in rows]

    plain = shares()
    assert shares("--prior", "2") == plain  # it labelled nothing
    folder.mkdir(parents=True)
    (folder / "labelled.json").write_text(json.dumps({"two": 5000, "one": 3}))
    assert all(
        after["three"] < before["three"]
        for before, after in zip(plain, shares("--prior", "0.1"), strict=True)
    )
    assert call("infer", "--bundle", "x.pfb", "--prior", "0", "photos").returncode == 2
