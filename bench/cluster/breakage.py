"""What is broken under load: a run worker is killed, SeaweedFS is restarted, each serving process is replaced."""

from __future__ import annotations

import threading
import time
from collections import Counter

import httpx
import psutil

from bench.cluster.site import SERVING, ClusterSite
from bench.soak.people import client, error_kind

PAUSE_SECONDS = 0.05
SEARCHERS = 2
DOWN_SECONDS = 5.0
WORKER_SECONDS = 60.0
PROBE = "canteen"


class Load(threading.Thread):
    """Searches through the proxy until the end; counts what failed."""

    def __init__(self, site: ClusterSite, until: threading.Event) -> None:
        super().__init__(name="load", daemon=True)
        self.answered = 0
        self.failures: Counter[str] = Counter()
        self._http, self._until = client(site, "probe@soak.example"), until

    def run(self) -> None:
        """Search until the end."""
        with self._http:
            while not self._until.wait(PAUSE_SECONDS):
                try:
                    answer = self._http.post("/api/rag/search", json={"query": f"{PROBE} {self.answered}", "top_k": 3})
                except httpx.HTTPError as error:
                    self.failures[error_kind(error)] += 1
                    continue
                if answer.status_code == 200 and not answer.json()["warnings"]:
                    self.answered += 1
                else:
                    self.failures[
                        error_kind(answer) if answer.status_code != 200 else str(answer.json()["warnings"])
                    ] += 1


def kill_a_worker(site: ClusterSite) -> str:
    """Kill a run worker that works. Returns what was done."""
    deadline = time.monotonic() + WORKER_SECONDS
    while time.monotonic() < deadline:
        for worker in site.processes()["run worker"]:
            try:
                busy = worker.cpu_percent(0.2) > 20 and time.time() - worker.create_time() > 20
            except psutil.Error:
                continue
            if busy:
                worker.kill()
                return f"run worker {worker.pid} killed"
    raise SystemExit(f"No run worker was busy for {WORKER_SECONDS:.0f} s.")


def restart_storage(site: ClusterSite) -> str:
    """Stop SeaweedFS for some seconds. Returns what was done."""
    site.parts["seaweedfs"].stop()
    time.sleep(DOWN_SECONDS)
    site.parts["seaweedfs"].start()
    return f"SeaweedFS was away for {DOWN_SECONDS:.0f} s"


def replace_serving(site: ClusterSite) -> str:
    """Replace each serving process by a new one, one after the other. Returns what was done."""
    for name in SERVING:
        status = site.parts[name].stop()
        if status != 0:
            raise SystemExit(f"{name} ended with status {status}.")
        site.parts[name].start()
        site.await_ready()
    return f"{', '.join(SERVING)} replaced"
