"""The scripts of the pages, checked by the TypeScript compiler against their type comments."""

from __future__ import annotations

import subprocess

from serving.web.static import FOLDER
from tests.fixtures.npm import installed

OPTIONS = (
    "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--lib", "dom,dom.iterable,es2023",
    "--module", "esnext", "--moduleResolution", "bundler",
)  # fmt: skip


def test_scripts_are_typed() -> None:
    place = installed("typescript", typescript="7.0.2")
    compiler = place / "node_modules" / "typescript" / "lib" / "tsc.js"
    scripts = sorted(FOLDER.glob("*.js"))
    assert scripts
    done = subprocess.run(
        ["node", compiler, *OPTIONS, *scripts], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
