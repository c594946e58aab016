import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.training.batches import (
    SampleTensors,
    blocks,
    prepare,
    smallest_batch,
    training_batches,
)
from protofleet.contract import Input, Numerics

IMAGE = Input("image", (8, 8, 3), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))


def samples(n=20, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8), np.arange(n)


def test_images_are_scaled_and_normalised_per_channel():
    x, y = samples()
    want = (x / 255.0 - IMAGE.mean) / IMAGE.std
    got = prepare(SampleTensors.of(x, y, IMAGE).x, IMAGE, Numerics())
    assert np.allclose(got.numpy(), np.moveaxis(want, 3, 1), atol=1e-6)


@given(st.integers(1, 40), st.integers(1, 12))
def test_a_pass_sees_every_sample_once_but_for_a_last_one_alone(n, size):
    x, y = samples(n)
    got = list(
        training_batches(
            SampleTensors.of(x, y, IMAGE), IMAGE, Numerics(), size, "none", np.random.default_rng(1)
        )
    )
    seen = sorted(label for batch in got for label in batch.y.tolist())
    alone = size > 1 and n > 1 and n % size == 1
    assert len(seen) == n - alone == len(set(seen))
    assert all(len(batch.y) == size for batch in got[:-1])


@given(st.integers(1, 40), st.integers(1, 12), st.booleans())
def test_a_last_batch_that_is_not_full_may_be_left_out_unless_it_is_the_only_one(n, size, drop):
    x, y = samples(n)
    got = list(
        training_batches(
            SampleTensors.of(x, y, IMAGE),
            IMAGE,
            Numerics(),
            size,
            "none",
            np.random.default_rng(1),
            drop_last=drop,
        )
    )
    sizes = [len(batch.y) for batch in got]
    assert min(sizes) == smallest_batch(n, size, drop_last=drop)
    if drop:  # as a DataLoader with drop_last, but never nothing at all
        assert sizes == ([size] * (n // size) or [n])


def test_inputs_follow_their_labels_and_stored_samples_stay_as_they_are():
    x, y = samples()
    held = SampleTensors.of(x, y, IMAGE)
    kept = held.x.clone()
    ready = prepare(held.x, IMAGE, Numerics())
    for batch in training_batches(held, IMAGE, Numerics(), 6, "none", np.random.default_rng(1)):
        assert torch.equal(batch.x, ready[batch.y])
    assert torch.equal(held.x, kept)
    vector = SampleTensors.of(
        np.ones((4, 2), np.float32), np.arange(4), Input("vector", (2,), (1.0, 1.0), (2.0, 2.0))
    )
    assert (
        prepare(vector.x, Input("vector", (2,), (1.0, 1.0), (2.0, 2.0)), Numerics()).abs().max()
        == 0
    )
    assert vector.x.min() == 1


def test_crop_and_flip_give_windows_of_the_padded_image():
    x, y = samples(12)
    kind = Input("image", (8, 8, 3))
    held = SampleTensors.of(x, y, kind)
    padded = np.pad(np.moveaxis(x, 3, 1), ((0, 0), (0, 0), (4, 4), (4, 4))) / np.float32(255)
    kinds = set()
    for batch in training_batches(held, kind, Numerics(), 4, "crop-flip", np.random.default_rng(3)):
        for image, label in zip(batch.x.numpy(), batch.y.tolist(), strict=True):
            windows = [
                (flip, r, c)
                for flip, view in ((False, image), (True, image[:, :, ::-1]))
                for r in range(9)
                for c in range(9)
                if np.allclose(view, padded[label][:, r : r + 8, c : c + 8], atol=1e-6)
            ]
            assert windows
            kinds.add(windows[0])
    assert len(kinds) > 6
    assert {flip for flip, _, _ in kinds} == {True, False}


def test_channels_last_is_the_same_numbers():
    x, y = samples()
    plain, last = (
        prepare(SampleTensors.of(x, y, IMAGE).x, IMAGE, Numerics(layout=v))
        for v in ("contiguous", "channels-last")
    )
    assert torch.equal(plain, last)
    assert last.is_contiguous(memory_format=torch.channels_last)


def test_blocks_go_through_everything_in_order():
    x, y = samples(2500)
    got = torch.cat(list(blocks(SampleTensors.of(x, y, IMAGE), IMAGE, Numerics())))
    assert torch.equal(got, prepare(SampleTensors.of(x, y, IMAGE).x, IMAGE, Numerics()))
