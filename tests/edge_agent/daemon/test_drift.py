"""What is new is told once, not too often, and again to whoever did not hear it."""

from edge_agent.daemon.drift import EVERY, LOOK, DriftNews
from tests.edge_agent.recent.test_window import LEAST, LINEAGE, fill


def test_a_report_is_told_once_and_again_to_a_new_listener(tmp_path):
    bundle, told, clock = tmp_path / "x.pfb", [], [0.0]
    news = DriftNews(bundle, lambda: clock[0])

    def later(seconds=2 * LOOK):
        clock[0] += seconds
        told.clear()
        news.look(told.append)
        return [one["drift"]["blocks"] for one in told]

    assert later() == []
    fill(bundle, LEAST)
    assert later() == [LEAST]
    assert told[0]["drift"]["lineage"] == LINEAGE
    assert later(EVERY) == []
    fill(bundle, 1, start=LEAST)
    assert later() == [LEAST + 1]
    fill(bundle, 1, start=LEAST + 1)
    assert later() == []  # so soon after the last one
    assert later(EVERY) == [LEAST + 2]
    news.again()
    assert later() == [LEAST + 2]
