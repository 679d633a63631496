"""The example of a connector in a package of its own: installed, synced from a real Kinto server, and searched by its readers."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestration.definitions import definitions
from resources import sources
from resources.core.domain import SourceName
from tests.fixtures.installation import Installation
from tests.fixtures.step import follow, web

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "connector-kinto"
ANN, BOB = "ann@acme.example", "bob@acme.example"
PAGES = "/buckets/main/collections/pages"


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run([*map(str, command)], env=given, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def server_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the package `kinto`, which must not share an environment with the product."""
    home = tmp_path_factory.mktemp("kinto-environment")
    python = home / "bin" / "python"
    made = run(sys.executable, "-m", "venv", "--without-pip", home)
    needed = EXAMPLE / "tests" / "requirements.txt"
    uv = ("-m", "uv", "pip", "install", "--quiet", "--system-certs", "--python", python)
    pip = ("-m", "pip", "--python", python, "install", "--quiet", "--no-compile")
    if made.returncode == 0:
        made = run(sys.executable, *uv, "-r", needed)  # as in `setup.sh`: faster where it works
        made = made if made.returncode == 0 else run(sys.executable, *pip, "-r", needed)
    if made.returncode != 0:
        pytest.skip(f"the Kinto server cannot be installed: {made.stderr.strip()[-500:]}")
    return python


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed without its dependencies and without a network."""
    target = tmp_path_factory.mktemp("packages")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", target)
    done = run(sys.executable, "-m", "pip", "install", *options, EXAMPLE)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The source among the others, as in a process that starts after the installation."""
    monkeypatch.syspath_prepend(package)
    sources.rediscover()
    yield
    monkeypatch.undo()
    sources.rediscover()


@pytest.fixture
def server(server_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(EXAMPLE / "tests")
    monkeypatch.setenv("KINTO_PYTHON", str(server_python))
    kinto_server = importlib.import_module("kinto_server")
    folder = tmp_path / "kinto"
    folder.mkdir()
    with kinto_server.kinto(folder) as running:
        monkeypatch.setenv("CONCORDANCE_KINTO_URL", running.url)
        monkeypatch.setenv("CONCORDANCE_KINTO_USER", kinto_server.ADMIN[0])
        monkeypatch.setenv("CONCORDANCE_KINTO_PASSWORD", kinto_server.ADMIN[1])
        yield running


def test_the_connector_passes_the_tests_of_connectors(package: Path, server_python: Path) -> None:
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE / "tests")
    done = run(sys.executable, *tests, PYTHONPATH=f"{package}{os.pathsep}{Path.cwd()}", KINTO_PYTHON=str(server_python))
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.usefixtures("installed")
def test_a_record_is_found_by_those_who_may_read_it(
    installation: Installation, server: Any, bundled_model: Any
) -> None:
    kinto = sources.parse("Kinto")
    assert kinto == SourceName("kinto")
    assert {f"sync_{name}" for name in sources.names()} <= {job.name for job in definitions().jobs or ()}
    herons = f"{PAGES}/records/herons"
    server.put(
        herons,
        data={"title": "Herons", "content": "# Herons\n\nThe heron nests in qz1q."},
        permissions={"read": [f"account:{ANN}"]},
    )
    server.put(f"{PAGES}/records/secret", data={"title": "Secret", "content": "No one may read qz2q."})
    follow(installation)

    with web(installation, bundled_model) as running:

        def found(word: str, who: str) -> list[str]:
            answer = running.search(word, who, mode="keyword", filters={"source_types": ["kinto"]})
            return [result["source_id"] for result in answer["results"] if word in result["chunk_text"]]

        assert installation.sync(kinto).error is None
        assert installation.agrees()
        assert [found("qz1q", who) for who in (ANN, BOB)] == [["main/pages/herons"], []]
        assert [found("qz2q", who) for who in (ANN, BOB)] == [[], []]
        assert "(Kinto, " in running.search("qz1q", ANN, mode="keyword")["results"][0]["citation"]["text"]

        server.patch(herons, permissions={"read": [f"account:{BOB}"]})
        assert installation.sync(kinto).error is None
        assert [found("qz1q", who) for who in (ANN, BOB)] == [[], ["main/pages/herons"]]

        server.delete(herons)
        assert installation.sync(kinto).error is None
        assert [found("qz1q", who) for who in (ANN, BOB)] == [[], []]
