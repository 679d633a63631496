"""Find the sources that installed packages declare in the entry-point group `concordance.sources`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import NamedTuple

from resources.core.domain import SourceName
from resources.sources.spec import SourceSpec

GROUP = "concordance.sources"
OURS = "concordance"
"""The distribution whose sources win over another package's of the same name."""


class SourceFault(NamedTuple):
    """A declaration that cannot be used. The other sources work."""

    source: str
    package: str
    reason: str

    def __str__(self) -> str:
        return f"The source {self.source!r} of the package {self.package} is left out: {self.reason}"


class Discovered(NamedTuple):
    """The usable sources, in a fixed order (ours as in `SourceName`, then by name), and the declarations that cannot be used."""

    specs: Mapping[str, SourceSpec]
    faults: tuple[SourceFault, ...]


def discover(entry_points: Iterable[EntryPoint]) -> Discovered:
    """Load the declarations. Of packages that claim the same name, our own wins; without one of ours, all are refused."""
    # equality of entry points does not regard their packages, and a package may be on the path twice
    entries = {(_place(entry), entry.name, _package(entry), entry.value): entry for entry in entry_points}
    claims: dict[str, list[EntryPoint]] = defaultdict(list)
    for key in sorted(entries):
        claims[entries[key].name].append(entries[key])
    specs: dict[str, SourceSpec] = {}
    faults: list[SourceFault] = []
    for name, claimed in claims.items():
        kept = claimed[:1] if len(claimed) == 1 or _package(claimed[0]) == OURS else []
        packages = " and ".join(_package(entry) for entry in claimed)
        faults += [SourceFault(name, _package(entry), f"{packages} both declare it") for entry in claimed[len(kept) :]]
        for entry in kept:
            try:
                specs[name] = _load(entry)
            except Exception as error:  # noqa: BLE001 # a package of others can fail in any way, and must not stop the rest
                faults.append(SourceFault(name, _package(entry), f"{type(error).__name__}: {error}"))
    return Discovered(specs, tuple(faults))


def _place(entry: EntryPoint) -> int:
    """Return where a source is listed: the members of `SourceName` first, among those without a place ours."""
    members = [name.value for name in SourceName]
    if _package(entry) != OURS:
        return len(members) + 1
    return members.index(entry.name) if entry.name in members else len(members)


def _load(entry: EntryPoint) -> SourceSpec:
    spec = entry.load()
    if not isinstance(spec, SourceSpec):
        raise TypeError(f"{entry.value} is not a SourceSpec")
    if spec.name.value != entry.name:
        raise ValueError(f"{entry.value} is named {spec.name.value!r}")
    return spec


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else OURS
