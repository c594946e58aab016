"""From settings to a watcher that runs."""

import io
from dataclasses import replace

import pytest

from edge_agent.cameras import assembly, origins
from edge_agent.cameras.assembly import WatchPlan, senders_of, watching
from edge_agent.cameras.saying.answers import SceneAnswer
from edge_agent.cameras.saying.outlets import Unsaid
from edge_agent.config import CameraSection
from edge_agent.inference.classifier import Classifier
from edge_agent.updates import cache
from protofleet.errors import SettingError
from protofleet.util.logs import Log
from tests.edge_agent.cameras.test_album import put, upcoming
from tests.watching import knowing_bundle, teach


def section(folder, **settings):
    return replace(CameraSection(sources=(f"yard={folder}",)), **settings)


def test_each_way_to_say_answers_is_named_without_its_secrets(tmp_path):
    words = section(tmp_path, webhook="http://home/api/webhook/secret")
    senders = senders_of(words, {}, Log(io.StringIO()))
    assert list(senders) == ["webhook at home"]
    assert not senders_of(section(tmp_path), {}, Log(io.StringIO()))


def test_a_folder_is_opened_without_a_process(tmp_path):
    (yard,) = origins.cameras_of(section(tmp_path))
    player = assembly.opened(yard)
    put(tmp_path, "a.png", 9)
    assert upcoming(player).image.shape == (40, 50, 3)


class NoSender:
    def send(self, line):
        raise Unsaid("no answer")

    def idle(self): ...

    def close(self): ...


def test_one_process_says_what_is_seen_with_a_bundle(tmp_path):
    bundle = knowing_bundle(tmp_path / "x.pfb")
    plan = WatchPlan(section(tmp_path), bundle, print, {"webhook at home": NoSender()})
    log = Log(io.StringIO())
    with watching(plan, Classifier(bundle), log) as watcher:
        watcher.deps.say(SceneAnswer("lost", "yard", "", 0.0))
        with pytest.raises(SettingError, match="in use"), watching(plan, Classifier(bundle), log):
            pass
    assert (cache.answers_folder(bundle) / "webhook.db").exists()
    with watching(plan, Classifier(bundle), log):
        pass


def test_what_is_left_beside_a_bundle_is_taken_up(tmp_path):
    bundle = knowing_bundle(tmp_path / "x.pfb")
    classifier = Classifier(bundle)
    with watching(
        WatchPlan(section(tmp_path), bundle, print, {}), classifier, Log(io.StringIO())
    ) as watcher:
        assert classifier.loaded.labels == ["a", "b"]
        teach(bundle, "xy")
        watcher.deps.refresh(watcher.counts)
        assert classifier.loaded.labels == ["x", "y"]


def test_a_region_of_no_camera_is_refused(tmp_path):
    bundle = knowing_bundle(tmp_path / "x.pfb")
    plan = WatchPlan(section(tmp_path, regions=("attic/a=0,0,1,1",)), bundle, print, {})
    with pytest.raises(SettingError, match="attic"), watching(plan, Classifier(bundle)):
        pass
