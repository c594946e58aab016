"""What a process leaves when it is over."""

import sys

from edge_agent.worker.process import last_words, launched, report_of


def test_a_report_is_one_document_and_the_last_line_says_why():
    code = "import sys; print('{\"a\": 1}'); sys.exit('warning: x\\nerror: it fails')"
    process = launched([sys.executable, "-c", code])
    assert process.wait() == 1
    assert (report_of(process), last_words(process)) == ({"a": 1}, "it fails")


def test_what_is_no_document_is_nothing():
    process = launched([sys.executable, "-c", "print('[1, 2')"])
    process.wait()
    assert (report_of(process), last_words(process)) == ({}, "")
