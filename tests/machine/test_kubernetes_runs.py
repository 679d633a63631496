"""Runs in a cluster: the overlay's objects, its `dagster.yaml` unchanged, and a simulated Kubernetes that starts their containers."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from deploy import manifests
from resources import keys
from resources.servers.processes import free_port
from simulators import serve
from simulators.drive import DriveApp, SimulatedDrive
from tests.fixtures.kubelet import ROOT, may_isolate
from tests.fixtures.kubernetes import Cluster, Pod
from tests.fixtures.postgres import PostgresProcess, copy_cluster, home_settings, make_home
from tests.fixtures.s3 import BUCKET, S3Server
from tests.fixtures.vector import VectorProcess
from tests.fixtures.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")

DRIVES, FILES = 4, 3
NAMES = [f"note-{number}-{file}.txt" for number in range(DRIVES) for file in range(FILES)]
QDRANT_KEY, DAGSTER_KEY = "q" * 32, "d" * 40
PARTS = ("code", "webserver", "daemon", "serve")


class Site:
    """The overlay's processes in their pods, on a real Postgres and vector server, with a simulated Drive and object storage."""

    def __init__(self, cluster: Cluster, drive: SimulatedDrive, postgres: str, ports: dict[str, int]) -> None:
        self.cluster, self.drive, self._postgres = cluster, drive, postgres
        self._addresses = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        cluster.submit(cluster.objects["Job", "migrate"])
        self.parts = {name: cluster.deploy(name) for name in PARTS}
        for name in ("webserver", "serve"):
            until(partial(self._ready, name), f"the start of {name}")
        self._stop_schedules()

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        with psycopg.connect(self._postgres, row_factory=dict_row, autocommit=True) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[arg-type]

    def _ready(self, name: str) -> bool:
        assert {name: one.log for name, one in self.parts.items() if one.ended.is_set()} == {}
        try:
            return httpx.get(f"{self._addresses[name]}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def concordance(self, *arguments: str) -> dict[str, Any]:
        done = self.parts["serve"].containers["concordance"].execute("concordance", *arguments, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def runs(self) -> list[Pod]:
        """Return the pods of runs that sync the Drive."""
        labelled = [(one, one.object["metadata"]["labels"]) for one in list(self.cluster.pods.values())]
        return [one for one, labels in labelled if labels.get("dagster/job") == "sync_google_drive"]

    def begin(self, source: str = "google_drive") -> str:
        """Start a sync, or add to the one in progress. Returns its job."""
        return self.concordance("sync", source)["job_id"]

    def running(self) -> tuple[str, Pod]:
        """Start a sync, and wait until its pod works. Returns its job and its pod."""
        job = self.begin()
        until(lambda: self.job(job)["claimed_at"], "the start of the run")
        run = until(lambda: self.run(job), "the run")
        (pod,) = (one for one in self.runs() if one.job == f"dagster-run-{run['run_id']}")
        return job, pod

    def job(self, job: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM sync_jobs WHERE job_id = %s", job)[0]

    def run(self, job: str) -> dict[str, Any]:
        """Return the last run of a job."""
        return self.rows(
            "SELECT r.run_id, r.status FROM dagster.runs AS r JOIN dagster.run_tags AS t ON t.run_id = r.run_id"
            " WHERE t.key = 'concordance/job_id' AND t.value = %s ORDER BY r.id DESC LIMIT 1", job,
        )[0]  # fmt: skip

    def await_rest(self) -> None:
        """Wait until no sync, no run and no pod of a run is in progress."""
        unfinished = (
            "SELECT 1 FROM sync_jobs WHERE status = 'running'"
            " UNION ALL SELECT 1 FROM dagster.runs WHERE status NOT IN ('SUCCESS', 'FAILURE', 'CANCELED')"
        )
        until(lambda: not self.rows(unfinished), "the end of all runs")
        until(lambda: all(one.ended.is_set() for one in self.runs()), "the end of all pods")

    def age(self, job: str, minutes: int) -> None:
        """Make a job and its run older."""
        past, run = timedelta(minutes=minutes), self.run(job)["run_id"]
        self.rows("UPDATE sync_jobs SET started_at = started_at - %s WHERE job_id = %s RETURNING 1", past, job)
        for table, column in (("runs", "create_timestamp"), ("event_logs", "timestamp")):
            query = f"UPDATE dagster.{table} SET {column} = {column} - %s WHERE run_id = %s RETURNING 1"  # noqa: S608
            self.rows(query, past, run)

    def terminate(self, run: str) -> None:
        """Terminate a run as Dagster's pages do."""
        said = self._ask("mutation T($id: String!) { terminateRun(runId: $id) { __typename } }", run)
        assert said["terminateRun"]["__typename"] == "TerminateRunSuccess", said

    def _stop_schedules(self) -> None:
        """Start no sync at the full hour, which a test may not expect."""
        listed = (
            "{ repositoriesOrError { ... on RepositoryConnection { nodes { schedules { scheduleState { id } } } } } }"
        )
        stop = "mutation S($id: String!) { stopRunningSchedule(id: $id) { __typename } }"
        found = [one for node in self._ask(listed)["repositoriesOrError"]["nodes"] for one in node["schedules"]]
        assert found
        for one in found:
            said = self._ask(stop, one["scheduleState"]["id"])
            assert said["stopRunningSchedule"]["__typename"] == "ScheduleStateResult", said

    def _ask(self, query: str, value: str | None = None) -> dict[str, Any]:
        """Ask Dagster's API."""
        answer = httpx.post(
            f"{self._addresses['webserver']}/graphql", json={"query": query, "variables": {"id": value}},
            headers={"Authorization": f"Bearer {DAGSTER_KEY}"}, timeout=30,
        )  # fmt: skip
        data: dict[str, Any] = answer.json()["data"]
        return data


@pytest.fixture(scope="module")
def image_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HOME in the image, as the Containerfile's last step makes it."""
    home = tmp_path_factory.mktemp("image")
    (home / "audit").mkdir()
    code = "from resources.embedding import embedder; from resources.settings import load; embedder(load())"
    environment = {"PATH": os.environ["PATH"], "CONCORDANCE_HOME": str(home)}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)
    for path in (home, *home.rglob("*")):
        os.chown(path, 10001, 10001)
    return home


def secrets(folder: Path, own: Mapping[str, str], storage: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the secrets that deploy/README.md creates, with those of our own servers."""
    subprocess.run(["sh", str(ROOT / "deploy/compose/secrets.sh"), str(folder)], check=True)
    files = {one.name: one.read_text() for one in folder.iterdir()}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
         "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}
        for name, values in (("concordance", files | own), ("storage", storage))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def postgres(cluster: Path) -> Iterator[str]:
    """URL of a real Postgres without a schema."""
    home = make_home()
    copy_cluster(cluster, home)
    process = PostgresProcess(home_settings(home))
    process.start()
    password = quote(keys.load(process.settings).postgres_password)
    yield f"postgresql://concordance:{password}@127.0.0.1:{process.settings.postgres_port}/concordance"
    process.stop()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def site(postgres: str, image_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not may_isolate():
        pytest.skip("pods need root, the right to make namespaces, and util-linux")
    folder, drive = tmp_path_factory.mktemp("site"), SimulatedDrive()
    vector = VectorProcess(folder / "vector", api_key=QDRANT_KEY)
    vector.start()
    ports = {name: free_port() for name in ("code", "webserver", "serve")}
    with closing(vector), serve(DriveApp(drive)) as address, S3Server() as store:
        own = {
            "postgres-url": postgres,
            "qdrant-api-key": QDRANT_KEY,
            "drive-token": drive.token,
            "dagster-secret": DAGSTER_KEY,
        }
        objects = [*manifests.rendered("cluster"), *secrets(folder / "secrets", own, store.environment)]
        named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        named["ConfigMap", "concordance"]["data"] |= {
            "CONCORDANCE_QDRANT_URL": vector.url, "CONCORDANCE_LAKE_URL": f"s3://{BUCKET}/lake",
            "CONCORDANCE_DAGSTER_URL": f"http://127.0.0.1:{ports['webserver']}",
            "CONCORDANCE_HTTP__INTERNAL_URL": f"http://127.0.0.1:{ports['serve']}",
            "CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS": f"127.0.0.1:{ports['code']}",
            "CONCORDANCE_DRIVE_API_URL": address, "CONCORDANCE_DRIVE_TOKEN_FILE": "/run/secrets/concordance/drive-token",
            "CONCORDANCE_SYNC_MINUTES": "60",
        }  # fmt: skip
        for name, port in ports.items():  # all pods have this machine's network: each takes a port that is free here
            (container,) = named["Deployment", name]["spec"]["template"]["spec"]["containers"]
            arguments = iter(container["args"])
            container["args"] = [one for one in arguments if one != "--port" or not next(arguments)]
            container["args"] += ["--port", str(port)]
        (folder / "cluster").mkdir()
        with Cluster(folder / "cluster", objects, image_home) as made:
            yield Site(made, drive, postgres, ports)


@pytest.fixture
def slow(site: Site) -> Iterator[None]:
    """Keep syncs in progress."""
    site.drive.faults.add("slow", 0, "", 10.0)
    yield
    site.drive.faults.clear()


def test_a_planned_first_sync_is_executed_by_pods(site: Site) -> None:
    for number in range(DRIVES):
        shared = site.drive.shared_drive(f"Drive {number}", {"user:ann@acme.example": "reader"})
        for file in range(FILES):
            site.drive.file(f"note-{number}-{file}.txt", shared, f"Parcel {number}-{file} was weighed.\n")
    assert site.concordance("sync", "google_drive", "--wait")["status"] == "success"
    site.await_rest()
    jobs = site.rows("SELECT status, planned_by IS NOT NULL AS planned FROM sync_jobs WHERE source = 'google_drive'")
    assert sum(one["planned"] for one in jobs) >= DRIVES
    assert {one["status"] for one in jobs} == {"success"}
    found = site.concordance("search", "parcel", "--as", "ann@acme.example", "--top-k", "50")["results"]
    assert sorted(one["title"] for one in found) == NAMES
    assert {one.phase for one in site.runs()} == {"Succeeded"}
    daemon = site.parts["daemon"].containers["concordance"]
    assert daemon.execute("concordance", "daemon", "--check").returncode == 0
    assert [call for call in site.cluster.calls if call[2] >= 400] == []
    site.cluster.pass_time(3600)
    until(lambda: not site.runs(), "the removal of finished jobs")
    assert "migrate" in site.cluster.jobs  # it has no time to live


def test_a_pod_that_is_pending_is_waited_for_half_an_hour_and_then_launched_again(site: Site) -> None:
    site.cluster.room.clear()
    job = site.begin()
    (pod,) = until(site.runs, "the pod")
    first = site.run(job)["run_id"]
    site.age(job, 29)
    said = site.parts["daemon"].log.count(f"Checking run {first}")
    until(lambda: site.parts["daemon"].log.count(f"Checking run {first}") > said + 1, "run monitoring")
    assert site.begin() == job
    assert (site.run(job)["status"], site.runs()) == ("STARTING", [pod])
    site.age(job, 1)
    second = until(lambda: [one for one in site.runs() if one is not pod], "another run")
    assert site.job(job)["status"] == "running"
    site.cluster.room.set()
    until(lambda: site.job(job)["status"] == "success", "the sync")
    site.await_rest()
    assert site.job(job)["run_id"] != first
    assert [one.phase for one in (pod, *second)] == ["Succeeded", "Succeeded"]
    ignored = "SELECT 1 FROM dagster.event_logs WHERE run_id = %s AND event LIKE '%%already finished%%'"
    assert site.rows(ignored, first)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("end", [Pod.kill, Pod.evict])
def test_a_sync_whose_pod_is_killed_ends_and_the_next_one_finishes_it(site: Site, end: Callable[[Pod], None]) -> None:
    name = f"late-{end.__name__}.txt"
    site.drive.file(name, site.drive.my_drive, "A note that comes late.\n")
    job, pod = site.running()
    end(pod)
    until(lambda: site.run(job)["status"] == "FAILURE", "the end of the run")
    until(lambda: site.job(job)["status"] == "failed", "the end of the sync")
    assert pod.object["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert len([one for one in site.runs() if one.job == pod.job]) == 1
    site.drive.faults.clear()
    assert site.concordance("sync", "google_drive", "--wait")["status"] == "success"
    site.await_rest()
    assert site.rows("SELECT count(*) AS live FROM documents WHERE title = %s AND state = 'live'", name) == [
        {"live": 1}
    ]


@pytest.mark.usefixtures("slow")
def test_a_run_that_is_terminated_leaves_no_pod(site: Site) -> None:
    job, pod = site.running()
    site.terminate(site.run(job)["run_id"])
    until(lambda: pod.object["metadata"]["name"] not in site.cluster.pods, "the end of the pod")
    until(lambda: site.run(job)["status"] == "CANCELED", "the end of the run")
    until(lambda: site.job(job)["status"] != "running", "the end of the sync")
    assert pod.job not in site.cluster.jobs


@pytest.mark.usefixtures("slow")
def test_nothing_is_lost_while_the_api_does_not_answer(site: Site) -> None:
    job, pod = site.running()
    site.cluster.away = "silent"
    checked = f"Checking run {site.run(job)['run_id']}"
    said = site.parts["daemon"].log.count(checked)
    other = site.begin("upload")
    until(lambda: site.parts["daemon"].log.count(checked) > said + 1, "run monitoring")
    assert (site.run(job)["status"], pod.phase) == ("STARTED", "Running")
    site.cluster.away = ""
    site.drive.faults.clear()
    for one in (job, other):
        until(lambda: site.job(one)["status"] == "success", "the syncs")  # noqa: B023
