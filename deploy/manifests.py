"""`make manifests`: render the Kubernetes overlays and validate them, compose.yaml, Dagster's instance file and the systemd unit.

What each part names of the product is compared with it in `tests/unit/test_deploy.py`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from compose_spec import PyCompose

FOLDER = Path(__file__).parent
BASE = FOLDER / "kubernetes" / "base"
OVERLAYS = ("single-node", "cluster")
VERSION = "1.34"
"""Release of Kubernetes whose schemas are used, the first one in which `preStop.sleep` is stable."""
CUSTOM = frozenset({"ServiceMonitor"})
"""Kinds of an operator, for which there is no schema."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class InvalidManifestError(Exception):
    """A manifest is not valid."""


def rendered(overlay: str) -> list[dict[str, Any]]:
    """Return the objects of an overlay, as `kubectl apply -k` sends them."""
    place = FOLDER / "kubernetes" / "overlays" / overlay
    kubectl = Path(sys.executable).with_name("kubectl")
    done = subprocess.run([str(kubectl), "kustomize", str(place)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InvalidManifestError(f"{overlay}: {done.stderr.strip()}")
    return list(yaml.safe_load_all(done.stdout))


def validate(found: Mapping[str, Any]) -> bool:
    """Validate an object against the schema of its kind, where unknown fields are errors. Return False if there is no schema."""
    if found["kind"] in CUSTOM:
        return False
    name = f"{found['kind']} {found['metadata']['name']}"
    try:
        kubernetes_validate.validate(found, VERSION, strict=True)
    except kubernetes_validate.SchemaNotFoundError as error:
        raise InvalidManifestError(f"{name}: {error.message}") from error
    except kubernetes_validate.ValidationError as error:
        where = ".".join(map(str, error.absolute_path))
        raise InvalidManifestError(f"{name}: {where}: {error.message}") from error
    return True


def compose(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return compose.yaml with its variables replaced, after a strict parser of the Compose Specification has read it."""
    given = environment or {}
    text = _VARIABLE.sub(lambda found: given.get(found[1]) or found[2] or "", (FOLDER / "compose.yaml").read_text())
    merged = yaml.safe_load(text)  # the parser does not know YAML's merge keys
    try:
        PyCompose.from_json(json.dumps(merged)).validate()
    except ValueError as error:
        raise InvalidManifestError(f"compose.yaml: {error}") from error
    return merged


def containers(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each workload with each of its containers."""
    for one in objects:
        template = one.get("spec", {}).get("template") if one["kind"] in {"Deployment", "Job", "StatefulSet"} else None
        if template:
            for container in (*template["spec"].get("initContainers", ()), *template["spec"]["containers"]):
                yield one["metadata"]["name"], container


def validate_run_launcher() -> None:
    """Validate the cluster's `dagster.yaml` against the schemas of Dagster and of its run launcher."""
    from dagster._config import resolve_to_config_type, validate_config
    from dagster._core.instance.config import dagster_instance_config_schema

    from orchestration.supervision.pods import PodRunLauncher

    given = yaml.safe_load((FOLDER / "kubernetes/overlays/cluster/dagster.yaml").read_text())
    launcher: Any = resolve_to_config_type(PodRunLauncher.config_type())
    for schema, config in (
        (dagster_instance_config_schema(), given),
        (launcher, given["run_launcher"]["config"]),
    ):
        if errors := validate_config(schema, config).errors:
            raise InvalidManifestError("dagster.yaml: " + "; ".join(error.message for error in errors))


def verify_unit() -> str:
    """Verify the systemd unit, with a program that exists in place of ours; return what was done."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return "unit not verified: systemd-analyze is missing"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "concordance.service"
        text = (FOLDER / "systemd" / "concordance.service").read_text()
        copy.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text))
        done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "concordance.service" in line]
    if done.returncode or said:
        raise InvalidManifestError("\n".join(said) or done.stderr)
    return "1 unit verified by systemd-analyze"


def main() -> int:
    """Validate everything, print what was done, and return the exit status."""
    try:
        for overlay in OVERLAYS:
            objects = rendered(overlay)
            valid = sum(map(validate, objects))
            rest = ", ".join(f"{one['kind']} without a schema" for one in objects if one["kind"] in CUSTOM)
            print(f"{overlay}: {len(objects)} objects rendered, {valid} valid for Kubernetes {VERSION}; {rest}")
        services = compose()["services"]
        validate_run_launcher()
        print(f"compose.yaml: {len(services)} services valid; run launcher's configuration valid; {verify_unit()}")
    except InvalidManifestError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
