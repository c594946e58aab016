"""A device's own classes as the prior of the fleet's classifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from protofleet.values.prototypes import Head


def with_prior(head: Head, counts: ArrayLike, temper: float, smooth: float) -> Head:
    """Less sure by `temper`, and classes as likely beforehand as these counts and `smooth` more of
    each say.
    """
    # Bayes: the score is log-likelihood + log-prior. Dividing the first by T > 1 makes up for
    # dimensions that are not independent, as the model has them, and would drown any prior.
    # `smooth` > 0 keeps log finite for a class that the device never held, which it may meet all
    # the same.
    prior = np.asarray(counts, np.float64)[head.classes] + smooth
    log_prior = np.log(prior / prior.sum())
    return Head(
        head.classes,
        head.weight / np.float32(temper),
        (head.bias / temper + log_prior).astype(np.float32),
    )
