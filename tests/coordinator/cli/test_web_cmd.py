"""`coordinator web` needs a coordinator's directory, and is no part of the service."""

from click.testing import CliRunner

from coordinator.cli.web_cmd import web
from protofleet.errors import UsageError
from tests.children import run


def test_a_directory_of_nobody_is_no_coordinators(tmp_path):
    outcome = CliRunner().invoke(web, ["--data-dir", str(tmp_path / "none")])
    assert isinstance(outcome.exception, UsageError)
    assert "no coordinator's directory" in str(outcome.exception)


def test_help_shows_how_to_look_and_how_to_steer():
    text = CliRunner().invoke(web, ["--help"]).output
    assert "http://127.0.0.1:8321/" in text
    assert "--child" not in text


def test_the_service_does_not_load_what_serves_its_page():
    loaded = run(
        "import sys, coordinator.cli.serve_cmd, coordinator.service.build\nprint(*sys.modules)"
    )
    assert not {"starlette", "uvicorn", "coordinator.web"} & set(loaded.split())
