"""A contribution brought by a command, whole or in pieces, and the fleet's sums fetched by one."""

import numpy as np
import pytest

from edge_agent.updates.offer import fetched_total, offer
from protofleet.errors import LinkError
from protofleet.exchange import contributed
from protofleet.exchange.contributed import Claim, Contributed
from protofleet.mqtt.address import Address
from protofleet.mqtt.broker import mosquitto
from protofleet.mqtt.broker.run import running_broker
from protofleet.statistics.contribution import Grid, contribution, fold
from protofleet.wire import Envelope
from tests.edge_agent.ledgering import ScriptedLedger

LINEAGE = "extractor:x"


def sums(width=8):
    rng = np.random.default_rng(width)
    return contribution(rng.normal(size=(150, width)), np.zeros(150), Grid())


def message(width=8):
    envelope = Envelope("enrol", "f", agent="a", method="contribute")
    return contributed.write_contribution(Claim(LINEAGE, ("owl",), "owl"), sums(width), envelope)


@pytest.mark.skipif(mosquitto.find() is None, reason="mosquitto is not installed")
def test_it_goes_whole_or_in_pieces_and_the_sums_come_back(tmp_path):
    with running_broker(tmp_path / "broker", prefer="mosquitto") as broker:
        ledger = ScriptedLedger(broker.address.port, tmp_path)
        ledger.lineage = LINEAGE
        try:
            large = message(1024)  # two packets
            for payload in (message(), large):
                assert offer(payload, broker.address, "f", "a").status == "accepted"
                assert isinstance(ledger.messages[-1], Contributed)
            assert len(ledger.incoming) == 1
            ledger.status = "refused"
            answer = offer(message(), broker.address, "f", "a")
            assert (answer.status, answer.words) == ("refused", "no")
            payload = ledger.total(fold(sums(), Grid()), ("owl",), "ab" * 32)
            assert fetched_total(broker.address, "f", "a") == payload
        finally:
            ledger.stop()


def test_an_answer_that_does_not_come_is_one_line():
    with pytest.raises(LinkError, match="no answer from the coordinator"):
        offer(message(), Address.parse("mqtt://127.0.0.1:9"), "f", "a", patience=0.3)
