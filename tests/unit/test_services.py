"""What the services find before they start."""

from __future__ import annotations

from pathlib import Path

from orchestration.supervision.services import services
from resources.settings import Settings


def test_captured_output_of_earlier_versions_is_deleted(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, qdrant_url="http://127.0.0.1:9")  # type: ignore[call-arg]
    captured = tmp_path / "dagster" / "storage" / "a-run" / "compute_logs"
    captured.mkdir(parents=True)
    (captured / "files__raw.err").write_text("secret.pdf")
    (captured.parent / "result").write_text("kept")
    (code,) = (one for stage in services(settings) for one in stage if one.name == "dagster-code")
    code.prepare()
    assert [file.name for file in (tmp_path / "dagster" / "storage").rglob("*") if file.is_file()] == ["result"]
    assert "NoOpComputeLogManager" in (tmp_path / "dagster" / "dagster.yaml").read_text()
