"""Code in a process of its own."""

import subprocess
import sys


def run(code):
    """Its output; a failure is the test's."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout
