"""Check everything that Concordance depends on, and suggest a remedy for each fault.

Nothing is started or changed, except for a temporary file in HOME; each model is loaded and called once.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from orchestration import model_checks, network, preflight
from orchestration.supervision import run_state
from orchestration.supervision.changes import changed_settings
from orchestration.supervision.services import answers, serving_address
from orchestration.unknown_settings import unknown_settings
from resources import dagster_access, sources
from resources.core.errors import ConcordanceError, ServiceUnavailableError
from resources.servers.processes import port_is_free
from resources.settings import Settings, load
from resources.sources.spec import SourceSpec
from resources.stores import disk

LEAST_DISK_BYTES = 2 * 1024**3
SHOWN = 20
"""Number of documents to list; the rest are counted."""


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, with a remedy if it found a fault."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class Installation(NamedTuple):
    """The installation to check: its settings, and whether a supervisor runs in its HOME."""

    settings: Settings
    running: bool

    @property
    def has_registry(self) -> bool:
        """True if Postgres can be asked."""
        return self.running or not self.settings.embedded_postgres


def examine() -> list[Finding]:
    """Run all checks independently of each other. If the settings are invalid, nothing else is checked."""
    findings = [_python()]
    try:
        settings = load()
    except ConcordanceError as error:
        return [*findings, Finding("settings", False, str(error), "Correct the variables named above.")]
    unknown = unknown_settings()
    findings.append(Finding("settings", not unknown, " ".join([f"HOME is {settings.home}.", *unknown])))
    if names := changed_settings(settings):
        findings.append(
            Finding(
                "running settings", False, f"{', '.join(names)}: changed since the start.", "Run: concordance restart"
            )
        )
    site = Installation(settings, run_state.supervisor(settings) is not None)
    checks: list[tuple[str, Callable[[Installation], Iterator[Finding]]]] = [
        ("home", _home), ("account", _account), ("disk", _disk), ("ports", _ports), ("postgres", _postgres), ("qdrant", _qdrant),
        ("embedder", _embedder), ("reranker", _reranker), ("language model", _language_model), ("budget", _budget), ("lake", _lake),
        ("dagster", _dagster), ("serving", _serving),
        ("reverse proxy", _reverse_proxy), ("keys", _keys), ("file roots", _roots), ("sources", _sources),
        ("outsiders", _outsiders), ("parsers", lambda _: parsers()),
    ]  # fmt: skip
    faults = preflight.examine(settings)
    findings += [Finding(one.part, False, f"{one.setting}: {one.what}", one.remedy) for one in faults]
    unreached = {one.part for one in faults} - {"file roots"}
    for name, check in checks:
        if name not in unreached:
            findings += _guarded(name, check, site)
    return findings


def _guarded(name: str, check: Callable[[Installation], Iterator[Finding]], site: Installation) -> list[Finding]:
    try:
        return list(check(site))
    except ConcordanceError as error:
        return [Finding(name, False, str(error))]
    except Exception as error:  # noqa: BLE001 # any error is the result of the check; the other checks continue
        return [Finding(name, False, f"{type(error).__name__}: {error}")]


def _python() -> Finding:
    return Finding("python", True, ".".join(str(part) for part in sys.version_info[:3]))


def _home(site: Installation) -> Iterator[Finding]:
    folder = site.settings.home
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield Finding("home", True, f"{folder} is writable")
    except OSError as error:
        yield Finding("home", False, f"{folder}: {error.strerror}", "Set CONCORDANCE_HOME to a writable folder.")


def _account(site: Installation) -> Iterator[Finding]:
    name = run_state.account(site.settings)
    if name == "root":
        yield Finding("account", True, "services run as root; `concordance up` prints the reason when started as root")
    elif name is not None:
        yield Finding("account", True, f"services run as {name}")


def _disk(site: Installation) -> Iterator[Finding]:
    folder = site.settings.home
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    for fault in disk.faults(site.settings):
        yield Finding("disk", False, str(fault))
    enough = free >= LEAST_DISK_BYTES
    yield Finding(
        "disk", enough, f"{free / 1024**3:.1f} GiB free", "" if enough else "Free some space, or move CONCORDANCE_HOME."
    )


def _ports(site: Installation) -> Iterator[Finding]:
    if site.running:
        return
    wanted = {"HTTP": site.settings.http_port, "DAGSTER": site.settings.dagster_port}
    if site.settings.embedded_qdrant:
        wanted["QDRANT"] = site.settings.qdrant_port
    if site.settings.embedded_postgres:
        wanted["POSTGRES"] = site.settings.postgres_port
    for name, port in wanted.items():
        others = [other for other, number in wanted.items() if number == port and other != name]
        free = port_is_free(port)
        if not free and f"{name}_port".lower() not in site.settings.model_fields_set:
            yield Finding(
                "ports", True, f"CONCORDANCE_{name}_PORT is not set and {port} is taken: `up` chooses another"
            )
        elif free and not others:
            yield Finding("ports", True, f"CONCORDANCE_{name}_PORT {port} is free")
        else:
            why = f"is also used for {others[0]}" if others else "is taken by another program"
            yield Finding("ports", False, f"CONCORDANCE_{name}_PORT {port} {why}", "Set it to a free port.")


def _postgres(site: Installation) -> Iterator[Finding]:
    if site.settings.embedded_postgres and not site.running:
        from resources.servers.postgres import EmbeddedPostgres

        EmbeddedPostgres(site.settings).check_reachable()
        yield Finding("postgres", True, "the embedded server starts with `concordance up`")
        return
    from resources.stores.postgres import session

    with session(site.settings.postgres_dsn) as connection:
        row = connection.execute("SELECT current_setting('server_version') AS version").fetchone()
        known = connection.execute("SELECT to_regclass('schema_migrations') AS ledger").fetchone()
    yield Finding("postgres", True, f"version {row['version'] if row else 'unknown'} responds")
    if known is None or known["ledger"] is None:
        yield Finding("postgres", False, "the database has no tables", "Run `concordance up` once to create them.")


def _qdrant(site: Installation) -> Iterator[Finding]:
    if site.settings.embedded_qdrant and not site.running:
        yield Finding("qdrant", True, "the embedded vector server starts with `concordance up`")
        return
    from resources.stores.qdrant import client

    names = [collection.name for collection in client(site.settings).get_collections().collections]
    yield Finding("qdrant", True, f"{site.settings.qdrant_address} responds, {len(names)} collections")


def _embedder(site: Installation) -> Iterator[Finding]:
    yield from (Finding(*check) for check in model_checks.embedding(site.settings, registry=site.has_registry))


def _reranker(site: Installation) -> Iterator[Finding]:
    yield from (Finding(*check) for check in model_checks.reranker(site.settings))


def _language_model(site: Installation) -> Iterator[Finding]:
    yield from (Finding(*check) for check in model_checks.language_model(site.settings))


def _budget(site: Installation) -> Iterator[Finding]:
    if site.has_registry:
        yield from (Finding(*check) for check in model_checks.budget(site.settings))


def _lake(site: Installation) -> Iterator[Finding]:
    from resources.stores.blobs import Blobs

    Blobs(site.settings.lake_address).exists("0" * 64)
    yield Finding(
        "lake", True, f"{site.settings.lake_address} {'(in HOME)' if site.settings.lake_url is None else 'responds'}"
    )
    if site.has_registry:
        yield from _contents(site.settings)


def _contents(settings: Settings) -> Iterator[Finding]:
    """Open every table and check that the bytes of every live document exist."""
    from assets.upkeep.integrity import expected_tables, lost_contents
    from resources.stores.blobs import Blobs
    from resources.stores.damage import damaged_tables, remedy
    from resources.stores.lake import Lake
    from resources.stores.postgres import session

    with session(settings.postgres_dsn) as connection:
        lost = lost_contents(connection, Blobs(settings.lake_address))
        expected = expected_tables(connection)
    damaged = damaged_tables(Lake(settings.lake_address), expected)
    for name, reason in sorted(damaged.items()):
        yield Finding("lake", False, f"table {name}: {reason}", remedy(name))
    for source_id, reason in lost[:SHOWN]:
        yield Finding("lake", False, f"{source_id}: {reason}", "Run: concordance reconcile --deep --apply")
    if len(lost) > SHOWN:
        yield Finding("lake", False, f"{len(lost) - SHOWN} more documents cannot be rebuilt")
    if not damaged and not lost:
        yield Finding("lake", True, "every table can be opened and every live document can be rebuilt")


def _dagster(site: Installation) -> Iterator[Finding]:
    if not site.running and site.settings.dagster_url is None:
        yield Finding("dagster", True, "starts with `concordance up`")
        return
    ok = answers(f"{site.settings.dagster_address}/server_info", dagster_access.headers(site.settings))
    yield Finding(
        "dagster",
        ok,
        f"{site.settings.dagster_address} {'responds' if ok else 'is not responding'}",
        "" if ok else f"See {site.settings.home / 'logs' / 'dagster-webserver.log'}, or set CONCORDANCE_DAGSTER_URL.",
    )


def _serving(site: Installation) -> Iterator[Finding]:
    if not site.running:
        yield Finding("serving", True, "starts with `concordance up`")
        return
    address = serving_address(site.settings)
    ok = answers(f"{address}/readyz")
    yield Finding(
        "serving",
        ok,
        f"{address} is {'ready' if ok else 'not ready'}",
        "" if ok else f"See {site.settings.home / 'logs' / 'serving.log'}.",
    )


def _reverse_proxy(site: Installation) -> Iterator[Finding]:
    if not site.running or not network.is_behind_proxy(site.settings):
        return
    import httpx

    try:
        fault = network.spoofing(site.settings)
    except (httpx.HTTPError, ServiceUnavailableError) as error:
        yield Finding("reverse proxy", True, f"cannot be tested from here: {site.settings.base_url} ({error})")
        return
    if fault is not None:
        yield Finding("reverse proxy", False, f"{fault.setting}: {fault.what}", fault.remedy)
    else:
        yield Finding("reverse proxy", True, f"{site.settings.base_url} names the clients itself")


def _sources(site: Installation) -> Iterator[Finding]:
    for fault in sources.faults():
        yield Finding("sources", False, str(fault), f"Repair or uninstall the package {fault.package}.")
    yield Finding("sources", True, f"installed: {', '.join(sources.names())}")
    for spec in sources.specs():
        yield from _guarded(spec.label, partial(_source, spec), site)


def _source(spec: SourceSpec, site: Installation) -> Iterator[Finding]:
    spec.own_settings(site.settings)
    if spec.checks is not None:
        yield from (Finding(*check) for check in spec.checks(site.settings, site.running))


def _keys(site: Installation) -> Iterator[Finding]:
    from resources import keys

    if keys.path(site.settings).exists():
        keys.load(site.settings)
        keys.fernet(site.settings)
        yield Finding("keys", True, f"{keys.path(site.settings)} exists and is readable by its owner only")
    elif site.settings.secret_key is not None and site.settings.encryption_keys is not None:
        keys.fernet(site.settings)
        yield Finding("keys", True, "both are set in the settings")
    else:
        yield Finding("keys", True, "`concordance up` creates them")


def _outsiders(site: Installation) -> Iterator[Finding]:
    if not site.running:
        yield Finding("outsiders", True, "access without keys is tested while Concordance runs")
        return
    from orchestration.outsider import probe

    report = probe(site.settings)
    how = f"as the account {report.account}" if report.account else "without keys, files checked by their modes"
    for what in report.opened:
        yield Finding("outsiders", False, f"{what} is open ({how})", "Compare with docs/security.md and close it.")
    if not report.opened:
        yield Finding("outsiders", True, f"{report.attempts} attempts {how}: nothing is open")


def parsers() -> Iterator[Finding]:
    """Yield which layers confine the parser process. A missing layer is a fault on Linux only, where all are available."""
    from assets.parsing.confinement import examine as confinement

    found = confinement()
    detail = f"confined by: {', '.join(found.enforced)}"
    detail += "".join(f"; not by {name}: {reason}" for name, reason in found.missing.items())
    ok = not found.missing or sys.platform != "linux"
    remedy = "Use a kernel with Landlock and seccomp, and install libseccomp2; docs/security.md describes each layer."
    yield Finding("parsers", ok, detail, "" if ok else remedy)


def _roots(site: Installation) -> Iterator[Finding]:
    if not site.settings.file_roots:
        yield Finding(
            "file roots", True, "none are set (CONCORDANCE_FILE_ROOTS), so the source `files` has nothing to read"
        )
    wrong = {fault.setting for fault in preflight.roots(site.settings)}
    for root in site.settings.file_roots:
        if f"{preflight.ROOTS} ({root.name})" not in wrong:
            local = root.url.startswith("file:")
            yield Finding(
                "file roots",
                True,
                f"{root.name}: {root.url} {'can be read' if local else 'is checked when it is synced'}",
            )
