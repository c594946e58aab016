"""fleet.toml: what `init` writes is read back, mistakes are named, and the method has its say in
the contract.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.config import (
    ContractSection,
    FleetConfig,
    ServeSection,
    as_toml,
    data_dir_of,
    load,
)
from protofleet import registry
from protofleet.contract import Input
from protofleet.errors import FleetError, SettingError, UsageError
from protofleet.recipe import Traits

CONTRACT = '[contract]\nclasses = ["a", "b"]\n[contract.input]\nkind = "vector"\nshape = [4]\n'


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "fleet.toml"
        path.write_text(text)
        return path

    return write


def test_what_init_writes_reads_back_as_the_defaults(written, tmp_path):
    # As `edge-agent contract >> fleet.toml` adds it: TOML has a section once.
    config = load(written(as_toml() + CONTRACT), {}, {})
    defaults = FleetConfig(config.contract)
    assert replace(config.serve, data_dir=defaults.serve.data_dir) == defaults.serve
    assert (config.broker, config.admission) == (defaults.broker, defaults.admission)
    assert config.data_dir == tmp_path / "coordinator-data"  # relative to the file


def test_without_its_contract_it_is_said_how_to_get_one(written):
    with pytest.raises(SettingError, match=r"is not given; .*contract --data SOURCE >> fleet.toml"):
        load(written(as_toml()), {}, {})


def test_where_the_journal_is_can_be_read_whatever_else_is_wrong(written, tmp_path):
    path = written('[serve]\ndata_dir = "d"\nmethod = "none such"\n')
    assert data_dir_of(path) == tmp_path / "d"
    with pytest.raises(SettingError, match=r"serve\.data_dir: 3 is not text"):
        data_dir_of(written("[serve]\ndata_dir = 3\n"))


def test_flags_go_before_the_environment_and_that_before_the_file(written):
    path = written(CONTRACT + '[serve]\nfleet = "file"\nrounds = 1\ncut = 1\n')
    environ = {"PROTOFLEET_SERVE_ROUNDS": "2", "PROTOFLEET_SERVE_CUT": "2"}
    serve = load(path, environ, {"serve": {"cut": "3"}}).serve
    assert (serve.fleet, serve.rounds, serve.cut) == ("file", 2, 3)


def test_paths_in_the_file_are_relative_to_the_file(written, tmp_path):
    path = written(CONTRACT + '[serve]\ndata_dir = "d"\n[broker]\nca = "ca.pem"\nkey = ""\n')
    config = load(path, {}, {"broker": {"cert": "here.pem"}})
    assert config.data_dir == tmp_path / "d"
    assert (config.broker.ca, config.broker.key) == (str(tmp_path / "ca.pem"), "")
    assert Path(config.broker.cert) == Path("here.pem")  # as it was said on the command line


@pytest.mark.parametrize(
    ("text", "flags", "error", "words"),
    [
        ("", {}, SettingError, "the fleet's [contract] is not given"),
        (CONTRACT + "[serv]\nx = 1", {}, SettingError, "did you mean 'serve'?"),
        (CONTRACT + "[serve]\nquorum = 2", {}, SettingError, "serve.quorum: 2"),
        (CONTRACT, {"serve": {"method": "fedprot"}}, UsageError, "did you mean 'fedproto'"),
        (CONTRACT, {"settings": {"smoth": "1"}}, SettingError, "'settings.smoth'; did you mean"),
        (
            CONTRACT,
            {"serve": {"mode": "async", "method": "fedic"}},
            UsageError,
            "fedic cannot fuse uploads as they come; use --mode sync",
        ),
        (CONTRACT.replace('"a", "b"', '"a", "a"'), {}, None, ""),
        (
            CONTRACT.replace('"a", "b"', ""),
            {"serve": {"method": "fedproto"}},
            SettingError,
            "the fleet's [contract] is not given",
        ),
        (
            CONTRACT.replace("classes", 'extractor = "x.pfb"\nclasses'),
            {"serve": {"method": "fedproto"}},
            SettingError,
            "contract.extractor: devices of fedproto train their own",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(written, text, flags, error, words):
    if error is None:  # classes are looked at when the contract is made
        config = load(written(text), {}, flags)
        with pytest.raises(SettingError, match="names must differ"):
            config.contract_for("r", registry.load("fleet"))
        return
    with pytest.raises(error, match=re.escape(words)) as caught:
        load(written(text), {}, flags)
    assert isinstance(caught.value, FleetError)
    assert "\n" not in str(caught.value)


def test_an_extractor_says_what_a_fleet_that_adds_up_contributions_needs(written, tmp_path):
    config = load(written('[contract]\nextractor = "eye/x.pfb"\n[ledger]\nsettle = 5\n'), {}, {})
    assert config.contract.extractor == str(tmp_path / "eye/x.pfb")
    assert (config.ledger.settle, config.ledger.interval, config.ledger.asked) == (5.0, 1.0, 50)
    kind = Input("image", (8, 8, 3))
    contract = config.contract_for("r", registry.load("fleet"), kind)
    assert (contract.classes, contract.input) == ((), kind)


def test_a_methods_settings_are_kept_as_they_are_written(written):
    config = load(written(CONTRACT + "[settings]\nsmooth = 0.5\n"), {}, {})
    assert config.settings == {"smooth": 0.5}


SECTION = ContractSection(("a",), Input("vector", (4,)), head_hidden=(8,))


@pytest.mark.parametrize("option", ["head_relu", "unit_logits"])
@pytest.mark.parametrize(("frozen", "there"), [(False, True), (True, False)])
def test_a_method_whose_classifier_is_rows_of_its_own_has_nothing_behind_them(
    frozen, there, option
):
    config = FleetConfig(replace(SECTION, **{option: True}), ServeSection(fleet="orchard"))
    recipe = replace(registry.load("fedproto"), traits=Traits(frozen=frozen))
    assert getattr(config.contract_for("r1", recipe), option) is there


@pytest.mark.parametrize(
    ("section", "traits", "contract"),
    [
        ({}, {}, (128, False, False, (8,))),
        ({}, {"embedding": 32, "common_start": True}, (32, True, False, (8,))),
        ({"embedding": 16}, {"embedding": 32}, (16, False, False, (8,))),
        ({"freeze": True}, {}, (128, True, True, (8,))),  # alike only if they start alike
        ({"freeze": True, "common_start": False}, {}, (128, False, True, (8,))),
        ({}, {"frozen": True}, (128, True, True, ())),
        ({"embedding": 16}, {"linear_head": True}, (8, False, False, ())),
        ({"embedding": 8, "head_hidden": (), "neck": (16, 8)}, {}, (8, False, False, ())),
    ],
)
def test_what_the_section_leaves_open_the_method_decides(section, traits, contract):
    config = FleetConfig(replace(SECTION, **section), ServeSection(fleet="orchard"))
    recipe = replace(registry.load("fedproto"), traits=Traits(**traits))
    made = config.contract_for("r1", recipe)
    assert (made.fleet, made.run) == ("orchard", "r1")
    assert (made.embedding, made.common_start, made.freeze, made.head_hidden) == contract
    assert made.neck == ((16, 8) if made.embedding == 8 else ())
