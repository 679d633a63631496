"""The license that the packages name is in the repository, whole, and in what is built from it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", [ROOT, ROOT / "clients" / "python"], ids=["concordance", "client"])
def test_the_wheel_has_the_whole_license(folder: Path, tmp_path: Path) -> None:
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"
    text = (folder / "LICENSE").read_text()
    for part in (
        "Version 2.0, January 2004",
        "9. Accepting Warranty or Additional Liability.",
        "END OF TERMS AND CONDITIONS",
    ):
        assert part in text
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(name).decode() == text
