"""Check everything that Concordance depends on, and suggest a remedy for each fault.

Nothing is started or changed, except for a temporary file in HOME; each model is loaded and called once.
"""

import asyncio
import errno
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from orchestration.diagnosis import model_checks, network, preflight, store_checks
from orchestration.diagnosis.unknown_settings import unknown_settings
from orchestration.supervision import dagster_folder, run_state
from orchestration.supervision.changes import changed_settings
from orchestration.supervision.liveness import answers
from orchestration.supervision.serving import serving_address
from resources import dagster_access, sources
from resources.core.checks import Check
from resources.core.errors import ConcordanceError, ServiceUnavailableError
from resources.servers.processes import port_fault
from resources.settings import FileRoot, Settings, load
from resources.settings.urls import local_folder
from resources.sources.folders import LocalFolder
from resources.sources.spec import SourceSpec
from resources.sources.tree import UnreadablePath
from resources.stores import disk
from resources.stores.room import rooms

LEAST_DISK_BYTES = 2 * 1024**3
ROOT_SECONDS = 10
ROOTS_AT_ONCE = 16


class Installation(NamedTuple):
    """The installation to check: its settings, and whether a supervisor runs in its HOME."""

    settings: Settings
    running: bool
    unreached: Set[str] = frozenset()
    """Services that have not answered, so that no other check waits for them."""

    @property
    def has_registry(self) -> bool:
        """True if Postgres can be asked."""
        return "postgres" not in self.unreached and (self.running or not self.settings.embedded_postgres)

    @property
    def supervised_elsewhere(self) -> bool:
        return run_state.supervised_elsewhere(self.settings)


def examine() -> Iterator[Check]:
    """Yield the finding of each check as it ends. If the settings are invalid, nothing else is checked."""
    yield _python()
    try:
        settings = load()
    except ConcordanceError as error:
        yield Check("settings", False, str(error), "Correct the variables named above.")
        return
    unknown = unknown_settings()
    yield Check("settings", not unknown, " ".join([f"HOME is {settings.home}.", *unknown]))
    if names := changed_settings(settings):
        changed = f"{', '.join(names)}: changed since the start."
        yield Check("running settings", False, changed, "Run: concordance restart")
    site = Installation(settings, run_state.supervisor(settings) is not None)
    checks: list[tuple[str, Callable[[Installation], Iterator[Check]]]] = [
        ("home", _home), ("account", _account), ("disk", _disk), ("ports", _ports), ("postgres", _postgres), ("qdrant", _qdrant),
        ("embedder", _embedder), ("reranker", _reranker), ("language model", _language_model), ("budget", _budget), ("lake", _lake),
        ("dagster", _dagster), ("pools", pools), ("serving", _serving), ("email", email),
        ("reverse proxy", _reverse_proxy), ("keys", _keys), ("file roots", _roots), ("sources", installed_sources),
        ("outsiders", _outsiders), ("parsers", lambda _: parsers()),
    ]  # fmt: skip
    faults = _guarded("settings", lambda site: iter(preflight.examine(site.settings)), site)
    yield from faults
    site = site._replace(unreached={one.name for one in faults} - {"file roots"})
    for name, check in checks:
        if name in site.unreached:
            continue
        found = _guarded(name, check, site)
        yield from found
        if not all(one.ok for one in found):
            site = site._replace(unreached=site.unreached | {name})


def _guarded(name: str, check: Callable[[Installation], Iterator[Check]], site: Installation) -> list[Check]:
    try:
        return list(check(site))
    except ConcordanceError as error:
        return [Check(name, False, str(error))]
    except Exception as error:  # noqa: BLE001 # any error is the result of the check; the other checks continue
        return [Check(name, False, f"{type(error).__name__}: {error}")]


def _python() -> Check:
    return Check("python", True, ".".join(str(part) for part in sys.version_info[:3]))


def _home(site: Installation) -> Iterator[Check]:
    folder = disk.nearest(site.settings.home)
    try:
        with tempfile.TemporaryFile(dir=folder):
            yield Check("home", True, f"{folder} is writable")
    except OSError as error:
        if site.supervised_elsewhere:  # all that they write to is a store, which `_disk` checks
            yield Check("home", True, f"{folder} is not writable, and need not be without `concordance up`")
            return
        yield Check("home", False, f"{folder}: {error.strerror}", "Set CONCORDANCE_HOME to a writable folder.")


def _account(site: Installation) -> Iterator[Check]:
    name = run_state.account(site.settings)
    if name == "root":
        yield Check("account", True, "services run as root; `concordance up` prints the reason when started as root")
    elif name is not None:
        yield Check("account", True, f"services run as {name}")


def _disk(site: Installation) -> Iterator[Check]:
    folder = disk.nearest(site.settings.home)
    free = shutil.disk_usage(folder).free
    for fault in disk.faults(site.settings):
        yield Check("disk", False, str(fault))
    for one in rooms(site.settings):
        if one.is_used_up:
            yield Check("disk", False, str(one))
    enough = free >= LEAST_DISK_BYTES
    yield Check(
        "disk", enough, f"{free / 1024**3:.1f} GiB free", "" if enough else "Free some space, or move CONCORDANCE_HOME."
    )


def _ports(site: Installation) -> Iterator[Check]:
    if site.running or site.supervised_elsewhere:
        return
    wanted = {"HTTP": site.settings.http_port, "DAGSTER": site.settings.dagster_port}
    if site.settings.embedded_qdrant:
        wanted["QDRANT"] = site.settings.qdrant_port
    if site.settings.embedded_postgres:
        wanted["POSTGRES"] = site.settings.postgres_port
    for name, port in wanted.items():
        others = [other for other, number in wanted.items() if number == port and other != name]
        fault = port_fault(port)
        if fault is not None and f"{name}_port".lower() not in site.settings.model_fields_set:
            yield Check("ports", True, f"CONCORDANCE_{name}_PORT is not set and {port} is taken: `up` chooses another")
        elif fault is None and not others:
            yield Check("ports", True, f"CONCORDANCE_{name}_PORT {port} is free")
        else:
            why = f"is also used for {others[0]}" if others else "is taken by another program"
            if fault is not None and fault.errno != errno.EADDRINUSE:
                why = f"cannot be used: {fault.strerror}"
            yield Check("ports", False, f"CONCORDANCE_{name}_PORT {port} {why}", "Set it to a free port.")


def _postgres(site: Installation) -> Iterator[Check]:
    yield from store_checks.postgres(site.settings, running=site.running)


def _qdrant(site: Installation) -> Iterator[Check]:
    yield from store_checks.qdrant(site.settings, running=site.running)


def _lake(site: Installation) -> Iterator[Check]:
    yield from store_checks.lake(site.settings, registry=site.has_registry)


def _embedder(site: Installation) -> Iterator[Check]:
    yield from model_checks.embedding(site.settings, registry=site.has_registry)


def _reranker(site: Installation) -> Iterator[Check]:
    yield from model_checks.reranker(site.settings)


def _language_model(site: Installation) -> Iterator[Check]:
    yield from model_checks.language_model(site.settings)


def _budget(site: Installation) -> Iterator[Check]:
    if site.has_registry:
        yield from model_checks.budget(site.settings)


def _dagster(site: Installation) -> Iterator[Check]:
    if not site.running and site.settings.dagster_url is None:
        yield Check("dagster", True, "starts with `concordance up`")
        return
    ok = answers(f"{site.settings.dagster_address}/server_info", dagster_access.headers(site.settings))
    yield Check(
        "dagster",
        ok,
        f"{site.settings.dagster_address} {'responds' if ok else 'is not responding'}",
        "" if ok else f"See {site.settings.home / 'logs' / 'dagster-webserver.log'}, or set CONCORDANCE_DAGSTER_URL.",
    )


def pools(site: Installation) -> Iterator[Check]:
    """Compare the limit in an instance file of the operator's own, which only Dagster reads, with the setting."""
    file, wanted = dagster_folder.own_file(site.settings), site.settings.sync_runs
    if file is None or wanted == 1:
        return
    limit = re.search(r"^ +default_limit: *(\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    if limit is not None and int(limit[1]) < wanted:
        both = f"CONCORDANCE_LIMITS__SYNC_RUNS is {wanted}, but Dagster's limit of a pool is {limit[1]}"
        yield Check("pools", False, both, f"Set concurrency.pools.default_limit in {file} to {wanted}.")


def _serving(site: Installation) -> Iterator[Check]:
    if site.supervised_elsewhere:
        yield Check("serving", True, "checked by the platform that runs it: docs/processes.md, Probes")
        return
    if not site.running:
        yield Check("serving", True, "starts with `concordance up`")
        return
    address = serving_address(site.settings)
    ok = answers(f"{address}/readyz")
    yield Check(
        "serving",
        ok,
        f"{address} is {'ready' if ok else 'not ready'}",
        "" if ok else f"See {site.settings.home / 'logs' / 'serving.log'}.",
    )


def email(site: Installation) -> Iterator[Check]:
    """Sign in to the server that sends links, if there is one, and send nothing."""
    server, sender = site.settings.smtp_server, site.settings.smtp_sender
    if server is None or sender is None:
        return
    from resources import mail

    try:
        asyncio.run(mail.check(server, sender))
    except mail.MailFailedError as error:
        yield Check("email", False, str(error), "Correct CONCORDANCE_SMTP_URL, or repair the server.")
    else:
        yield Check("email", True, f"{server!r} would accept a message")


def _reverse_proxy(site: Installation) -> Iterator[Check]:
    if not site.running or not network.is_behind_proxy(site.settings):
        return
    import httpx

    try:
        fault = network.spoofing(site.settings)
    except (httpx.HTTPError, ServiceUnavailableError) as error:
        yield Check("reverse proxy", True, f"cannot be tested from here: {site.settings.base_url} ({error})")
        return
    if fault is not None:
        yield fault
    else:
        yield Check("reverse proxy", True, f"{site.settings.base_url} names the clients itself")


def installed_sources(site: Installation) -> Iterator[Check]:
    """Report the connectors that are installed, and each source that is set up and paused, or whose latest sync failed."""
    for fault in sources.faults():
        yield Check("sources", False, str(fault), f"Repair or uninstall the package {fault.package}.")
    yield Check("sources", True, f"installed: {', '.join(sources.names())}")
    for spec in sources.specs():
        yield from _guarded(spec.label, partial(_source, spec), site)


def _source(spec: SourceSpec, site: Installation) -> Iterator[Check]:
    spec.own_settings(site.settings)
    if site.has_registry:
        yield from _stopped(spec, site.settings)
    if spec.checks is not None and "postgres" not in site.unreached:
        yield from spec.checks(site.settings, site.running)


def _stopped(spec: SourceSpec, settings: Settings) -> Iterator[Check]:
    """Report a source that is paused, or whose latest sync failed."""
    from assets.stages.parse import PARSER_VERSION
    from resources.sources import stored
    from resources.stores.postgres import session
    from sql.cli import Commands

    with session(settings.postgres_dsn) as connection:
        settings = stored.complete(settings, connection)
        found = [one for one in Commands(connection).sources(parser=PARSER_VERSION) if one.source == spec.name.value]
    if not found or not spec.configured(settings):
        return
    (state,) = found
    then = f"Then run: concordance sync {spec.name.value}"
    if state.paused_at is not None:
        detail = f"{spec.label} is paused since {state.paused_at:%Y-%m-%d %H:%M} UTC: {state.paused_reason}"
        yield Check("sources", False, detail, then)
    elif state.failed_at is not None:
        detail = f"{spec.label}: the latest sync failed at {state.failed_at:%Y-%m-%d %H:%M} UTC: {state.failed_reason}"
        yield Check("sources", False, detail, then)


def _keys(site: Installation) -> Iterator[Check]:
    from resources import keys

    if keys.path(site.settings).exists():
        keys.load(site.settings)
        keys.fernet(site.settings)
        yield Check("keys", True, f"{keys.path(site.settings)} exists and is readable by its owner only")
    elif site.settings.secret_key is not None and site.settings.encryption_keys is not None:
        keys.fernet(site.settings)
        yield Check("keys", True, "both are set in the settings")
    else:
        yield Check("keys", True, "`concordance up` creates them")


def _outsiders(site: Installation) -> Iterator[Check]:
    if not site.running:
        yield Check("outsiders", True, "access without keys is tested while `concordance up` runs")
        return
    from orchestration.diagnosis.outsider import probe

    report = probe(site.settings)
    how = f"as the account {report.account}" if report.account else "without keys, files checked by their modes"
    for what in report.opened:
        yield Check("outsiders", False, f"{what} is open ({how})", "Compare with docs/security.md and close it.")
    if not report.opened:
        yield Check("outsiders", True, f"{report.attempts} attempts {how}: nothing is open")


def parsers() -> Iterator[Check]:
    """Yield which layers confine the parser process. A missing layer is a fault on Linux only, where all are available."""
    from assets.parsing.confinement import examine as confinement

    found = confinement()
    detail = f"confined by: {', '.join(found.enforced)}"
    detail += "".join(f"; not by {name}: {reason}" for name, reason in found.missing.items())
    ok = not found.missing or sys.platform != "linux"
    remedy = "Use a kernel with Landlock and seccomp, and install libseccomp2; docs/security.md describes each layer."
    yield Check("parsers", ok, detail, "" if ok else remedy)


def _roots(site: Installation) -> Iterator[Check]:
    if not site.settings.file_roots:
        yield Check(
            "file roots", True, "none are set (CONCORDANCE_FILE_ROOTS), so the source `files` has nothing to read"
        )
    wrong = [fault.detail for fault in preflight.roots(site.settings)]
    right = [
        root
        for root in site.settings.file_roots
        if not any(detail.startswith(f"{preflight.ROOTS} ({root.name}):") for detail in wrong)
    ]
    with ThreadPoolExecutor(ROOTS_AT_ONCE) as pool:
        for root, closed in zip(right, pool.map(partial(_closed_folder, site.settings), right), strict=True):
            local = root.url.startswith("file:")
            yield Check(
                "file roots",
                closed is None,
                f"{root.name}: {root.url} {'can be read' if local else 'is checked when it is synced'}"
                if closed is None
                else f"{root.name}: {closed.path}: {closed.reason}",
                "" if closed is None else "Correct its permissions, or move it out of the root.",
            )


def _closed_folder(settings: Settings, root: FileRoot) -> UnreadablePath | None:
    """Return the first folder of a local root that the account may not list, of what is seen within `ROOT_SECONDS`."""
    if not root.url.startswith("file:"):
        return None
    until = time.monotonic() + ROOT_SECONDS
    for page in LocalFolder(local_folder(root.url), max_bytes=settings.max_file_bytes, avoid=settings.home).walk():
        if not page.facts:
            for entry in page.entries():
                if isinstance(entry, UnreadablePath) and entry.closed:
                    return entry
        if time.monotonic() > until:
            break
    return None
