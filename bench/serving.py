"""Run the HTTP service alone, in `CONCORDANCE_SERVING_WORKERS` processes, until SIGTERM."""

import signal
import sys
import threading

from orchestration.supervision.serving import Serving
from orchestration.supervision.supervisor import Supervisor
from resources.settings import load


def main() -> int:
    """Run it."""
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    settings = load()
    supervisor = Supervisor(settings, [Serving(settings).services()])
    supervisor.start()
    ending.wait()
    supervisor.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
