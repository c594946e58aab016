"""Chromium, Node and Python agree on the class of some images, on how sure it is and what is
unknown, before and after every swap, and on what a photo looks like at a network's size.
"""

import json
import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from edge_agent.inference.classifier import Classifier, OwnPrior
from edge_agent.updates import cache, enrolment
from export import page
from export.contents import npz
from export.extractor import extractor
from export.feeding import SourceTerms
from export.trial import Trial
from export.writer import Wanted, contents_of, export, export_extractor, write
from protofleet import wire
from protofleet.contract import Input
from protofleet.exchange import archive, contributed, graph, learned, published
from protofleet.exchange.archive import BundleError
from protofleet.exchange.contributed import Claim
from protofleet.exchange.published import About, Bank
from protofleet.statistics.closed_form import moments
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.values.prototypes import Head, Prototypes, Tensors
from tests.browsing import browser, opened
from tests.bundles import device, digits, other_bank
from tests.export.browser import CHROMIUM, answer, node_modules, served, visited
from tests.knowing import knowing
from tests.networks import extractor_bundle, foreign, pictures
from tests.protofleet.exchange import test_graph as graphs

__all__ = ["node_modules"]

HERE = Path(__file__).parent / "web"
SHOTS = os.environ.get("PROTOFLEET_SCREENSHOTS")  # a folder: the documents' picture is made there
N = 200


@pytest.fixture(scope="module", params=["prototype", "cosine", "mixture", "head", "int8"])
def case(request, tmp_path_factory, node_modules):
    """A page with a bundle, samples, other prototypes, and what Python says of both."""
    source = device("cnn-mnist", kind=Input("image", (28, 28, 1), (0.2,), (0.3,)), embedding=20)
    quantised = request.param == "int8"
    made = export(
        source,
        Wanted("int8", smallest=True, by="prototype") if quantised else Wanted(by=request.param),
    )
    out = tmp_path_factory.mktemp(request.param) / "page"
    page.write(contents_of(made), out, node_modules)
    classifier = Classifier(write(made, out.parent / "b"), unknown=True)
    x = np.random.default_rng(1).integers(0, 256, (N, 28, 28, 1), dtype=np.uint8)
    x[:80] = source.check.x
    bank = classifier.loaded.bank
    if request.param in ("prototype", "cosine", "int8"):
        bank = other_bank(bank)
    return laid_out(out, classifier, x, [bank])


@pytest.fixture(scope="module")
def fleets(tmp_path_factory, node_modules):
    """The same of a fleet's own extractor and what its sums make of it: calibrated; with a class
    more, of five photos; not counted yet; and of random features, with many classes.
    """
    out = tmp_path_factory.mktemp("fleets") / "page"
    built = extractor(SourceTerms("random", size=(8, 8), channels=1))
    exported = export_extractor(built, Wanted(), "f")
    page.write(contents_of(exported), out, node_modules)
    classifier = Classifier(write(exported, out.parent / "b"), unknown=True)
    data, rng = digits(), np.random.default_rng(4)
    f, y, lineage = classifier.embed(data.x), data.y, built.lineage
    devices = [(f[i:1500:2][y[i:1500:2] < 8], y[i:1500:2][y[i:1500:2] < 8]) for i in (0, 1)]
    five = np.flatnonzero(y[:1500] == 8)[:5]
    drawn = rng.normal(f.mean(0), f.std(0), (300, f.shape[1]))
    banks = [
        knowing(lineage, "01234567", devices),
        knowing(lineage, "012345678", [*devices, (f[five], y[five])]),
        knowing(lineage, "01234567", devices[:1], counted=False),
        knowing(lineage, [f"c{i}" for i in range(30)], [(drawn, np.arange(300) % 30)]),
    ]
    return laid_out(out, classifier, data.x[-N:], banks)


def laid_out(out, classifier, x, banks):
    """Samples and states beside the page, how it is asked, and what Python says of each."""
    due, swaps = [classifier.look(x)], []
    for i, bank in enumerate(banks):
        message = published.write(bank, wire.Envelope("global", "f", "r", round=9), "float32")
        classifier.swap(message)
        due.append(classifier.look(x))
        swaps.append(f"swap-{i}.cbor")
        (out / swaps[-1]).write_bytes(message)
    (out / "samples.bin").write_bytes(x.tobytes())
    shutil.copyfile(HERE / "page.html", out / "test.html")
    shutil.copyfile(HERE / "told.mjs", out / "told.mjs")
    return out, swaps, due


def by_node(out, swaps, **asked):
    """`prior` and `enrol` as the client takes them."""
    command = ["node", str(HERE / "client.mjs"), str(out), str(out / "bundle")]
    command += [str(out / "samples.bin"), str(N), *(str(out / swap) for swap in swaps)]
    environment = os.environ | {name.upper(): json.dumps(word) for name, word in asked.items()}
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=environment
    )
    return json.loads(run.stdout)


def by_chromium(out, swaps, profile):
    asked = "&".join(f"swap={swap}" for swap in swaps)
    with visited(out, f"test.html?n={N}&{asked}", profile) as answers:
        return answer(answers)


def same(found, due):
    assert found["labels"] == due.best
    assert found["state"] == due.state
    assert np.shape(found["scores"]) == due.scores.shape
    apart = np.abs(np.array(found["scores"]) - due.scores).max(initial=0)
    assert apart <= 1e-5 * np.abs(due.scores).max(initial=1)
    if due.unknown is None:
        assert found["unknown"] == [None] * N
    else:
        assert found["unknown"] == due.unknown.tolist()
    if due.probabilities is None:
        assert found["probabilities"] == found["probability"] == [None] * N
    else:
        assert np.abs(np.array(found["probabilities"]) - due.probabilities).max() < 5e-5
        assert found["probability"] == np.max(found["probabilities"], 1).tolist()


def agrees(found, due):
    assert len(found["answers"]) == len(due)
    for one, expected in zip(found["answers"], due, strict=True):
        same(one, expected)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_node_agrees(case):
    out, swaps, due = case
    found = by_node(out, swaps)
    agrees(found, due)
    assert found["refused"]
    # Of noise, which is what most of these are, some is unknown.
    assert any(one.unknown.any() for one in due)


@pytest.mark.parametrize("case", ["prototype", "int8"], indirect=True)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_agrees(case, tmp_path):
    out, swaps, due = case
    agrees(by_chromium(out, swaps, tmp_path), due)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_what_a_fleet_knows_is_as_sure_and_as_unknown_to_four_digits(fleets, tmp_path):
    out, swaps, due = fleets
    agrees(by_node(out, swaps), due)
    if CHROMIUM is not None:
        agrees(by_chromium(out, swaps, tmp_path), due)
    # What was asked is no matter of course: the ninth digit is unknown, and then known by five.
    ninth = digits().y[-N:] == 8
    before, after, uncounted = due[1], due[2], due[3]
    assert before.unknown[ninth].mean() > max(0.5, after.unknown[ninth].mean())
    assert (after.probabilities[ninth].argmax(1) == 8).mean() > 0.5
    assert uncounted.unknown is None
    assert uncounted.probabilities is not None


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_person_reads_what_the_fleet_knows_of_a_picture(fleets, tmp_path):
    out, _, due = fleets
    known = due[2]
    at = int(known.probabilities.max(1).argmin())  # what it is least sure of
    Image.fromarray(digits().x[-N:][at, ..., 0]).save(tmp_path / "digit.png")
    look = {"viewport": {"width": 760, "height": 620}, "device_scale_factor": 1}
    with served(out) as site, browser() as chromium:
        window = opened(chromium, f"{site.url}index.html", **look)
        window.get_by_text("ready").wait_for()
        chosen = window.locator("#file")
        chosen.set_input_files(tmp_path / "digit.png")
        window.get_by_text("no class is known yet").wait_for()
        chosen.set_input_files(out / "swap-1.cbor")
        window.locator("#classes tr.best").wait_for()
        rows = [row.split() for row in window.locator("#classes tr").all_inner_texts()]
        if SHOTS:
            window.screenshot(path=f"{SHOTS}/web.png", full_page=True)
        order = np.argsort(-known.scores[at])
        nearest = known.labels[order[0]]
        said = f"unknown, nearest {nearest}" if known.unknown[at] else nearest
        assert window.locator("#label").inner_text() == said
        shares = [f"{100 * known.probabilities[at][i]:.1f}" for i in order]
        assert rows == [
            [known.labels[i], share, "%"] for i, share in zip(order, shares, strict=True)
        ]
        assert window.complaints == []


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_devices_own_classes_are_as_likely_beforehand_in_node_as_in_python(fleets):
    out, swaps, plain = fleets
    own = {"3": 400, "5": 90, "nobody's": 7}
    prior = OwnPrior(own, 0.5)
    classifier, x = Classifier(out.parent / "b", unknown=True, prior=prior), digits().x[-N:]
    due = [classifier.look(x)]
    for swap in swaps:
        classifier.swap((out / swap).read_bytes())
        due.append(classifier.look(x))
    agrees(by_node(out, swaps, prior={"counts": own, "smooth": 0.5}), due)
    # It decides here and there, and what is unknown is as it was.
    assert 0 < np.mean(due[1].scores.argmax(1) != plain[1].scores.argmax(1)) < 0.5
    assert (due[1].unknown == plain[1].unknown).all()
    assert (due[4].scores == plain[4].scores).all()  # none of these classes is its own


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_class_that_is_enrolled_in_node_is_what_a_device_makes_of_it_to_four_digits(
    fleets, tmp_path
):
    out, swaps, plain = fleets
    bundle, data = tmp_path / "b.pfb", digits()
    shutil.copytree(out.parent / "b", bundle)
    classifier = Classifier(bundle, unknown=True)
    bank = published.read((out / swaps[0]).read_bytes()).bank
    lineage, names = bank.about.lineage, bank.about.classes
    f, y = classifier.embed(data.x[:1500]), data.y[:1500]
    known = y < 8
    of = learned.parts(moments(fold(contribution(f[known], y[known], Grid()), Grid())))
    sums = contributed.write_total(Claim(lineage, names), of, wire.Envelope("global", "f", "r"))
    cache.total_file(bundle).write_bytes(sums)
    photos = data.x[:1500][y == 8][:5]
    cache.state_file(bundle).write_bytes((out / swaps[0]).read_bytes())
    cache.settled(classifier, bundle)
    enrolment.keep(
        classifier, bundle, enrolment.embedded(classifier, "8", photos).message("f", "a")
    )
    (tmp_path / "total").write_bytes(sums)
    (tmp_path / "photos").write_bytes(photos.tobytes())
    paths = {name: str(tmp_path / name) for name in ("total", "photos")}
    found = by_node(out, swaps, enrol={**paths, "n": 5, "label": "8"})["enrolled"]
    due, ninth = classifier.look(data.x[-N:]), data.y[-N:] == 8
    for told in found[:2]:
        same(told, due)
    assert (due.probabilities[ninth].argmax(1) == 8).mean() > 0.5
    same(found[2], plain[2])  # this state has the class itself
    same(found[3], plain[1])
    without_sums, torn, whole, odd, enrolled, again = found[4]
    assert (whole, enrolled) == ("", "")
    assert without_sums == "beside a head the fleet's sums are due"
    assert (torn, odd) == ("the message is cut short", "5 samples of 8×8×1 are due")
    assert again == "there is a class 8 already"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_runtime_that_computes_otherwise_is_found_out(fleets, tmp_path):
    out, swaps, _ = fleets
    shutil.copytree(out, tmp_path / "page")
    bundle = tmp_path / "page" / "bundle"
    with np.load(bundle / "selftest.npz") as stored:
        arrays = dict(stored)
    changed = npz(arrays | {"feature": arrays["feature"] * 1.01})
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["files"]["selftest.npz"] = sha256(changed).hexdigest()
    (bundle / "selftest.npz").write_bytes(changed)
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        by_node(tmp_path / "page", swaps)
    assert "the self-test fails: features differ by" in failed.value.stderr


@pytest.mark.parametrize("case", ["prototype"], indirect=True)
def test_nothing_on_the_page_comes_from_elsewhere(case):
    out = case[0]
    for name in page.OWN:
        text = (out / name).read_text()
        assert "https://" not in text
        assert "http://" not in text


def photo(rng, width, height):
    """Shapes, edges and noise, in colours."""
    at = np.linspace(0, 9, width)[None, :, None] + np.linspace(0, 7, height)[:, None, None]
    waves = 127 + 90 * np.sin(at * rng.uniform(1, 9, 3)) + rng.normal(0, 30, (height, width, 3))
    waves[height // 3 :, width // 2 :] = rng.integers(0, 2, 3) * 255
    return Image.fromarray(np.clip(waves, 0, 255).astype(np.uint8))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_photos_are_made_smaller_as_on_a_device(tmp_path):
    rng, lines, due = np.random.default_rng(3), [], []
    for (width, height), shape in [
        ((640, 480), (224, 224, 3)),
        ((1001, 333), (64, 96, 3)),
        ((333, 1001), (28, 28, 1)),
        ((333, 1001), (28, 28, 3)),
        ((480, 640), (224, 224, 1)),
        ((1001, 333), (28, 28, 1)),
        ((333, 333), (28, 28, 1)),
        ((60, 90), (224, 160, 3)),  # larger, too
        ((224, 224), (224, 224, 3)),
        ((224, 500), (224, 224, 1)),
        ((7, 5), (1, 1, 3)),
    ]:
        picture = photo(rng, width, height)
        mode = "L" if shape[2] == 1 else "RGB"
        smaller = picture.convert(mode).resize(shape[1::-1], Image.Resampling.BILINEAR)
        due.append(np.asarray(smaller).reshape(shape))
        rgba = b64encode(picture.convert("RGBA").tobytes()).decode()
        lines.append(json.dumps({"width": width, "height": height, "shape": shape, "rgba": rgba}))
    (tmp_path / "pictures").write_text("\n".join(lines))
    command = ["node", str(HERE / "resize.mjs"), str(tmp_path / "pictures")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    for line, expected in zip(run.stdout.split(), due, strict=True):
        pixels = np.frombuffer(b64decode(line), np.uint8).reshape(expected.shape)
        # Pillow 13 takes the columns of tall pictures first: a grey level here and there.
        apart = np.abs(pixels.astype(int) - expected)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 0.1


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
@pytest.mark.parametrize(("precision", "kind"), [("fp32", "prototypes"), ("int8", "head")])
def test_an_extractor_gets_its_first_classes_while_it_runs(node_modules, tmp_path, precision, kind):
    x = np.concatenate([pictures(seed, N // 4) for seed in range(4)])
    photos = Trial(x, np.full(N, -1))
    bundle = extractor_bundle(tmp_path / "b", precision, photos)
    made = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    page.write(made, tmp_path / "page", node_modules)
    classifier = Classifier(bundle)
    means = classifier.embed(x).reshape(4, N // 4, -1).mean(1)
    points = Prototypes(np.arange(4), means)
    if kind == "head":
        points = Head(np.arange(4), 2 * means, -(means**2).sum(1))
    bank = Bank(About(bundle.manifest.lineages[0], tuple("abcd")), points)
    out, swaps, due = laid_out(tmp_path / "page", classifier, x, [bank])
    found = by_node(out, swaps)
    assert found["answers"][0]["labels"] == [None] * N
    assert found["answers"][0]["scores"] == [[]] * N
    agrees(found, due)
    assert len(set(found["answers"][1]["labels"])) == 4


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_page_refuses_what_a_device_refuses_and_no_name(tmp_path):
    """Classes may be called like what every object of JavaScript has."""
    names = ["constructor", "__proto__", "<img src=x onerror=alert(1)>"]
    sound = {"lineage": "run:x", "classes": names}
    sure = {**sound, "calibration": {"temperature": 1e-320}}
    abouts = [
        (sound, 1.0, ""),
        (sound, 3e38, "no score of them"),
        (sure, 1.0, "the calibration contradicts itself"),
        ({**sound, "classes": "abc"}, 1.0, "class names"),
        ({**sound, "classes": ["a", "a", "b"]}, 1.0, "class names"),
        ({**sound, "classes": ["a", "b", {}]}, 1.0, "class names"),
        ({**sound, "kind": "mixtures"}, 1.0, ""),
    ]
    for i, (about, number, _) in enumerate(abouts):
        text = np.frombuffer(json.dumps(about).encode(), np.uint8).astype(np.int64)
        points = Prototypes(np.arange(3), np.full((3, 2), number, np.float32))
        parts = {"prototypes": points, "about": Tensors({"json": text})}
        message = wire.encode(wire.Envelope("global", "f", "r", round=9), parts, "float32")
        (tmp_path / f"{i}.cbor").write_bytes(message)
    (tmp_path / "drift.npz").write_bytes(npz({"": np.ones(2, np.float32)}))
    files = [str(tmp_path / f"{i}.cbor") for i in range(len(abouts))]
    command = ["node", str(HERE / "refused.mjs"), str(tmp_path / "drift.npz"), *files]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    for words, (*_, due) in zip(json.loads(run.stdout), abouts, strict=True):
        assert due in words
        assert bool(words) == bool(due)


def refusal(data):
    try:
        graph.check(data)
    except BundleError as error:
        return str(error)
    return ""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_graph_is_let_in_where_a_device_lets_it_in(tmp_path):
    every = [bad for bad, _ in graphs.REFUSED.values() if bad is not None] + [graphs.nested(30)]
    files = [bad if isinstance(bad, bytes) else bad.SerializeToString() for bad in every]
    sound = [foreign().SerializeToString(), graphs.nested(3).SerializeToString()]
    rng = np.random.default_rng(8)
    for whole in sound * 150:
        torn = bytearray(whole)
        for at in rng.integers(0, len(torn), rng.integers(1, 4)):
            torn[at] = rng.integers(0, 256)
        files.append(bytes(torn))
    files += sound
    (tmp_path / "graphs").write_text("\n".join(b64encode(data).decode() for data in files))
    command = ["node", str(HERE / "graphs.mjs"), str(tmp_path / "graphs")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    answers = json.loads(run.stdout)
    assert set(answers["operators"]) == graph.OPERATORS
    due = [refusal(data) for data in files]
    assert [bool(words) for words in answers["words"]] == [bool(words) for words in due]
    assert answers["words"][-2:] == ["", ""]
    assert 30 < sum(map(bool, due[len(every) :])) < 300
    words = zip(answers["words"][: len(every)], due[: len(every)], strict=True)
    assert sum(ours == theirs for ours, theirs in words) > len(every) - 5  # of how numbers read


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_pfb_is_held_to_its_hashes_its_name_and_what_a_manifest_may_say(tmp_path):
    made = contents_of(export(device("mlp", embedding=6), Wanted(by="prototype")))
    manifest, others = made.pop("manifest.json"), dict(made)
    name = sha256(manifest).hexdigest()

    def with_manifest(**changes):
        return archive.pack(
            {"manifest.json": json.dumps(json.loads(manifest) | changes).encode(), **others}
        )

    whole = archive.pack({"manifest.json": manifest, **others})
    cases = [
        (whole, name),
        (whole[:-1], "it does not end as a zip does"),
        (whole[:200] + whole[220:], ""),
        (archive.pack({"manifest.json": manifest, **others, "model.onnx": b"x"}), "is damaged"),
        (archive.pack({"manifest.json": b"{", **others}), "not JSON"),
        (archive.pack(others), "manifest.json is missing"),
        (archive.pack({"manifest.json": bytes(100 << 20)}), "that unpack to"),
        (with_manifest(schema="protofleet-bundle/9"), "is not known here"),
        (with_manifest(tolerance=0.5), "tolerance is not as it should be"),
        (with_manifest(lineages=[]), "lineages is not as it should be"),
        (with_manifest(embedding="6"), "embedding is not as it should be"),
        (with_manifest(state="0" * 64), "is not the state that the manifest names"),
        (with_manifest(files={"../x": "0"}), ""),
        (with_manifest(round=77), "not " + name[:16]),
        (b"", "it does not end as a zip does"),
    ]
    for i, (data, _) in enumerate(cases):
        (tmp_path / f"{i}.pfb").write_bytes(data)
    files = [str(tmp_path / f"{i}.pfb") for i in range(len(cases))]
    command = ["node", str(HERE / "unpacked.mjs"), name, *files]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    for words, (_, due) in zip(json.loads(run.stdout), cases, strict=True):
        assert due in words
        assert words == name if due == name else words != name
        assert "\n" not in words


def announced(digest, name, size=600):
    body = {"of": "bundle", "digest": digest, "size": size, "chunk": 512, "bundle": name}
    return wire.encode(wire.Envelope("slip", "f", "r", 1), body)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_bundle_is_asked_for_where_a_state_waits_for_it_and_once_where_it_is_bad(tmp_path):
    def state(lineage, bundle=""):
        points = Prototypes(np.arange(2), np.eye(2, dtype=np.float32))
        bank = Bank(About(lineage, ("a", "b"), bundle), points)
        return published.write(bank, wire.Envelope("global", "f"))

    junk, names = bytes(range(200)) * 3, ("1" * 64, "2" * 64)
    digests = sha256(junk).hexdigest(), "d" * 64
    proto, bundle, blob = "pf/1/f/g/stable/proto", "pf/1/f/g/stable/bundle", "pf/1/f/d/w/blob/"
    other, own = state("extractor:x", names[0]), state("extractor:own")
    asked = [["ask", blob + "req", digests[0], [[0, 1]]]]
    remark = "these prototypes are of extractor:x, this bundle is of extractor:own"
    script = [
        (bundle, announced(digests[0], names[0]), [["subscribe", proto, bundle, blob + "+/+"]]),
        (proto, other, [["say", remark], *asked]),
        (bundle, announced(digests[0], names[0]), []),  # retained, it comes again
        (blob + digests[0] + "/0", junk[:512], []),
        ("connect", b"", [["ask", blob + "req", digests[0], [[1, 1]]]]),
        (blob + digests[0] + "/1", junk[512:-1], []),  # too short for one
        (blob + digests[0] + "/1", junk[512:], [["say", "the fleet's bundle cannot be used: "]]),
        (proto, other, []),  # it was refused once
        (bundle, announced(digests[0], names[0]), []),
        (bundle, announced(digests[1], names[0]), [["ask", blob + "req", digests[1], [[0, 1]]]]),
        (proto, other, []),
        (proto, own, [["swap"]]),
        ("connect", b"", []),  # nobody wants it any more
        (bundle, announced(digests[0], names[1], 1 << 40), [["say", "what is announced cannot"]]),
        (bundle, other, [["say", "a bundle is announced by a slip"]]),
        (proto, b"\xd2\x84" + own, [["say", "this fleet signs what it says"]]),
        (proto, own[:-1], [["say", "the message is cut short"]]),
        (bundle, b"", []),
    ]
    lines = [json.dumps([topic, b64encode(data).decode()]) for topic, data, _ in script]
    (tmp_path / "script").write_text("\n".join(lines))
    command = ["node", str(HERE / "exchange.mjs"), str(tmp_path / "script")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    *steps, end = [json.loads(line) for line in run.stdout.splitlines()]
    for found, (*_, due) in zip(steps, script, strict=True):
        assert [one[:1] for one in found] == [one[:1] for one in due], (found, due)
        for one, expected in zip(found, due, strict=True):
            assert one[:-1] == expected[:-1]
            assert one[-1] == expected[-1] or one[-1].startswith(expected[-1])
    assert end == [["end"]]
