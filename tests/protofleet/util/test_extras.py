import pytest

from protofleet.errors import UsageError
from protofleet.util.extras import check_installed


def test_a_package_that_is_there_is_no_matter():
    check_installed("numpy", "privacy", "sums")


def test_one_that_is_missing_is_named_with_what_installs_it():
    with pytest.raises(UsageError, match=r"masks need the package nonesuch; pip .*\[privacy\]"):
        check_installed("nonesuch", "privacy", "masks")
