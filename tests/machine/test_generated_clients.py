"""Clients that common generators make from the served OpenAPI document work with the running service."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.programs import SECONDS, run
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.slow

ANN = "ann@acme.com"
ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "clients"
GENERATOR = ROOT / ".venv-clients" / "bin"


def save_document(running: Running, folder: Path) -> Path:
    """Save the OpenAPI document of the running service."""
    file = folder / "openapi.json"
    file.write_bytes(running.http.get("/docs/openapi.json").content)
    return file


def check(transcript: str, **more: str) -> None:
    """Fail unless a client got what the service has, and further lines."""
    lines = dict(line.split(": ", 1) for line in transcript.splitlines())
    assert lines.pop("search").startswith("200 Tea - [1] Tea (Files, ")
    assert lines.pop("ask").startswith("200 “Tea is served at four in the kitchen.” [1]")
    assert lines == {
        "upload": "202 processing - File uploaded, indexing in progress",
        "list": "200 1 Tea",
        "problem": "404 /problems/not-found - Not found",
        **more,
    }


@pytest.fixture(autouse=True)
def tea(site: Site) -> None:
    """A document to find."""
    site.add("Tea", ["Tea is served at four in the kitchen."], ["public"])


def test_a_client_of_openapi_python_client_works(
    site: Site, running: Running, tmp_path: Path, show: Callable[[str], None]
) -> None:
    if not (GENERATOR / "openapi-python-client").exists():
        pytest.skip("openapi-python-client is not installed: make test-all installs it")
    document, package = save_document(running, tmp_path), tmp_path / "concordance_client"
    path = f"{GENERATOR}{os.pathsep}{os.environ['PATH']}"
    command = (GENERATOR / "openapi-python-client", "generate", "--path", document, "--output-path", package)
    run(tmp_path, *command, "--meta", "none", "--fail-on-warning", PATH=path)
    script = (GENERATOR / "python", CLIENTS / "client.py", running.url, site.token(ANN))
    transcript = run(tmp_path, *script, PYTHONPATH=str(tmp_path))
    show(f"openapi-python-client:\n{transcript}")
    check(transcript)


def test_a_client_of_openapi_typescript_works(
    site: Site, running: Running, tmp_path: Path, show: Callable[[str], None]
) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path / "typescript"
    shutil.copytree(CLIENTS / "typescript", folder)
    installed = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install openapi-typescript: {installed.stderr.strip()[-300:]}")
    programs = folder / "node_modules" / ".bin"
    run(folder, programs / "openapi-typescript", save_document(running, folder), "--output", folder / "schema.d.ts")
    run(folder, programs / "tsc")
    transcript = run(folder, "node", folder / "built" / "client.js", running.url, site.token(ANN))
    show(f"openapi-typescript and openapi-fetch:\n{transcript}")
    check(
        transcript,
        stream="true - “Tea is served at four in the kitchen.” [1]",
        invalid="400 top_k - a whole number from 1 to 50",
    )
