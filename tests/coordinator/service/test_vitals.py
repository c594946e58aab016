"""What a service says of itself: the age of what it published, its disk, when its certificates
end.
"""

import time

from coordinator.members.office import FOLDER, Office
from coordinator.service.vitals import certificates, disk, vitals
from protofleet.trust.certificates import DAYS
from tests.contributing import arrived, message
from tests.coordinator.made import core, ledger

DAY = 86_400


def test_a_version_is_as_old_as_the_journal_says_in_the_next_life_too(tmp_path):
    made = ledger(tmp_path)
    assert vitals(made, {})["version_age_seconds"] is None
    assert vitals(made, {})["held_out"]["accuracy"] is None
    made.take([arrived("a", message("a", ("plum", "apple")))], 1.0)
    made.take([], 2.0)
    number, at = made.keeper.number, made.keeper.numbered_at
    assert number == 1
    assert vitals(made, {}, wall=at + 60)["version_age_seconds"] == 60
    made.journal.close()
    again = core(tmp_path, method="fleet", contract=made.terms.expected.contract)
    again.recover(0.0)
    assert again.keeper.numbered_at == at
    assert vitals(again, {}, wall=at - 5)["version_age_seconds"] == 0  # a clock that was set back


def test_the_end_of_each_certificate_is_told(tmp_path):
    assert certificates(tmp_path / FOLDER) == {}
    office = Office(tmp_path, "f", time.time)
    office.write_broker_files(("mqtts://localhost:8883",))
    office.close()
    ends = certificates(tmp_path / FOLDER)
    assert set(ends) == {"authority", "broker"}
    assert abs(ends["broker"] - time.time() - DAYS * DAY) < DAY
    (tmp_path / FOLDER / "broker" / "broker.pem").write_text("no certificate")
    assert set(certificates(tmp_path / FOLDER)) == {"authority"}


def test_a_disk_that_nobody_can_measure_has_no_figure(tmp_path):
    assert disk(tmp_path / "none") == {"free_bytes": None, "journal_bytes": 0}
    assert disk(tmp_path)["free_bytes"] > 0
