"""The steps of the Containerfile, executed without a container engine in folders of their own, and what they install."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from cryptography.fernet import Fernet

from resources import http_clients
from resources.servers.privileges import SystemUser, run_as
from resources.servers.processes import free_port
from tests.fixtures.postgres import PostgresProcess, make_home
from tests.fixtures.processes import Processes
from tests.fixtures.vector import VectorProcess

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = 10001
STEP_SECONDS = 1200


@pytest.fixture
def folder() -> Iterator[Path]:
    made = make_home()
    yield made
    shutil.rmtree(made, ignore_errors=True)


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, without comments."""
    found: list[list[tuple[str, str]]] = []
    for line in (ROOT / "deploy/Containerfile").read_text().splitlines():
        if line.startswith("FROM"):
            found.append([])
        elif line and not line.startswith("#") and found:
            name, _, rest = line.partition(" ")
            found[-1].append((name, rest))
    return found


def variables(instructions: list[tuple[str, str]]) -> dict[str, str]:
    return dict(part.split("=", 1) for name, rest in instructions if name == "ENV" for part in shlex.split(rest))


class Image:
    """A folder in which the root file system of the image would be."""

    def __init__(self, root: Path) -> None:
        self.root, self.source = root, root / "src"
        self.source.mkdir()
        self.clean = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:{os.defpath}", "HOME": "/nonexistent"}
        for name in (
            "PIP_INDEX_URL",
            "PIP_CERT",
            "PIP_CONFIG_FILE",
            "SSL_CERT_FILE",
            "HTTPS_PROXY",
            "https_proxy",
            "NO_PROXY",
        ):
            if name in os.environ:
                self.clean[name] = os.environ[name]

    def placed(self, text: str) -> str:
        """Return a text in which the paths of the image lead into the folder."""
        return re.sub(r"/(opt|var/lib)/concordance", lambda found: f"{self.root}/{found[0].strip('/')}", text)

    def build(self) -> None:
        instructions = stages()[0]
        environment = self.clean | {"OCR": "1"} | variables(instructions)
        for name, rest in instructions:
            if name == "COPY":
                *names, target = shlex.split(rest)
                self.copy(names, self.source / self.placed(target))
            elif name == "RUN":
                done = subprocess.run(
                    ["sh", "-c", self.placed(rest)], cwd=self.source, env=environment, capture_output=True, text=True,
                    timeout=STEP_SECONDS, check=False,
                )  # fmt: skip
                assert done.returncode == 0, f"{rest}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    def copy(self, names: list[str], target: Path) -> None:
        """Copy what git knows, as a fresh clone has it."""
        for name in names:
            listed = subprocess.run(
                ["git", "ls-files", "-z", name], cwd=ROOT, capture_output=True, text=True, check=True
            )
            for file in filter(None, listed.stdout.split("\0")):
                within = target / Path(file).relative_to(name) if (ROOT / name).is_dir() else target / Path(name).name
                within.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, within)

    def started(self, arguments: list[str], more: Mapping[str, str], **options: object) -> subprocess.Popen[bytes]:
        """Start the image with these arguments, as its account."""
        environment = {"HOME": "/nonexistent"} | {
            name: self.placed(value) for name, value in variables(stages()[1]).items()
        }
        program = Path(self.placed("/opt/concordance/bin/concordance"))
        account = SystemUser("image", ACCOUNT, ACCOUNT) if os.geteuid() == 0 else None
        # Here the interpreter itself may be in a closed folder of root, unlike in the image.
        command = run_as([str(program), *arguments], account, [Path(sys.executable).resolve(), program])
        return subprocess.Popen(command, cwd="/", env=environment | dict(more), **options)  # type: ignore[call-overload]


@pytest.mark.slow
def test_the_steps_of_the_image_and_what_they_install(
    folder: Path, tmp_path: Path, postgres_process: PostgresProcess
) -> None:
    image = Image(folder)
    image.build()
    python = image.placed("/opt/concordance/bin/python")
    installed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True)
    assert "dagster-k8s" in installed.stdout
    assert "tesserocr" in installed.stdout
    assert "pytest" not in installed.stdout
    models = sorted((folder / "var/lib/concordance/models").iterdir())
    assert len(models) == 1
    (folder / "lake").mkdir()
    if os.geteuid() == 0:  # what `COPY --chown` does
        for path in [*(folder / "var").rglob("*"), folder / "var", folder / "lake"]:
            os.chown(path, ACCOUNT, ACCOUNT)
    vector = VectorProcess(tmp_path / "vector")
    vector.start()
    processes = Processes(tmp_path / "set", postgres_process, vector, "none")
    port = free_port()
    ours = {name: value for name, value in processes.environment.items() if name.startswith("CONCORDANCE_")}
    given = {
        name.removesuffix("_FILE"): Path(value).read_text().strip() if name.endswith("_FILE") else value
        for name, value in ours.items()
    }
    given |= {"CONCORDANCE_ENCRYPTION_KEYS": Fernet.generate_key().decode(), "CONCORDANCE_HTTP_PORT": str(port)}
    given |= {"CONCORDANCE_LAKE_URL": (folder / "lake").as_uri()}
    given |= {"CONCORDANCE_HOME": str(folder / "var/lib/concordance"), "TMPDIR": "/tmp"}  # noqa: S108
    assert image.started(["migrate"], given).wait(300) == 0
    log = tmp_path / "serve.log"
    with log.open("wb") as out:
        serve = image.started(["serve", "--host", "127.0.0.1"], given, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 120
        with httpx.Client(verify=http_clients.tls()) as http:
            while True:
                assert serve.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                try:
                    if http.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.2)
        serve.terminate()
        assert serve.wait(60) == 0
    finally:
        serve.kill()
        processes.close()
        vector.close()
    assert sorted((folder / "var/lib/concordance/models").iterdir()) == models
