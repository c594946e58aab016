"""Addresses as people write them, and no password anywhere but where it is opened."""

import pytest

from edge_agent.cameras import origins
from edge_agent.config import CameraSection
from protofleet.errors import SettingError, UsageError


def one(text, **logins):
    (origin,) = origins.parse([text], logins)
    return origin


def test_each_kind_has_a_name_of_its_own_or_its_address_gives_one(tmp_path):
    (tmp_path / "in coming").mkdir()
    rows = [
        ("door=rtsp://10.0.0.7:8554/stream", ("door", "rtsp", "rtsp://10.0.0.7:8554/stream")),
        ("http://cam.local/mjpeg", ("cam-local", "mjpeg", "http://cam.local/mjpeg")),
        ("/dev/video2", ("video2", "device", "/dev/video2")),
        (str(tmp_path / "in coming"), ("in-coming", "folder", str(tmp_path / "in coming"))),
        ("rtsp://[fe80::1]/s", ("fe80-1", "rtsp", "rtsp://[fe80::1]/s")),
    ]
    for text, due in rows:
        origin = one(text)
        assert (origin.name, origin.kind, origin.shown) == due
        assert origin.address == origin.shown


def test_a_password_is_opened_and_never_shown():
    inside = one("door=rtsp://me:p%40ss@cam/s")
    beside = one("door=rtsp://cam/s", door="me:p@ss")
    for origin in (inside, beside):
        assert origin.address == "rtsp://me:p%40ss@cam/s"
        assert "ss" not in repr(origin)
    query = one("http://cam/video?user=me&pwd=secret")
    assert query.address == "http://cam/video?user=me&pwd=secret"
    assert "secret" not in repr(query)
    assert query.name == "cam"


def test_a_query_with_an_equals_sign_is_no_name():
    assert one("rtsp://cam/s?channel=1").address == "rtsp://cam/s?channel=1"


@pytest.mark.parametrize(
    "text", ["", "door=", "ftp://cam/s", "file:///etc/passwd", "rtsp:///s", "rtsp://cam:99999/s"]
)
def test_what_is_no_camera_is_one_line(text):
    with pytest.raises(SettingError) as refused:
        origins.parse([text])
    assert "\n" not in str(refused.value)


def test_two_of_one_name_are_refused():
    with pytest.raises(SettingError, match="two cameras"):
        origins.parse(["rtsp://cam/1", "rtsp://cam/2"])


def test_logins_are_a_line_each_and_no_line_is_repeated_in_an_error(tmp_path):
    file = tmp_path / "logins"
    file.write_text("# cameras\n\ndoor me:a b:c\n")
    assert origins.logins_of(file) == {"door": "me:a b:c"}
    file.write_text("door secret\n")
    with pytest.raises(SettingError) as refused:
        origins.logins_of(file)
    assert "line 1" in str(refused.value)
    assert "secret" not in str(refused.value)
    with pytest.raises(SettingError, match="no camera is called"):
        origins.parse(["door=rtsp://cam/s"], {"yard": "me:secret"})


def test_cameras_are_named_or_it_is_a_usage_error(tmp_path):
    (yard,) = origins.cameras_of(CameraSection(sources=(f"yard={tmp_path}",)))
    assert (yard.name, yard.kind) == ("yard", "folder")
    with pytest.raises(UsageError, match="no camera"):
        origins.cameras_of(CameraSection())


def test_streams_name_the_package_that_they_need(monkeypatch):
    from protofleet.util import extras

    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"protofleet\[camera\]"):
        origins.cameras_of(CameraSection(sources=("rtsp://cam/s",)))
