"""The bench of the alignment compares two ways to the same result (how fast either is, it tells and
no test asks).
"""

import numpy as np

from protofleet.toolbox import alignment
from simulators.speed import align


def test_the_formula_as_written_and_ours_give_the_same_forces():
    points = alignment.units(
        np.random.default_rng(0).standard_normal((12, align.DIM)), np.random.default_rng(1)
    )
    np.testing.assert_allclose(align.pairwise_forces(points), alignment.forces(points), atol=1e-9)


def test_blocks_of_rows_fit_the_room_there_is():
    assert align.block_rows(10) == 10
    assert align.block_rows(1000) * 1000 * align.DIM * 8 <= align.BLOCK_BYTES
