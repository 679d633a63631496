"""Links by which editors add the server, taken apart as the editors do."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, unquote, urlsplit

from serving.agents.install import install_links

RESOURCE = "https://search.example/mcp?a=1&b=ü"
"""With characters that a link must escape."""


def test_each_editor_reads_the_address_back() -> None:
    cursor, code = install_links(RESOURCE)
    parts = urlsplit(cursor.address)
    assert (parts.scheme, parts.netloc, parts.path) == ("cursor", "anysphere.cursor-deeplink", "/mcp/install")
    given = parse_qs(parts.query, strict_parsing=True)
    assert given["name"] == ["concordance"]
    assert json.loads(base64.b64decode(given["config"][0], validate=True)) == {"url": RESOURCE}
    before, _, server = code.address.partition("?")
    assert before == "vscode:mcp/install"
    assert json.loads(unquote(server)) == {"name": "concordance", "type": "http", "url": RESOURCE}
