"""Connectors of the installed sources of documents: ours and those of other packages, each declared by a `SourceSpec`.

A connector reports what its source holds and fetches bytes. Chunking, embedding and indexing are in `assets`, which may import no
connector but through its declaration.
"""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.core.ports import Source
from resources.settings import Settings
from resources.sources.discovery import GROUP, Discovered, SourceFault, discover
from resources.sources.spec import UNDECLARED, Capabilities, Consent, SourceSpec

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@cache
def _discovered() -> Discovered:
    found = list(entry_points(group=GROUP))
    if PYPROJECT.is_file():
        # an editable installation keeps the metadata of the day it was made, which may be older than a source
        declared = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"][GROUP]
        known = {entry.value for entry in found}
        found += [EntryPoint(name, value, GROUP) for name, value in declared.items() if value not in known]
    return discover(found)


def rediscover() -> None:
    """Look again for installed sources: for a process that outlives an installation, such as a test."""
    _discovered.cache_clear()


def specs() -> Sequence[SourceSpec]:
    """Return the declarations of all sources, in a fixed order."""
    return list(_discovered().specs.values())


def names() -> Sequence[SourceName]:
    """Return the names of all sources, in the order of `specs`."""
    return [spec.name for spec in specs()]


def managed() -> Sequence[SourceName]:
    """Return the names of the sources whose collections users cannot name: all but uploads and pushed documents."""
    return [spec.name for spec in specs() if not spec.capabilities.user_supplied]


def faults() -> Sequence[SourceFault]:
    """Return the declarations of sources that cannot be used."""
    return _discovered().faults


def find(text: str) -> SourceSpec | None:
    """Return the source of that name or alias, written with hyphens or underscores; None if there is none."""
    name = text.strip().lower().replace("-", "_")
    return next((spec for spec in specs() if name == spec.name.value or name in spec.aliases), None)


def connecting(provider: str) -> tuple[SourceSpec, Consent] | None:
    """Return the source that people connect at a provider, and how; None if there is none."""
    found = ((spec, spec.connect) for spec in specs() if spec.connect and spec.connect.provider == provider)
    return next(found, None)


def parse(text: str) -> SourceName:
    """Return the name of the source that the user means. Raises `ValueError` listing the known ones."""
    spec = find(text)
    if spec is None:
        raise ValueError(f"There is no source called {text!r}. Known sources: {', '.join(names())}.")
    return spec.name


def spec_of(name: SourceName) -> SourceSpec:
    """Return a source's declaration. Raises `ConfigurationError` if no installed package declares it."""
    try:
        return _discovered().specs[name]
    except KeyError:
        raise ConfigurationError(f"No installed package declares the source {name.value}.") from None


def label(name: str, collection: str | None = None) -> str:
    """Return the source's name as shown to people: for a pushed document that of its collection, and without a package the plain name."""
    spec = _discovered().specs.get(name)
    if spec is None:
        return str(name)
    return collection if collection and spec.capabilities.chosen_users else spec.label


def capabilities(name: str) -> Capabilities:
    """Return what the source offers; the cautious defaults for a source whose package is gone."""
    spec = _discovered().specs.get(name)
    return UNDECLARED if spec is None else spec.capabilities


def unit(name: str, count: int) -> str:
    """Return what that many partitions of the source are called."""
    spec = _discovered().specs.get(name)
    one, several = SourceSpec.unit if spec is None else spec.unit
    return one if count == 1 else several


def configured(settings: Settings, name: SourceName) -> bool:
    return spec_of(name).configured(settings)


def is_set_up(settings: Settings, name: str) -> bool:
    """Return True if the source is installed and has its settings. Those that administrators store must be part of `settings`."""
    return name in names() and configured(settings, SourceName(name))


def open_source(settings: Settings, name: SourceName) -> Source:
    """Return the connector of a source, with its stored settings. Raises `ConfigurationError` if its settings are wrong."""
    from resources.sources.stored import complete
    from resources.stores.memory import PostgresMemory

    return spec_of(name).open(complete(settings), PostgresMemory(settings.postgres_dsn))
