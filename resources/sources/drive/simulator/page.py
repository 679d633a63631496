"""The start page at `/`: what this server is, how to point the connector at it, and what it can do."""

import inspect
from html import escape

from resources.sources.drive.simulator.control import OPERATIONS
from resources.sources.drive.simulator.model import Drive
from resources.sources.simulation.faults import KINDS

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Google Drive simulator</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
code, pre {{ font: 13px/1.5 ui-monospace, monospace; background: #f4f4f2; }}
pre {{ padding: .75rem; overflow-x: auto; }} code {{ padding: 0 .25rem; }}
td, th {{ text-align: left; padding: .15rem 1rem .15rem 0; }}
</style></head><body>
<h1>Google Drive simulator</h1>
<p>A Drive v3 API on loopback that acts for <b>{account}</b>, with {files} files and {drives} shared drives. No data
leaves this machine, and everything is discarded when it stops.</p>
<h2>Connect</h2>
<pre>export CONCORDANCE_DRIVE_API_URL={url}
export CONCORDANCE_DRIVE_TOKEN={token}
concordance sync google_drive --wait</pre>
<h2>Shared drives</h2>
<table><tr><th>Name</th><th>Id</th></tr><tr><td>My Drive</td><td><code>{my_drive}</code></td></tr>{rows}</table>
<h2>Change something</h2>
<pre>curl {url}/simulator/state
curl {url}/simulator/file -d '{{"name": "Note.txt", "parent": "{my_drive}", "content": "Hello"}}'
curl {url}/simulator/faults -d '{{"kind": "rate_limit", "times": 3, "match": "files.list", "seconds": 2}}'
curl {url}/simulator/faults -d '{{"clear": true}}'</pre>
<p>Operations: {operations}.</p>
<p>Faults: {faults}.</p>
</body></html>
"""


def page(drive: Drive, host: str) -> str:
    with drive.lock:
        rows = "".join(
            f"<tr><td>{escape(one.name)}</td><td><code>{escape(one.id)}</code></td></tr>"
            for one in drive.drives.values()
        )
        return _PAGE.format(
            account=escape(drive.account),
            files=sum(not item.is_folder for item in drive.items.values()),
            drives=len(drive.drives),
            url=escape(f"http://{host}"),
            token=escape(drive.token),
            my_drive=escape(drive.my_drive),
            rows=rows,
            operations=", ".join(f"<code>{escape(_call(name))}</code>" for name in OPERATIONS),
            faults=", ".join(f"<code>{kind}</code>" for kind in KINDS),
        )


def _call(name: str) -> str:
    parameters = list(inspect.signature(getattr(Drive, name)).parameters)[1:]
    return f"{name}({', '.join(parameters)})"
