"""Processes that run by themselves."""

import subprocess
import sys

BECOME = """
import os, signal, sys
from orchestration import standalone
signal.signal(signal.SIGINT, signal.SIG_IGN)
shown = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
standalone._become([sys.executable, "-c", shown], dict(os.environ))
"""


def test_one_that_a_script_starts_in_the_background_can_be_stopped() -> None:
    """A shell without job control has what `&` starts ignore SIGINT, and Dagster then ignored SIGTERM, too."""
    shown = subprocess.run([sys.executable, "-c", BECOME], capture_output=True, text=True, check=True)
    assert shown.stdout == "True\n"
