"""What the manifests name exists in the product: commands, settings, ports, probes, secrets, accounts and metrics."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import dagster._grpc.server
import pytest
import yaml
from dagster._cli.api import api_cli

from deploy import manifests
from orchestration import systemd
from orchestration.cli.app import app
from orchestration.diagnosis.unknown_settings import unknown_settings
from orchestration.supervision import dagster_gate
from orchestration.supervision.environment import ALLOCATOR
from resources.servers.postgres import CONNECTIONS, SERVER, WORKER_CONNECTIONS
from resources.settings import Settings, load
from serving.app import HANDLERS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy"
MOUNTED = "/run/secrets/"
IMAGE = "concordance:0.1.0"
PORTS = {name: Settings.model_fields[name].default for name in ("http_port", "dagster_port")}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the script writes."""
    folder = tmp_path_factory.mktemp("secrets")
    script = ["sh", str(FOLDER / "compose/secrets.sh"), str(folder)]
    subprocess.run(script, check=True)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    subprocess.run(script, check=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


@pytest.fixture(scope="module", params=manifests.OVERLAYS)
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return manifests.rendered(request.param)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return manifests.compose()["services"]


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def ours(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, one) for name, one in manifests.containers(objects) if one["image"] == IMAGE)


def check_command(arguments: list[str]) -> None:
    """Fail unless the command line accepts this: nothing is executed."""
    app.parse_args(arguments, exit_on_error=False, print_error=False)


def check_settings(
    environment: Mapping[str, str | None], secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Read the settings of a container, with its secrets from the folder that the script writes. No key is generated."""
    monkeypatch.chdir(tmp_path)
    given = {name: value for name, value in environment.items() if value is not None}
    for name, value in (given | {"CONCORDANCE_HOME": str(tmp_path / "home")}).items():
        monkeypatch.setenv(name, str(secrets / Path(value).name) if value.startswith(MOUNTED) else value)
    settings = load()
    assert unknown_settings() == []
    assert not settings.embedded_postgres
    assert not settings.embedded_qdrant
    for name in ("secret_key", "encryption_keys", "metrics_token", "dagster_secret", "qdrant_api_key"):
        assert getattr(settings, name) is not None, name
    return settings


def test_every_object_is_valid(objects: list[dict[str, Any]]) -> None:
    assert {one["kind"] for one in objects if not manifests.validate(one)} == manifests.CUSTOM
    broken = named(objects, "Deployment")["serve"] | {"spec": {"replicas": "two"}}
    with pytest.raises(manifests.InvalidManifestError, match="serve"):
        manifests.validate(broken)


def test_commands_exist(objects: list[dict[str, Any]], services: dict[str, Any]) -> None:
    lines = [one["args"] for _, one in ours(objects)]
    lines += [one["command"] for one in services.values() if one["image"] == IMAGE]
    for line in lines:
        check_command(line)
    probes = [
        one["livenessProbe"]["exec"]["command"] for _, one in ours(objects) if "exec" in one.get("livenessProbe", {})
    ]
    assert {line[0] for line in lines} >= {"serve", "webserver", "daemon", "code", "migrate"}
    for probe in [*probes, services["daemon"]["healthcheck"]["test"][1:]]:
        assert probe[0] == "concordance"
        check_command(probe[1:])
    for name, one in services.items():  # the image's own check asks the HTTP interface
        assert one["image"] != IMAGE or "healthcheck" in one, name
    health = services["code"]["healthcheck"]["test"]
    assert health == ["CMD", "dagster", "api", "grpc-health-check", "--port", services["code"]["command"][-1]]
    assert health[3] in api_cli.commands
    with pytest.raises(Exception, match="--hots"):
        check_command(["serve", "--hots", "::"])


def test_settings_of_kubernetes_exist(
    objects: list[dict[str, Any]], secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = check_settings(named(objects, "ConfigMap")["concordance"]["data"], secrets, tmp_path, monkeypatch)
    assert settings.dagster_code_address == f"code:{ports(objects, 'code')['grpc']}"
    assert settings.dagster_url == f"http://webserver:{ports(objects, 'webserver')['http']}"
    assert settings.http_internal_url == f"http://serve:{ports(objects, 'serve')['http']}"
    assert (ports(objects, "serve")["http"], ports(objects, "webserver")["http"]) == tuple(PORTS.values())


def test_no_address_of_a_cluster_is_trusted_before_its_proxies_are_named(objects: list[dict[str, Any]]) -> None:
    """A client at a trusted address chooses the address that limits and the audit log see."""
    assert "CONCORDANCE_HTTP__TRUSTED_PROXIES" not in named(objects, "ConfigMap")["concordance"]["data"]
    _, _, step = (FOLDER / "README.md").read_text().partition("\n3. In the overlay")
    assert "CONCORDANCE_HTTP__TRUSTED_PROXIES" in step.partition("\n4. ")[0]


def ports(objects: list[dict[str, Any]], name: str) -> dict[str, int]:
    """Return the ports of a service, which must be those of its pods, by name."""
    service, pod = named(objects, "Service")[name], named(objects, "Deployment")[name]["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    open_ports = {one["name"]: one["containerPort"] for one in pod["spec"]["containers"][0]["ports"]}
    assert {one["targetPort"]: one["port"] for one in service["spec"]["ports"]} == open_ports
    return open_ports


def test_settings_of_compose_exist(
    services: dict[str, Any], secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = re.findall(r"^    (CONCORDANCE_[A-Z_]+)=(.+)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    given = dict(own) | services["serve-1"]["environment"]
    settings = check_settings(given, secrets, tmp_path, monkeypatch)
    assert settings.parse_workers == 4
    ours = [one for one in services.values() if one["image"] == IMAGE]
    assert all("secrets/settings.env" in one["env_file"] for one in ours)
    assert {FOLDER / name for one in ours for name in one["env_file"]} == {
        FOLDER / "secrets" / file.name for file in secrets.glob("*.env")
    }
    assert settings.dagster_code_address == "code:4000"
    assert services["code"]["command"][-1] == "4000"
    proxied = re.findall(r"serve-\d:(\d+)", (FOLDER / "compose/Caddyfile").read_text())
    assert {int(one) for one in proxied} == {PORTS["http_port"]}
    assert set(settings.allowed_hosts) == {name for name in services if name.startswith("serve-")}
    wanted = {name for one in services.values() for name in one.get("secrets", ())}
    assert wanted == manifests.compose()["secrets"].keys()
    assert wanted <= {file.name for file in secrets.iterdir()}
    assert (secrets / "storage.env").exists()
    key = json.loads((secrets / "storage.json").read_text())["identities"][0]["credentials"][0]["accessKey"]
    assert f"AWS_ACCESS_KEY_ID={key}\n" in (secrets / "storage.env").read_text()


WEED = """#!/bin/sh
# The shell exits with 0 whatever becomes of its commands, and some versions print a prompt. Here, the filer answers the third time.
cat >"$STATE/commands"
echo x >>"$STATE/calls"
if [ "$(wc -l <"$STATE/calls")" -lt 3 ]; then
  echo "error: get filer configuration: rpc error: code = Unavailable" >&2
  exit 0
fi
echo "create bucket under /buckets"
grep -q "s3.bucket.create -name concordance" "$STATE/commands" && echo "error: bucket concordance already exists" >&2
grep -q s3.bucket.list "$STATE/commands" && printf '>   concordance\\tsize:0\\tchunk:0\\n'
exit 0
"""


def test_the_bucket_is_created_until_it_exists(services: dict[str, Any], tmp_path: Path) -> None:
    objects = manifests.rendered("single-node")
    (storage,) = named(objects, "StatefulSet")["storage"]["spec"]["template"]["spec"]["containers"]
    for name, text in (("weed", WEED), ("sleep", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STATE": str(tmp_path)}
    for command in (services["bucket"]["entrypoint"], storage["lifecycle"]["postStart"]["exec"]["command"]):
        subprocess.run(command, env=environment, check=True, timeout=30)
        assert (tmp_path / "calls").read_text() == "x\n" * 3
        (tmp_path / "calls").unlink()


def test_dagster_can_be_opened_at_a_host_name_of_its_own(services: dict[str, Any]) -> None:
    for name in ("serve-1", "webserver"):  # the page that leads there, and the process that accepts the name
        assert services[name]["environment"]["CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL"] is None, "as it is in the shell"
    assert f"reverse_proxy webserver:{PORTS['dagster_port']}" in (FOLDER / "compose/Caddyfile").read_text()
    cluster = FOLDER / "kubernetes/overlays/cluster"
    lines = (cluster / "ingress.yaml").read_text()
    ingress = yaml.safe_load(re.sub(r"^( +)# ( *(?:- |\w+:))", r"\1\2", lines, flags=re.MULTILINE))
    assert manifests.validate(ingress)
    hosts = {rule["host"]: rule["http"]["paths"][0]["backend"]["service"] for rule in ingress["spec"]["rules"]}
    assert hosts["dagster.example.com"] == {"name": "webserver", "port": {"name": "http"}}
    assert {name for one in ingress["spec"]["tls"] for name in one["hosts"]} == hosts.keys()
    assert (
        "CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL=https://dagster.example.com"
        in (cluster / "kustomization.yaml").read_text()
    )


def connections(arguments: list[str]) -> int:
    return int(arguments[arguments.index("-c") + 1].removeprefix("max_connections="))


def test_postgres_has_connections_for_every_serving_process(services: dict[str, Any]) -> None:
    serving = sum(name.startswith("serve-") for name in services)
    assert connections(services["postgres"]["command"]) >= CONNECTIONS + WORKER_CONNECTIONS * (serving - 1)
    objects = manifests.rendered("single-node")
    most = named(objects, "HorizontalPodAutoscaler")["serve"]["spec"]["maxReplicas"]
    (postgres,) = named(objects, "StatefulSet")["postgres"]["spec"]["template"]["spec"]["containers"]
    assert connections(postgres["args"]) >= CONNECTIONS + WORKER_CONNECTIONS * (most - 1)


def test_postgres_has_the_settings_of_the_one_that_is_embedded(services: dict[str, Any]) -> None:
    """Above all those that keep texts out of the server's log and erased ones out of old write-ahead log files."""
    spec = named(manifests.rendered("single-node"), "StatefulSet")["postgres"]["spec"]["template"]["spec"]
    (postgres,) = spec["containers"]
    wanted = {f"{name}={value}" for name, value in SERVER.items()}
    wanted -= {one for one in wanted if one.startswith(("listen_addresses=", "unix_socket_directories="))}
    for line in (services["postgres"]["command"], postgres["args"]):
        assert set(line[::2]) == {"-c"}
        assert wanted - set(line[1::2]) == set()
    assert services["postgres"]["shm_size"] == "256m"
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}} in spec["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in postgres["volumeMounts"]  # noqa: S108


def test_probes_exist_and_differ(objects: list[dict[str, Any]]) -> None:
    routes = {path for handler in HANDLERS for path in handler.paths}
    answered = {"serve": routes, "webserver": {dagster_gate.ALIVE, dagster_gate.READY}}
    for name, paths in answered.items():
        (container,) = (one for of, one in ours(objects) if of == name and "livenessProbe" in one)
        live, ready = (container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness"))
        assert {live, ready, container["startupProbe"]["httpGet"]["path"]} <= paths
        assert live != ready
    (code,) = (one for of, one in ours(objects) if of == "code" and "livenessProbe" in one)
    assert code["livenessProbe"]["grpc"]["port"] == code["ports"][0]["containerPort"]
    assert f'"{code["livenessProbe"]["grpc"]["service"]}"' in Path(dagster._grpc.server.__file__).read_text()
    (endpoint,) = named(objects, "ServiceMonitor")["serve"]["spec"]["endpoints"]
    assert endpoint["path"] in routes
    assert endpoint["port"] in ports(objects, "serve")


def test_what_objects_refer_to_exists(objects: list[dict[str, Any]], secrets: Path) -> None:
    keys = {file.name for file in secrets.iterdir()}
    text = json.dumps(objects)
    assert {Path(path).name for path in re.findall(r"/run/secrets/concordance/[\w.-]+", text)} <= keys
    assert set(re.findall(r'"key": "([\w-]+)", "name": "concordance"', text)) <= keys
    maps, accounts = named(objects, "ConfigMap"), named(objects, "ServiceAccount")
    for kind in ("Deployment", "Job"):
        for name, one in named(objects, kind).items():
            spec = one["spec"]["template"]["spec"]
            assert spec["serviceAccountName"] in accounts, name
            volumes = {volume["name"] for volume in spec["volumes"]}
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
                assert {
                    one["configMapRef"]["name"] for one in container["envFrom"] if "configMapRef" in one
                } <= maps.keys()
            assert {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume} <= maps.keys()


def test_pods_have_no_rights_that_they_do_not_need(objects: list[dict[str, Any]]) -> None:
    launching = "launch-runs" in named(objects, "Role")
    for kind in ("Deployment", "Job", "StatefulSet"):
        for name, one in named(objects, kind).items():
            spec = one["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsNonRoot"], name
            assert spec["automountServiceAccountToken"] == (launching and name in {"daemon", "webserver"}), name
            for container in spec["containers"]:
                assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
                assert container["resources"].keys() == {"requests", "limits"}
                assert container["securityContext"].get("readOnlyRootFilesystem") is (kind != "StatefulSet" or None)
    policies = named(objects, "NetworkPolicy")
    assert policies["deny-all"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    running = {name for kind in ("Deployment", "Job", "StatefulSet") for name in named(objects, kind)}
    assert running <= policies.keys()
    check_peers(objects, policies)
    serve = named(objects, "Deployment")["serve"]["spec"]
    assert serve["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert serve["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] > 0
    assert named(objects, "Deployment")["daemon"]["spec"]["replicas"] == 1


def check_peers(objects: list[dict[str, Any]], policies: dict[str, dict[str, Any]]) -> None:
    """Fail if a policy names a peer that no pod is, or a port that its pods do not have."""
    pods = [
        one["spec"]["template"]
        for kind in ("Deployment", "Job", "StatefulSet")
        for one in named(objects, kind).values()
    ]
    for name, policy in policies.items():
        rules = [(rule, "from") for rule in policy["spec"].get("ingress", ())]
        rules += [(rule, "to") for rule in policy["spec"].get("egress", ())]
        for rule, way in rules:
            for peer in rule.get(way, ()):
                wanted = peer["podSelector"]["matchLabels"].items()
                if wanted == {"app.kubernetes.io/name": "run"}.items():
                    continue  # pods of runs have the labels of the run launcher
                chosen = [pod for pod in pods if wanted <= pod["metadata"]["labels"].items()]
                assert chosen, f"{name}: no pod is {dict(wanted)}"
                if way == "to":
                    (container,) = chosen[0]["spec"]["containers"]
                    assert {one["port"] for one in rule["ports"]} <= {
                        one["containerPort"] for one in container["ports"]
                    }


MAIL, TRACES = (465, 587), 4318
"""Ports of submission of email, and of OTLP over HTTP."""
STORES = {"CONCORDANCE_QDRANT_URL", "AWS_ENDPOINT_URL"}
NEEDED: dict[str, tuple[set[str], tuple[int, ...]]] = {
    "serve": ({"CONCORDANCE_DAGSTER_URL", "CONCORDANCE_HTTP__INTERNAL_URL", *STORES}, (443, *MAIL, TRACES)),
    "code": ({"CONCORDANCE_DAGSTER_URL", *STORES}, (443, TRACES)),
    "run": ({"CONCORDANCE_DAGSTER_URL", *STORES}, (443, TRACES)),
    "webserver": ({"CONCORDANCE_HTTP__INTERNAL_URL", "CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS"}, ()),
    "daemon": ({"CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS"}, ()),
    "migrate": (set(), ()),
}
"""What each pod connects to besides Postgres: settings with an address, and ports of services outside of the cluster. Commands such as
`concordance search` call the HTTP interface from a pod of its own."""


def test_policies_let_processes_reach_what_they_call(objects: list[dict[str, Any]], secrets: Path) -> None:
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    given = named(objects, "ConfigMap")["concordance"]["data"]
    pods = {
        name: one["spec"]["template"]["metadata"]["labels"]
        for kind in ("Deployment", "Job", "StatefulSet")
        for name, one in named(objects, kind).items()
    }
    if "run" in named(objects, "NetworkPolicy"):  # a pod for each run, with the labels of the run launcher
        pods["run"] = {"app.kubernetes.io/name": "run", "app.kubernetes.io/part-of": "concordance"}
    postgres = urlsplit((secrets / "postgres-url").read_text())
    refused: list[str] = []
    for source in pods.keys() & NEEDED.keys():
        settings, outside = NEEDED[source]
        calls = {(postgres.hostname, postgres.port), *((None, port) for port in outside)}
        for address in (given[name] for name in settings if name in given):
            parts = urlsplit(address if "//" in address else f"//{address}")
            calls.add((parts.hostname, parts.port))
        for host, port in calls:
            target = pods.get(host or "")  # a service has the name of its pods; others are outside of the namespace
            if not lets_pass(policies, "egress", pods[source], target, port):
                refused.append(f"{source} may not call {host or 'services outside'}:{port}")
            if target is not None and not lets_pass(policies, "ingress", target, pods[source], port):
                refused.append(f"{host} may not be called by {source} at {port}")
    assert refused == []


def lets_pass(
    policies: list[dict[str, Any]], way: str, pod: Mapping[str, str], peer: Mapping[str, str] | None, port: int | None
) -> bool:
    """Return True if a policy of the pod allows this connection; all of ours have the same kinds of rules."""
    for policy in policies:
        if chooses(policy["podSelector"], pod):
            for rule in policy.get(way, ()):
                peers = rule.get("to" if way == "egress" else "from")
                known = peers is None or (peer is not None and any(chooses(one["podSelector"], peer) for one in peers))
                if known and port in {one["port"] for one in rule["ports"]}:
                    return True
    return False


def chooses(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return True if a selector of pods chooses one with these labels."""
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ()))


def test_runs_of_the_cluster_are_started_with_our_command() -> None:
    manifests.validate_run_launcher()
    own = (FOLDER / "kubernetes/overlays/cluster/dagster.yaml").read_text()
    theirs = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    given = yaml.safe_load(own)
    objects = manifests.rendered("cluster")
    runs = int(named(objects, "ConfigMap")["concordance"]["data"]["CONCORDANCE_LIMITS__SYNC_RUNS"])
    theirs["concurrency"]["pools"]["default_limit"] = runs
    theirs["run_launcher"] = given["run_launcher"]
    assert given == theirs
    launcher = given["run_launcher"]["config"]
    assert launcher["service_account_name"] in named(objects, "ServiceAccount")
    assert {launcher["instance_config_map"], *launcher["env_config_maps"]} <= named(objects, "ConfigMap").keys()
    assert launcher["job_image"] == IMAGE
    command = launcher["run_k8s_config"]["container_config"]["command"]
    check_command([*command[1:], "/opt/concordance/bin/python", "-m", "dagster", "api", "execute_run", "{}"])


def test_the_overlays_of_the_page_name_the_image_of_runs_and_restore_before_anything_runs(tmp_path: Path) -> None:
    page = (FOLDER / "README.md").read_text()
    for name in ("mine", "restore"):
        (tmp_path / name).mkdir()
    cluster = FOLDER / "kubernetes/overlays/cluster"
    own = re.search(r"^ +(configMapGenerator: .+)$", page, re.MULTILINE)
    assert own is not None
    resources = f"resources: [{os.path.relpath(cluster, (tmp_path / 'mine').resolve())}]"
    (tmp_path / "mine/kustomization.yaml").write_text(f"{resources}\n{own[1]}\n")
    instance = (cluster / "dagster.yaml").read_text().replace(IMAGE, "registry.example/concordance:0.1.0")
    (tmp_path / "mine/dagster.yaml").write_text(instance)
    _, _, rest = page.partition("write `restore/kustomization.yaml`:\n\n")
    (tmp_path / "restore/kustomization.yaml").write_text(dedent(rest.partition("\nThe label")[0]))
    objects = manifests.rendered(str(tmp_path / "restore"))
    assert named(objects, "ConfigMap")["dagster"]["data"]["dagster.yaml"] == instance
    assert all(manifests.validate(one) for one in objects if one["kind"] not in manifests.CUSTOM)
    [(name, container)] = manifests.containers(objects)
    assert name == "migrate"
    check_command(container["args"])
    assert container["args"][0] == "restore"
    label = named(objects, "Job")["migrate"]["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
    selected = [
        one for one in named(objects, "NetworkPolicy").values()
        if one["spec"]["podSelector"].get("matchLabels") == {"app.kubernetes.io/name": label}
    ]  # fmt: skip
    ports = {port["port"] for one in selected for rule in one["spec"]["egress"] for port in rule["ports"]}
    assert ports >= {5432, 8333, 443}, "Postgres and the object store"


def test_the_unit_is_the_one_that_is_installed() -> None:
    program, home = Path("/opt/concordance/.venv/bin/concordance"), Path("/var/lib/concordance")
    made = systemd.unit(program, Path("/etc/concordance"), home, home / "lake", "concordance")
    assert (FOLDER / "systemd/concordance.service").read_text() == made
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    assert manifests.verify_unit() == "1 unit verified by systemd-analyze"


def test_secrets_and_files_of_compose_are_not_committed() -> None:
    readme = (FOLDER / "README.md").read_text()
    made = re.findall(r"^    (?:sh compose/secrets\.sh|mkdir) (\w+)", readme, re.MULTILINE)
    assert made == ["secrets", "files"]
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {f"/deploy/{name}/" for name in made} <= set(ignored)


def test_what_services_of_compose_keep_is_in_named_volumes(services: dict[str, Any]) -> None:
    """Folders where their images keep data; Caddy's certificates and its account are in the last."""
    kept = {
        "postgres": "/var/lib/postgresql/data",
        "qdrant": "/qdrant/storage",
        "storage": "/data",
        "serve-1": "/var/lib/concordance/audit",
        "serve-2": "/var/lib/concordance/audit",
        "proxy": "/data",
    }
    named_volumes = manifests.compose()["volumes"]
    for name, folder in kept.items():
        mounted = dict(reversed(one.split(":")[:2]) for one in services[name]["volumes"])
        assert mounted[folder] in named_volumes, name


def test_a_build_is_sent_what_it_copies_and_nothing_else() -> None:
    """Not the environment, HOME, `.env` and secrets, which a builder on another machine would get, too."""
    steps = re.findall(r"^COPY (?!--from)(.+) \S+$", (FOLDER / "Containerfile").read_text(), re.MULTILINE)
    first, *sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert first == "*"
    assert sent == [f"!{name}" for step in steps for name in step.split()] + ["**/__pycache__"]


def test_images_of_others_are_pinned_by_digest(services: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    base = re.findall(r"^ARG PYTHON_IMAGE=(.*)$", (FOLDER / "Containerfile").read_text(), re.MULTILINE)
    assert len(base) == 1
    images = [*base, *(one["image"] for _, one in (*services.items(), *manifests.containers(objects)))]
    assert [one for one in images if one != IMAGE and not re.search("@sha256:[0-9a-f]{64}$", one)] == []


@pytest.mark.parametrize(
    ("given", "locks"), [({}, ["requirements.lock"]), ({"OCR": "1"}, ["requirements.lock", "requirements-ocr.lock"])]
)
def test_the_image_recognises_text_if_the_build_is_told_to(
    given: dict[str, str], locks: list[str], tmp_path: Path
) -> None:
    """Otherwise an installation with text recognition would lose the text of pictures when it moves into containers."""
    build = (FOLDER / "Containerfile").read_text().split("\nFROM ")[1]
    assert "\nARG OCR\n" in build
    pip = tmp_path / "python"
    pip.write_text('#!/bin/sh\necho "$*" >>"$SAID"\n')
    pip.chmod(0o755)
    for step in re.findall(r"^RUN (.*-r .*)$", build, re.MULTILINE):
        environment = {"PATH": os.defpath, "SAID": str(tmp_path / "said")} | given
        subprocess.run(["sh", "-c", step.replace("/opt/concordance/bin/python", str(pip))], env=environment, check=True)
    said = (tmp_path / "said").read_text()
    assert re.findall(r"--require-hashes -r (\S+)$", said, re.MULTILINE) == locks


def test_the_image_is_built_from_what_exists() -> None:
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    final = "\n".join(lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :])
    assert "\nUSER 10001" in final
    assert f"\nENV {' '.join(f'{name}={value}' for name, value in ALLOCATOR.items())}\n" in final
    entry, command = (
        json.loads(re.findall(rf"^{name} (.*)$", final, re.MULTILINE)[0]) for name in ("ENTRYPOINT", "CMD")
    )
    assert entry == ["concordance"]
    check_command(command)
    pinned = set(re.findall(r"^([\w.-]+==\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    image = set(re.findall(r"^([\w.-]+==\S+)", (FOLDER / "requirements.lock").read_text(), re.MULTILINE))
    assert image < pinned
    packages = re.findall(r"^packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
    assert {name.strip(' "') for name in packages.split(",")} <= {name for names in copied for name in names}
