"""How much work something is, by what the interpreter does and not by a clock."""

import sys


def steps(work):
    """Instructions of Python that it takes, calls into C counted as one each."""
    count = 0

    def watch(frame, event, what):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
