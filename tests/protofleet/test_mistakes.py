"""A mistake in a method of somebody's own is one line that says where; ours is not covered up."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from protofleet import mistakes, registry
from protofleet.mistakes import RecipeError

SOURCE = """
def deeper(weights):
    return weights["lamb"]

def train(turn, learner, state):
    return deeper({})
"""


@pytest.fixture
def theirs(monkeypatch):
    module = ModuleType("somebodys_method")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(SOURCE, "/somewhere/somebodys_method.py", "exec"), vars(module))
    return replace(registry.load("fedproto"), name="theirs", train=module.train)


def test_it_names_method_function_file_and_line(theirs):
    words = r"method 'theirs': deeper\(\) in somebodys_method.py, line 3: KeyError: 'lamb' \(bad-m"
    with pytest.raises(RecipeError) as caught, mistakes.named(theirs):
        theirs.train(None, None, {})
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(RecipeError, match=words.removesuffix(r" \(bad-m")):
        raise caught.value


def test_what_is_not_theirs_stays_as_it_is(theirs):
    with pytest.raises(ZeroDivisionError), mistakes.named(theirs):
        1 / 0  # noqa: B018
    ours = registry.load("fedproto")
    with pytest.raises(AttributeError), mistakes.named(ours):
        ours.train(None, None, {})
