"""Links by which editors add the server of tools, as their documentation says.

Sources: https://cursor.com/docs/mcp/install-links, https://code.visualstudio.com/api/extension-guides/ai/mcp#create-an-mcp-installation-url
"""

import base64
import json
from typing import NamedTuple
from urllib.parse import quote

NAME = "concordance"


class InstallLink(NamedTuple):
    """A link that opens an editor, which asks whether to add the server."""

    editor: str
    address: str


def install_links(resource: str) -> list[InstallLink]:
    """Return the links for the server at this address. They contain no secret: the editor signs its person in with a browser."""
    config = base64.b64encode(json.dumps({"url": resource}).encode()).decode()
    server = json.dumps({"name": NAME, "type": "http", "url": resource})
    return [
        InstallLink(
            "Cursor", f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAME}&config={quote(config, safe='')}"
        ),
        InstallLink("VS Code", f"vscode:mcp/install?{quote(server, safe='')}"),
    ]
