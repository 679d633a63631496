"""Long work lowers the priority of its process, wherever that was before."""

import os
import subprocess
import sys

import pytest

LOWER = """
import os
from resources import priority
os.setgroups([]) if os.geteuid() == 0 else None
os.setuid(65534) if os.geteuid() == 0 else None  # only root may raise a priority
priority.lower()
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.parametrize(("before", "after"), [(0, 10), (15, 15)])
def test_a_priority_is_lowered_and_never_raised(before: int, after: int) -> None:
    if os.getpriority(os.PRIO_PROCESS, 0) > before:
        pytest.skip("this test runs at a lower priority")
    command = [sys.executable, "-c", LOWER]
    done = subprocess.run(
        command,
        preexec_fn=lambda: os.setpriority(os.PRIO_PROCESS, 0, before),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(after)), done.stderr
