"""The protocol's own inspector, a client of another language, lists and calls the tools of `/mcp`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.npm import installed
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
PACKAGE = "@modelcontextprotocol/inspector"


@pytest.mark.slow
def test_the_inspector_lists_and_calls_the_tools(site: Site, running: Running, tmp_path: Path) -> None:
    folder = installed("mcp-inspector", **{PACKAGE: "2.12.0"})
    doc_id = site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN])

    def inspected(*arguments: str) -> dict[str, Any]:
        token = f"Authorization: Bearer {site.token(ANN)}"
        launcher = f"node_modules/{PACKAGE}/clients/launcher/build/index.js"
        command = ["node", launcher, "--cli", f"{running.url}/mcp", "--transport", "http"]
        done = subprocess.run(
            [*command, "--header", token, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "HOME": str(tmp_path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = inspected("--method", "tools/list", "--strict")["tools"]
    assert {tool["name"] for tool in listed} == {"search", "fetch", "ask"}
    assert all(tool["annotations"]["readOnlyHint"] for tool in listed)
    call = ("--method", "tools/call", "--tool-name")
    found = inspected(*call, "search", "--tool-arg", "query=ferry")["structuredContent"]["results"]
    assert [one["id"] for one in found] == [f"{doc_id}#0"]
    read = inspected(*call, "fetch", "--tool-arg", f"id={found[0]['id']}")["structuredContent"]
    assert read["text"] == found[0]["text"]
    answer = inspected(*call, "ask", "--tool-arg", "query=When does the ferry leave?")["structuredContent"]
    assert "nine" in answer["answer"]
