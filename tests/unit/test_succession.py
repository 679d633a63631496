"""Processes that take turns on one listening socket: who serves, who gets the socket, and what a bad disk keeps from working."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.servers.succession import fetch_listener
from serving.workers.standby import await_turn

HOLDS = """
import pathlib, sys
from resources.servers.succession import Succession
Succession(pathlib.Path(sys.argv[1])).await_turn()
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turn.sock"


def test_the_turn_comes_when_the_one_before_is_killed(path: Path, listener: socket.socket) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as before:
        assert before.stdout is not None
        assert before.stdout.readline() == "holds\n"

        async def stand_by() -> None:
            turn = asyncio.create_task(await_turn(path, listener))
            await asyncio.sleep(0)
            assert not turn.done()
            assert fetch_listener(path) is None, "a waiting process does not hand out the socket"
            before.kill()
            async with asyncio.timeout(60):
                await turn

        asyncio.run(stand_by())
    handed_out = fetch_listener(path)
    assert handed_out is not None
    with handed_out:
        assert handed_out.getsockname() == listener.getsockname()


def test_a_socket_that_cannot_be_made_does_not_keep_a_process_from_serving(path: Path, listener: socket.socket) -> None:
    path.mkdir()
    asyncio.run(asyncio.wait_for(await_turn(path, listener), 60))
    assert fetch_listener(path) is None


def test_a_lock_that_cannot_be_opened_ends_the_wait(path: Path, listener: socket.socket) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(asyncio.wait_for(await_turn(path.parent / "missing" / path.name, listener), 60))
