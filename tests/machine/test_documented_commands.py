"""Every command block of the README and the documentation, run in order on a real installation, in a folder like a fresh checkout.

A block that needs something from outside is preceded by `<!-- not run: reason -->`; one that follows an event by `<!-- first: command -->`,
which is run before it. `up` without `--detach` keeps running, so the block goes on in another process once everything is ready. An
address of a default port is replaced if `up` has chosen another port. With `pytest -s`, what is run and printed is shown.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from resources.settings import load

ROOT = Path(__file__).parents[2]
IN_ORDER = ("README.md", "docs/operations.md", "docs/http.md")
"""Pages whose commands need what those before have started."""
PAGES = tuple(
    dict.fromkeys((*IN_ORDER, *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")), "CONTRIBUTING.md"))
)
COMMAND = re.compile(
    r"(make|pip|git|curl|mkdir|echo|cp|pg_dump|pg_restore|(\.venv/bin/)?concordance)(?!-)\b|[A-Z_]+=\S+ concordance|TOKEN=\$\("
)
KEEPS_RUNNING = re.compile(r"(make up|concordance up)(?! *--detach)\b.*")
NOTE = re.compile(r"<!-- (not run|first): (.+?) -->")
SECONDS = 540


class Block(NamedTuple):
    """A command block, the line that it begins on, and what a comment before it says."""

    page: str
    line: int
    text: str
    kind: str = ""
    note: str = ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> Iterator[Block]:
    """Yield the indented and fenced blocks of a page that contain commands."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found: list[str] = []
    fenced, kind, note = False, "", ""
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("```"):
            fenced = not fenced
        inside = (fenced and not line.startswith("```")) or (
            line.startswith("    ") and (found or not lines[number - 2])
        )
        if inside:
            found.append(line if fenced else line[4:])
            continue
        if found and COMMAND.match(found[0]):
            yield Block(page, number - len(found), "\n".join(found), kind, note)
        if found:
            found, kind, note = [], "", ""
        if match := NOTE.fullmatch(line):
            kind, note = match.groups()
        elif line and not line.startswith("```"):
            kind, note = "", ""


EVERY = [block for page in PAGES for block in blocks(page)]


def test_every_page_with_commands_is_looked_at() -> None:
    assert {block.page for block in EVERY} > {*IN_ORDER, "docs/sign-in.md", "CONTRIBUTING.md"}
    assert len(EVERY) > 25
    assert all(len(block.note) > 10 for block in EVERY if block.kind)


class Checkout:
    """A folder with everything of this checkout except what an installation makes, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for entry in ROOT.iterdir():
            if not entry.name.startswith((".env", ".concordance", ".git")):
                (folder / entry.name).symlink_to(entry)
        folder.chmod(0o755)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("CONCORDANCE_")}
        self.environment = plain | {"PATH": f"{folder}/.venv/bin:{os.environ['PATH']}"}
        self.variables = folder / ".variables"

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as pasted into a terminal, except that it ends at the first error. Variables last until the next one."""
        before = f"set -eo pipefail; [ ! -e {self.variables} ] || . {self.variables}"
        after = f"declare -p TOKEN KEY > {self.variables} 2>/dev/null || true"
        whole = f"{before}\n{script}\n{after}"
        with (self.folder / ".output").open("w+") as out:  # not a pipe, which services would hold open
            done = subprocess.run(
                ["bash", "-c", whole], env=self.environment, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
            )  # fmt: skip
            out.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, out.read())

    def script(self, text: str) -> str:
        """Return a block's text for a shell without a terminal, with the ports of this installation."""
        lines = [_in_background(line) for line in text.splitlines()]
        return "\n".join(lines).replace(
            "http://127.0.0.1:8080", load(_env_file=None, home=self.folder / ".concordance").base_url
        )


def _in_background(line: str) -> str:
    if not KEEPS_RUNNING.fullmatch(line.partition("#")[0].strip()):
        return line
    return f"setsid {line} > up.log 2>&1 &\nuntil concordance status > /dev/null 2>&1; do sleep 1; kill -0 $!; done; cat up.log"


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout in a folder that other accounts can enter, for services that are started as root."""
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    yield made
    made.run("concordance down || true")


@pytest.mark.slow
def test_every_command_block_works_as_printed(checkout: Checkout) -> None:
    skipped: list[str] = []
    for block in EVERY:
        if block.kind == "not run":
            skipped.append(f"{block.place}: not run: {block.note}")
            continue
        script = checkout.script(f"{block.note}\n{block.text}" if block.kind == "first" else block.text)
        print(f"\n--- {block.place}\n{script}\n---")  # noqa: T201 # shown with -s
        done = checkout.run(script)
        print(done.stdout)  # noqa: T201
        assert done.returncode == 0, f"{block.place} ended with {done.returncode}:\n{script}\n{done.stdout}"
    print("\n" + "\n".join(skipped))  # noqa: T201
