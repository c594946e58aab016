"""Every kind of error has a code of its own, tells a program what to do by its exit code, and
crosses from a worker.
"""

import pickle

import pytest

from protofleet import errors
from protofleet.errors import FleetError


def kinds(of: type[FleetError] = FleetError) -> list[type[FleetError]]:
    here = [kind for kind in of.__subclasses__() if kind.__module__ == errors.__name__]
    return [*here, *(below for kind in here for below in kinds(kind))]


@pytest.mark.parametrize("kind", kinds())
def test_an_error_crosses_a_pipe_whole(kind):
    again = pickle.loads(pickle.dumps(kind("the disk is full", "make room")))
    assert type(again) is kind
    assert (again.words, again.hint, str(again)) == (
        "the disk is full",
        "make room",
        "the disk is full; make room",
    )


def test_codes_are_told_apart_but_where_one_error_is_a_kind_of_another():
    by_code: dict[str, list[type[FleetError]]] = {}
    for kind in kinds():
        by_code.setdefault(kind.code, []).append(kind)
    shared = {code: those for code, those in by_code.items() if len(those) > 1}
    # A training that diverged is bad data to whoever reads codes; who trains tells them apart.
    assert shared == {"bad-data": [errors.DataError, errors.TrainingDiverged]}


def test_wrong_words_end_in_two_and_all_else_in_one():
    for kind in kinds():
        assert kind.exit_code == (2 if issubclass(kind, errors.UsageError) else 1)
