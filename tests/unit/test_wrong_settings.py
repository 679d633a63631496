"""What `up` and `doctor` say about wrong settings, before anything starts. With `pytest -s`, a table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from orchestration.cli import run
from orchestration.diagnosis import preflight
from resources import dagster_access, http_clients, keys
from resources.core.checks import Check
from resources.core.errors import ConfigurationError
from resources.settings import Settings, load, variables
from resources.settings.secret_files import secret_fields

PROJECT = Path(__file__).parents[2]
ROOT = {"name": "notes", "url": "file:///", "tenant": "acme", "dataset": "notes", "permissions": ["public"]}
CLOSED = "127.0.0.1:9"
"""The discard port, on which nothing listens."""


def root(**changed: object) -> str:
    return json.dumps([{name: value for name, value in (ROOT | changed).items() if value is not None}])


Case = tuple[dict[str, str], str]
LONG = f"/{'a' * 300}"
"""No file has such a name: whether there is one cannot be asked."""
CASES: list[Case] = [
    ({"FILE_ROOTS": root(url=f"file://{LONG}")}, f"CONCORDANCE_FILE_ROOTS (notes): {LONG} does not exist"),
    (
        {"EMBEDDING_MODEL": LONG},
        f"CONCORDANCE_EMBEDDING_MODEL: {LONG} is not the folder of a sentence-transformers model",
    ),
    ({"SEARCH__RERANK_MODEL": LONG}, f"CONCORDANCE_SEARCH__RERANK_MODEL: {LONG} is not the folder of a"),
    ({"GOOGLE_SERVICE_ACCOUNT_FILE": LONG}, f"CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE: there is no file {LONG} that"),
    ({"HOME": ""}, "CONCORDANCE_HOME: must name a folder"),
    ({"HOME": " "}, "CONCORDANCE_HOME: must name a folder"),
    ({"ENCRYPTION_KEYS": " "}, "CONCORDANCE_ENCRYPTION_KEYS: is empty: give at least one key, or unset it"),
    ({"HTTP_PORT": "eighty"}, "CONCORDANCE_HTTP_PORT: must be a whole number from 1 to 65535, not 'eighty'"),
    ({"DAGSTER_PORT": "70000"}, "CONCORDANCE_DAGSTER_PORT: must be a number from 1 to 65535, not '70000'"),
    ({"SYNC_MINUTES": "0"}, "CONCORDANCE_SYNC_MINUTES: must be a number from 1 to 60, not '0'"),
    (
        {"LOG_LEVEL": "loud"},
        "CONCORDANCE_LOG_LEVEL: must be 'debug', 'info', 'warning' or 'error', not 'loud'",
    ),
    ({"ACL_MAX_AGE": "1w"}, "CONCORDANCE_ACL_MAX_AGE: must be a duration such as 30m, 24h or 7d, not '1w'"),
    ({"DRIVE__FOLLOW_SHORTCUTS": "maybe"}, "CONCORDANCE_DRIVE__FOLLOW_SHORTCUTS: must be true or false, not 'maybe'"),
    (
        {"DRIVE__LINK_SHARING": "all"},
        "CONCORDANCE_DRIVE__LINK_SHARING: must be 'nobody', 'opened' or 'domain', not 'all'",
    ),
    ({"DRIVE__LINK_SHARING": "opened"}, "CONCORDANCE_DRIVE__LINK_SHARING=opened needs users"),
    ({"DRIVE__LABELS": "{"}, "CONCORDANCE_DRIVE__LABELS: is not valid JSON: "),
    ({"DRIVE__LABELS": '["abc"]'}, "CONCORDANCE_DRIVE__LABELS: must be a JSON object"),
    ({"DRIVE__LABELS": '{"a,b": "exclude"}'}, "CONCORDANCE_DRIVE__LABELS: must name labels by their ids, not 'a,b'"),
    (
        {"DRIVE__LABELS": "abc"},
        "CONCORDANCE_DRIVE__LABELS: must list labels with what they do, such as LABEL_ID:exclude",
    ),
    (
        {"DRIVE__LABELS": "abc:hide"},
        "CONCORDANCE_DRIVE__LABELS (abc): must be 'exclude', 'no_model' or 'no_share', not 'hide'",
    ),
    ({"DRIVE__USERS": "ada"}, "CONCORDANCE_DRIVE__USERS: must list *, emails or patterns such as"),
    ({"DRIVE__USERS": "-ada@acme.com"}, "CONCORDANCE_DRIVE__USERS: must include someone, for example *"),
    (
        {"DRIVE__USERS": "*"},
        "CONCORDANCE_DRIVE__USERS needs CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE, and an administrator",
    ),
    (
        {"DRIVE": "users=*,-ada@acme.com"},
        "CONCORDANCE_DRIVE: '-ada@acme.com' is neither JSON nor a setting: write each setting as a variable of its own, such as",
    ),
    ({"DRIVE": '{"users": '}, "CONCORDANCE_DRIVE: is not valid JSON: "),
    (
        {"DRIVE__LABELS": "abc:exclude abc:no_model"},
        "CONCORDANCE_DRIVE__LABELS: must name each label once, not 'abc' twice",
    ),
    ({"DRIVE": "users=*,users=-ada@acme.com"}, "CONCORDANCE_DRIVE: names users twice; write it once"),
    ({"DRIVE": '{"people": ["*"]}'}, "CONCORDANCE_DRIVE: 'people' is not one of comments, follow_shortcuts, labels, "),
    (
        {"WIDGETS": '[{"name": "a", "origins": ["https://docs.acme.com/"], "collection": "a"}]'},
        "CONCORDANCE_WIDGETS (widget 1, origins, 0): 'https://docs.acme.com/' is not an origin; write https://HOST or",
    ),
    (
        {"WIDGETS": '[{"name": "a", "origins": [], "collection": "a"}]'},
        "CONCORDANCE_WIDGETS (widget 1, origins): must name a site that may show the widget, such as https://docs.",
    ),
    (
        {"WIDGETS": json.dumps([{"name": "a", "origins": ["https://a.example"], "collection": "a"}] * 2)},
        "CONCORDANCE_WIDGETS: names a widget twice: give every widget a name of its own",
    ),
    ({"LLM_API_KEY": "sk-…"}, "CONCORDANCE_LLM_API_KEY: has a character that no key or token has, such as the … of an"),
    (
        {"SLACK_BOT_TOKEN": "xoxb-…"},
        "CONCORDANCE_SLACK_BOT_TOKEN: has a character that no key or token has, such as the …",
    ),
    (
        {"SMTP_URL": "smtp.acme.com:465"},
        "CONCORDANCE_SMTP_URL: must have the form smtps://user:password@host:465 or, with",
    ),
    (
        {"SMTP_URL": "smtps://canary@smtp.acme.com"},
        "CONCORDANCE_SMTP_URL: must have both a user and a password, or neither",
    ),
    (
        {"SMTP_SENDER": "Concordance"},
        "CONCORDANCE_SMTP_SENDER: 'Concordance' is not an email address; write it as name@",
    ),
    ({"SIGN_IN_DOMAINS": "@"}, "CONCORDANCE_SIGN_IN_DOMAINS: must list domains such as acme.com"),
    (
        {"SIGN_IN_DOMAINS": "acme.com", "SMTP_URL": "smtps://smtp.acme.com"},
        "CONCORDANCE_SIGN_IN_DOMAINS needs CONCORDANCE_SMTP_SENDER and CONCORDANCE_PUBLIC_URL",
    ),
    (
        {
            "SIGN_IN_DOMAINS": "acme.com",
            "SMTP_URL": "smtps://smtp.acme.com",
            "SMTP_SENDER": "concordance@acme.com",
            "PUBLIC_URL": "https://search.acme.com",
            "OIDC_PROVIDERS": '[{"name": "Acme", "issuer": "https://id.acme.com", "client_id": "x"}]',
        },
        "CONCORDANCE_SIGN_IN_DOMAINS and CONCORDANCE_OIDC_PROVIDERS exclude each other",
    ),
    ({"SECRET_KEY": "short"}, "CONCORDANCE_SECRET_KEY: must have at least 32 characters; make one with: python -c"),
    ({"OIDC_PROVIDERS": "{"}, "CONCORDANCE_OIDC_PROVIDERS: is not valid JSON: "),
    (
        {"OIDC_PROVIDERS": '[{"name": "Link", "issuer": "https://id.acme.com", "client_id": "x"}]'},
        "CONCORDANCE_OIDC_PROVIDERS: provider 1 (name): must not be link, which stands for people who opened a link",
    ),
    (
        {"OIDC_PROVIDERS": '[{"name": "Acme", "issuer": "http://id.acme.com", "client_id": "x"}]'},
        "CONCORDANCE_OIDC_PROVIDERS: provider 1 (issuer): must begin with https://, not 'http://id.acme.com'",
    ),
    (
        {"OIDC_PROVIDERS": '[{"name": "Acme", "issuer": "https://id.acme.com", "client_id": "x", "audiences": ["x"]}]'},
        "CONCORDANCE_OIDC_PROVIDERS: provider 1 (audiences): must not contain the client_id, which is the audience of ID tokens",
    ),
    ({"LIMITS__WORKERS": "4"}, "CONCORDANCE_LIMITS: 'workers' is not one of alert_repeat, answer_cache_seconds, "),
    (
        {"HTTP__DAGSTER_PUBLIC_URL": "dagster.acme.com"},
        "CONCORDANCE_HTTP__DAGSTER_PUBLIC_URL: 'dagster.acme.com' is not an origin; write https://HOST",
    ),
    (
        {"PUBLIC_URL": "https://acme.com/search"},
        "CONCORDANCE_PUBLIC_URL: must be the root of a site, such as https://search.example.com, not 'https://acme.com/search'",
    ),
    (
        {"PUBLIC_URL": "https://ann:canary@acme.com/"},
        "CONCORDANCE_PUBLIC_URL: must be the root of a site, such as https",
    ),
    (
        {"LIMITS__REINDEX_DOCUMENTS": "-1"},
        "CONCORDANCE_LIMITS__REINDEX_DOCUMENTS: must be a number of at least 0, not '-1'",
    ),
    ({"LIMITS__PRUNE_SHARE": "20"}, "CONCORDANCE_LIMITS__PRUNE_SHARE: must be a number from 0 to 1, not '20'"),
    (
        {"RETENTION__AUDIT": "long"},
        "CONCORDANCE_RETENTION__AUDIT: must be a duration such as 12h or 90d, or forever, not 'long'",
    ),
    (
        {"LIMITS__UPLOAD_SHARE_DOMAINS": "partner"},
        "CONCORDANCE_LIMITS__UPLOAD_SHARE_DOMAINS: must list domains such as partner.example, or public; not 'partner'",
    ),
    (
        {"HTTP__TRUSTED_PROXIES": "proxy.example"},
        "CONCORDANCE_HTTP__TRUSTED_PROXIES: must list addresses and networks such as 10.0.0.0/8",
    ),
    (
        {"LLM_MODEL": "gpt"},
        "CONCORDANCE_LLM_MODEL needs CONCORDANCE_LLM_API_KEY, or CONCORDANCE_LLM_BASE_URL of a service",
    ),
    (
        {"SEARCH__QUERY_EXPANSION": "hyde"},
        "CONCORDANCE_SEARCH__QUERY_EXPANSION=hyde needs CONCORDANCE_LLM_MODEL: set it, or write off",
    ),
    (
        {"POSTGRES_URL": "mysql://ann:canary@db/x"},
        "CONCORDANCE_POSTGRES_URL: must have the form postgresql://user:password@host:5432/database",
    ),
    (
        {"HTTP__HOST": "http://0.0.0.0"},
        "CONCORDANCE_HTTP__HOST: must be an address such as 0.0.0.0 or a host name, without a port",
    ),
    ({"HTTP__HOST": ""}, "CONCORDANCE_HTTP__HOST: must be an address such as 0.0.0.0 or a host name, without a port"),
    (
        {"HTTP__HOST": "[::]:8080"},
        "CONCORDANCE_HTTP__HOST: must be an address such as 0.0.0.0 or a host name, without a port",
    ),
    (
        {"HTTP__HOST": "localhost:8080"},
        "CONCORDANCE_HTTP__HOST: must be an address such as 0.0.0.0 or a host name, without a port",
    ),
    (
        {"HTTP__HOST": "203.0.113.7"},
        "CONCORDANCE_HTTP__HOST: cannot listen on 203.0.113.7: Cannot assign requested address. Give an address of this machine",
    ),
    (
        {"HTTP__ALLOWED_HOSTS": "kb.acme.com https://kb.acme.de"},
        "CONCORDANCE_HTTP__ALLOWED_HOSTS: must list host names such as kb.acme.com, without https:// and a port, not https://kb.acme.de",
    ),
    (
        {"INDEX__PREFIX": "North-"},
        "CONCORDANCE_INDEX__PREFIX: must begin with a lower-case letter or digit and consist of these, hyphens and underscores",
    ),
    ({"QDRANT_URL": "vectors:6333"}, "CONCORDANCE_QDRANT_URL: must be a URL such as https://service.example.com"),
    (
        {"LAKE_URL": "/srv/lake"},
        "CONCORDANCE_LAKE_URL: must be file:///absolute/path, s3://bucket/prefix, az://… or gs://…, not '/srv/lake'",
    ),
    (
        {"LLM_BASE_URL": "localhost:8000/v1"},
        "CONCORDANCE_LLM_BASE_URL: must be a URL such as https://service.example.com",
    ),
    ({"ROLES": "it@acme.com"}, "CONCORDANCE_ROLES: is not valid JSON: "),
    (
        {"ROLES": '{"owner": ["it@acme.com"]}'},
        "CONCORDANCE_ROLES: 'owner' is not one of administrator, auditor, operator, curator",
    ),
    ({"ROLES": '{"operator": "it@acme.com"}'}, "CONCORDANCE_ROLES: operator: must be a list of emails and groups"),
    (
        {"ROLES": '{"administrator": ["domain:acme.com"]}'},
        "CONCORDANCE_ROLES: 'domain:acme.com' is not an email or a group (group:NAME@DOMAIN); roles are given to these only",
    ),
    ({"ROLES": '{"auditor": ["public"]}'}, "CONCORDANCE_ROLES: 'public' is not an email or a group"),
    ({"ALERT_WEBHOOK_URL": "hooks/canary"}, "CONCORDANCE_ALERT_WEBHOOK_URL: must be a URL that begins with https://"),
    ({"JOB_WEBHOOK_URL": "hooks/canary"}, "CONCORDANCE_JOB_WEBHOOK_URL: must be a URL that begins with https://"),
    ({"JOB_WEBHOOK_URL": "https://hooks.example"}, "CONCORDANCE_JOB_WEBHOOK_URL: needs CONCORDANCE_JOB_WEBHOOK_SECRET"),
    (
        {"JOB_WEBHOOK_SECRET": "whsec_canary"},
        "CONCORDANCE_JOB_WEBHOOK_SECRET: must be whsec_ and 24 to 64 bytes in base64",
    ),
    (
        {"POSTGRES_URL": f"postgresql://ann:canary@{CLOSED}/x"},
        "CONCORDANCE_POSTGRES_URL: the database does not respond (connection failed: ",
    ),
    ({"QDRANT_URL": f"http://{CLOSED}"}, f"CONCORDANCE_QDRANT_URL: nothing responds at {CLOSED} ("),
    (
        {"LLM_MODEL": "m", "LLM_BASE_URL": f"http://{CLOSED}/v1"},
        f"CONCORDANCE_LLM_BASE_URL: nothing responds at {CLOSED} (",
    ),
    (
        {"EMBEDDING_PROVIDER": "openai", "OPENAI_BASE_URL": f"http://{CLOSED}/v1"},
        f"CONCORDANCE_OPENAI_BASE_URL: nothing responds at {CLOSED} (",
    ),
    (
        {"LAKE_URL": "file:///etc/passwd/lake"},
        "CONCORDANCE_LAKE_URL: /etc/passwd is not a writable folder. Correct the path",
    ),
    (
        {"EMBEDDING_MODEL": "/nowhere"},
        "CONCORDANCE_EMBEDDING_MODEL: /nowhere is not the folder of a sentence-transformers model, it lacks config.json",
    ),
    (
        {"SEARCH__CHUNK_PROFILE": "b500"},
        "CONCORDANCE_SEARCH__CHUNK_PROFILE: there is no chunking profile 'b500'. Known: auto, a500",
    ),
    (
        {"SEARCH__CHUNK_PROFILE": "b1000"},
        "CONCORDANCE_SEARCH__CHUNK_PROFILE: b1000 cuts chunks of 1000 tokens, but the embedding model sees 254",
    ),
    (
        {"ENCRYPTION_KEYS": "x"},
        "CONCORDANCE_ENCRYPTION_KEYS: contains a value that is not a Fernet key. Generate one with",
    ),
    (
        {"GROUPS_FILE": "/nowhere.csv"},
        "CONCORDANCE_GROUPS_FILE: cannot read /nowhere.csv: No such file or directory. Correct the path or its rights",
    ),
    (
        {"GOOGLE_DIRECTORY_API_URL": f"http://{CLOSED}"},
        "CONCORDANCE_GOOGLE_DIRECTORY_API_URL: no credentials may read Google's directory. Set CONCORDANCE_GOOGLE_SERVICE",
    ),
    ({"FILE_ROOTS": '{"name": "notes"'}, "CONCORDANCE_FILE_ROOTS: is not valid JSON: "),
    ({"FILE_ROOTS": "@/nowhere.json"}, "CONCORDANCE_FILE_ROOTS: cannot read /nowhere.json: No such file or directory"),
    (
        {"FILE_ROOTS": root(permissions=["everyone"])},
        "CONCORDANCE_FILE_ROOTS (root 1, permissions): 'everyone' is not a principal; write an email, group:NAME@DOMAIN",
    ),
    ({"FILE_ROOTS": root(tenant=None)}, "CONCORDANCE_FILE_ROOTS (root 1, tenant): is missing: add it"),
    (
        {"FILE_ROOTS": root(permission=[])},
        "CONCORDANCE_FILE_ROOTS (root 1, permission): is not a field: check its spelling",
    ),
    (
        {"FILE_ROOTS": root(url="srv/notes")},
        "CONCORDANCE_FILE_ROOTS (root 1, url): must be file:///absolute/path, s3://",
    ),
    (
        {"FILE_ROOTS": root(url="file:///srv/our notes")},
        "CONCORDANCE_FILE_ROOTS (root 1, url): must have no spaces: write each as %20, not 'file:///srv/our notes'",
    ),
    (
        {"FILE_ROOTS": root(url="file:///nowhere")},
        "CONCORDANCE_FILE_ROOTS (notes): /nowhere does not exist. Create or mount it, or correct its url",
    ),
    (
        {"FILE_ROOTS": root(permissions=None)},
        "CONCORDANCE_FILE_ROOTS (notes): no one may find its documents, because it has no permissions. Add",
    ),
    (
        {"FILE_ROOTS": f"[{root(name='all', url='file:///')[1:-1]},{root(name='tmp', url='file:///tmp')[1:-1]}]"},
        "CONCORDANCE_FILE_ROOTS (tmp): it lies in the root all, so its files are found twice: the second time by those who",
    ),
]


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("CONCORDANCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))


def said() -> list[str]:
    """Return what `up` says about the settings before it starts anything."""
    try:
        return [str(fault) for fault in preflight.check(load())]
    except ConfigurationError as error:
        return [line.strip() for line in str(error).splitlines()[1:]]


@pytest.mark.parametrize(("given", "message"), CASES, ids=["-".join(given) for given, _ in CASES])
def test_a_wrong_value_is_named_with_what_it_should_be(
    given: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"CONCORDANCE_{name}", value)
    found = said()
    assert [line for line in found if line.startswith(message)] == found
    assert len(found) == 1
    assert "canary" not in found[0]
    print(f"\n{' '.join(f'{name}={value}' for name, value in given.items())}\n    {found[0]}")  # noqa: T201 # the table


@pytest.mark.parametrize("blank", ["", " "], ids=["empty", "space"])
def test_a_blank_secret_counts_as_unset(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it protects would be open to everyone."""
    for name in ("QDRANT_API_KEY", "METRICS_TOKEN", "DAGSTER_SECRET", "SLACK_SIGNING_SECRET"):
        monkeypatch.setenv(f"CONCORDANCE_{name}", blank)
    settings = load()
    keys.ensure(settings)
    made = keys.qdrant_api_key(settings), keys.metrics_token(settings), dagster_access.secrets_of(settings).admin
    kept = keys.load(settings)
    assert made == (kept.qdrant_api_key, kept.metrics_token, kept.dagster_secret)
    assert settings.slack_signing_secret is None


@pytest.mark.parametrize("blank", ["", " "], ids=["empty", "space"])
def test_every_blank_value_that_is_optional_counts_as_unset(blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Except those that sign and encrypt: a new one would be generated, with which nothing that exists is accepted."""
    optional = {
        name for name, field in Settings.model_fields.items() if field.get_default(call_default_factory=True) is None
    }
    optional -= {"secret_key", "encryption_keys"}
    assert secret_fields(Settings) - optional == {"secret_key", "encryption_keys"}
    for name in optional:
        monkeypatch.setenv(variables.variable_of(name), blank)
    settings = load()
    assert {name: getattr(settings, name) for name in optional} == dict.fromkeys(optional)


DURATIONS = [
    name for name, field in Settings.model_fields.items() if re.fullmatch(r"\d+[smhd]|forever", str(field.default))
]


@pytest.mark.parametrize("given", ["0d", "0s", "3651d", "9999999999s", "٣d"])
@pytest.mark.parametrize("field", DURATIONS)
def test_a_duration_that_no_one_can_use_is_refused_at_the_start(
    field: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = variables.variable_of(field)
    monkeypatch.setenv(variable, given)
    with pytest.raises(ConfigurationError, match=rf"{variable}: '{given}' is (out of range|not a valid duration): "):
        load()


def test_an_empty_list_of_providers_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passkeys are deleted once there is a provider."""
    monkeypatch.setenv("CONCORDANCE_OIDC_PROVIDERS", "[]")
    assert load().oidc_providers is None


def test_the_remedy_of_an_error_is_known_whatever_its_names_contain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_GROUPS_FILE", "/groups v1. final.csv")
    [fault] = preflight.check(load())
    assert fault.detail == "CONCORDANCE_GROUPS_FILE: cannot read /groups v1. final.csv: No such file or directory"
    assert fault.remedy == "Correct the path or its rights."


NETWORK = {
    "HTTPS_PROXY=socks5://ann:canary@proxy:1080": "HTTPS_PROXY: must name an HTTP proxy, such as http://proxy.example.com:3128. SOCKS",
    f"ALL_PROXY=ann:canary@{CLOSED}": f"ALL_PROXY: nothing accepts connections at {CLOSED} ",
    "SSL_CERT_FILE=/nowhere.pem": "SSL_CERT_FILE: must name a file of certificates in PEM format: /nowhere.pem (",
    f"SSL_CERT_FILE={__file__}": f"SSL_CERT_FILE: must name a file of certificates in PEM format: {__file__} (",
}


@pytest.mark.parametrize("given", NETWORK, ids=lambda given: given.split("=")[0])
def test_a_proxy_and_authorities_that_cannot_be_used_are_named(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = given.partition("=")
    monkeypatch.setenv(name, value)
    http_clients.tls.cache_clear()
    try:
        found = said()
    finally:
        http_clients.tls.cache_clear()
    assert [line for line in found if line.startswith(NETWORK[given])] == found
    assert len(found) == 1
    assert "canary" not in found[0]
    print(f"\n{given}\n    {found[0]}")  # noqa: T201 # the table


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from orchestration.diagnosis import doctor, preflight, reach
from orchestration.cli import sources
from resources.settings import load
settings = load()
preflight._models(settings), reach._lake(settings)  # what these import, too
if os.geteuid() == 0:  # only after the imports: an ordinary user may not be let into the project's folder
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for fault in [*preflight.roots(settings), *preflight._models(settings), *reach._lake(settings)]:
    print(fault)
print(sources._of_folder(settings.file_roots[0]))
"""


def test_what_lies_in_a_closed_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as base:  # pytest's own folders are closed to other users
        Path(base).chmod(0o755)
        (closed := Path(base) / "closed").mkdir(0)
        monkeypatch.setenv("CONCORDANCE_HOME", f"{base}/home")
        monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", root(url=f"{closed.as_uri()}/in"))
        monkeypatch.setenv("CONCORDANCE_LAKE_URL", f"{closed.as_uri()}/lake")
        monkeypatch.setenv("CONCORDANCE_EMBEDDING_MODEL", f"{closed}/model")
        monkeypatch.setenv("CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE", f"{closed}/key.json")
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    *faults, state = done.stdout.splitlines()
    assert [fault.partition(". ")[0] for fault in faults] == [
        f"CONCORDANCE_FILE_ROOTS (notes): {closed}/in cannot be read",
        f"CONCORDANCE_EMBEDDING_MODEL: {closed}/model is not the folder of a sentence-transformers model, it lacks config.json, "
        "tokenizer.json, model.safetensors",
        f"CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE: there is no file {closed}/key.json that this account can read",
        f"CONCORDANCE_LAKE_URL: {closed} is not a writable folder",
    ]
    assert "enter its parent folders" in faults[0]
    assert state == "no access"


def test_doctor_goes_on_if_a_value_cannot_be_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_settings: Settings) -> list[Check]:
        raise OSError("canary")

    monkeypatch.setattr(preflight, "examine", broken)
    assert run(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "FAULT  settings: OSError: canary" in printed
    assert "python" in printed
    assert "disk" in printed


def test_right_values_are_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", root(url=tmp_path.as_uri(), owner="ann@acme.com"))
    assert said() == []


def test_doctor_names_all_faults_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CONCORDANCE_FILE_ROOTS", root(url="file:///nowhere", permissions=None))
    monkeypatch.setenv("CONCORDANCE_QDRANT_URL", f"http://{CLOSED}")
    monkeypatch.setenv("CONCORDANCE_SEARCH__CHUNK_PROFILE", "b500")
    assert run(["doctor"]) == 1
    printed = capsys.readouterr().out
    named = (
        "/nowhere does not exist",
        "no permissions",
        "CONCORDANCE_QDRANT_URL",
        "CONCORDANCE_SEARCH__CHUNK_PROFILE",
    )
    assert [name for name in named if name not in printed] == []
