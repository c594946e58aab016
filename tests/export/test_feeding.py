"""Size and scale as people write them, and what is refused rather than guessed."""

import pytest

from export.feeding import HALF, SCALES, SourceTerms, fed, numbers, scale_of, shown, size_of
from protofleet.contract import Input
from protofleet.errors import UsageError


@pytest.mark.parametrize(("text", "size"), [("224", (224, 224)), ("192x256", (192, 256))])
def test_a_size_is_a_side_or_height_by_width(text, size):
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "-3", "224x", "224×224", "1e3", "2.5"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="is no size; 224"):
        size_of(text)


def test_a_scale_is_a_name_or_numbers():
    assert scale_of("imagenet") == SCALES["imagenet"]
    assert scale_of("0.4/0.2") == ((0.4,), (0.2,))
    assert scale_of("0.5,0.4,0.3/0.25") == ((0.5, 0.4, 0.3), (0.25, 0.25, 0.25))


@pytest.mark.parametrize("text", ["", "imagnet", "0.5", "a/b", "0.5/0", "1,2/1,2,3", "0/-1"])
def test_what_is_no_scale_is_refused(text):
    with pytest.raises(UsageError, match="is none of imagenet, half"):
        scale_of(text)


def test_numbers_of_whole_pixels_are_not_taken_for_shares():
    with pytest.raises(UsageError, match="divide its numbers by 255"):
        scale_of("127/128")


def test_one_number_serves_every_channel_and_others_must_be_as_many():
    assert fed("it", (8, 8, 3), HALF).mean == (0.5,) * 3
    assert fed("it", (8, 8, 1), HALF).std == (0.5,)
    with pytest.raises(UsageError, match="takes 1 channels, the scale has numbers for 3"):
        fed("it", (8, 8, 1), SCALES["imagenet"])


def test_a_sources_own_size_and_scale_yield_to_the_callers():
    own = SourceTerms("net").input(64, HALF)
    assert (own.shape, own.mean) == ((64, 64, 3), (0.5,) * 3)
    other = SourceTerms("net", size=(32, 48), scale=SCALES["0..1"]).input(64, HALF)
    assert (other.shape, other.mean, other.std) == ((32, 48, 3), (0.0,) * 3, (1.0,) * 3)


def test_neither_is_made_up():
    with pytest.raises(UsageError, match="net has no image size of its own; --size"):
        SourceTerms("net").input(None, HALF)
    with pytest.raises(UsageError, match="net does not say how its pixels are scaled; --scale"):
        SourceTerms("net").input(64, None)


def test_the_feeding_is_said_in_words():
    assert shown(fed("it", (8, 8, 3), SCALES["imagenet"])) == "8×8 RGB, scale imagenet"
    assert shown(fed("it", (8, 6, 1), HALF)) == "8×6 grey, scale half"
    assert shown(fed("it", (8, 8, 3), ((0.4,), (0.2,)))) == "8×8 RGB, scale (0.4) / (0.2)"


def test_vectors_and_series_are_fed_as_they_are_or_by_numbers_of_their_own():
    assert numbers("vector", "13", "") == Input("vector", (13,))
    series = numbers("series", "200x2", "-1,0/2")
    assert (series.shape, series.mean, series.std) == ((200, 2), (-1.0, 0.0), (2.0, 2.0))
    assert shown(series) == "series of 200×2 numbers, scaled"
    for kind, size, scale in [
        ("vector", "13x2", ""),
        ("series", "13", ""),
        ("vector", "", ""),
        ("vector", "2", "imagenet"),
        ("vector", "2", "1,2,3/1"),
    ]:
        with pytest.raises(UsageError):
            numbers(kind, size, scale)
