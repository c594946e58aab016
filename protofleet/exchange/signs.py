"""Whether one classifier is worse than another on the same samples, by those alone on which they
differ.
"""

# Of samples that both get right or both get wrong nothing is learnt. Of the others, were the two
# equally good, each would be as likely a gain as a loss: the sign test. A few samples lost are
# chance, and a device has few samples; so a loss counts where it is larger than a margin and so
# unlikely by chance as LEVEL. With 100 samples ten points are seen (12 lost, 2 gained: 0.6 %), with
# 50 fifteen; the fleet's sum sees what no single device can.

from __future__ import annotations

import math

LEVEL = 0.01
MANY = 1000  # beyond so many the binomial is normal to three digits


def chance(better: int, worse: int) -> float:
    """How likely so many losses or more are among samples that are as likely gains."""
    n = better + worse
    if n > MANY:
        z = (worse - 0.5 - n / 2) / math.sqrt(n / 4)
        return 0.5 * math.erfc(z / math.sqrt(2))
    return sum(math.comb(n, k) for k in range(worse, n + 1)) / float(2**n)


def is_worse(better: int, worse: int, samples: int, margin: float) -> bool:
    """Whether more of the samples is lost than the margin, and not by chance."""
    return worse - better > margin * samples and chance(better, worse) < LEVEL
