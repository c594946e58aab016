"""What a scrape is answered, read back by the client library's own parsers."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from protofleet.metrics.exposition import exposition
from protofleet.metrics.families import by, counter, gauge, histogram, info

FAMILIES = (
    info("protofleet_run_info", "Which run.", fleet="f", run='r"\\1'),
    gauge("protofleet_round", "Its number.", 3),
    gauge("protofleet_accuracy_ratio", "Never measured.", None),
    by("counter", "protofleet_uploads_refused_total", "By reason.", "reason", {"old-body": 2}),
    counter("protofleet_uploads_total", "Let in.", 7),
    histogram("protofleet_fusion_seconds", "How long.", (0.1, 1.0), (2, 0, 3), 9.5),
)
READ = {
    ("protofleet_run_info", (("fleet", "f"), ("run", 'r"\\1'))): 1.0,
    ("protofleet_round", ()): 3.0,
    ("protofleet_uploads_refused_total", (("reason", "old-body"),)): 2.0,
    ("protofleet_uploads_total", ()): 7.0,
    ("protofleet_fusion_seconds_bucket", (("le", "0.1"),)): 2.0,
    ("protofleet_fusion_seconds_bucket", (("le", "1.0"),)): 2.0,
    ("protofleet_fusion_seconds_bucket", (("le", "+Inf"),)): 5.0,
    ("protofleet_fusion_seconds_count", ()): 5.0,
    ("protofleet_fusion_seconds_sum", ()): 9.5,
}


def read(parse, text):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in parse(text)
        for sample in metric.samples
    }


def test_both_formats_say_the_same_and_leave_out_what_is_not_measured():
    answer = exposition(FAMILIES)
    assert answer.content_type.startswith("text/plain")
    assert read(plain, answer.body.decode()) == READ
    answer = exposition(FAMILIES, "application/openmetrics-text; version=1.0.0")
    assert answer.content_type.startswith("application/openmetrics-text")
    assert read(open_metrics, answer.body.decode()) == READ
