"""Find variables that look like settings and are none, such as a misspelt CONCORDANCE_FILE_ROOT."""

from __future__ import annotations

import difflib
import os
import re
from contextlib import suppress

PREFIX = "CONCORDANCE_"
OURS = frozenset({"CONCORDANCE_WITHHELD", "CONCORDANCE_DAGSTER_POSTGRES_URL", "CONCORDANCE_SAMPLE_PEOPLE"})
"""Variables that `up` passes to its services."""
_KUBERNETES = re.compile(r"CONCORDANCE_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)\w*)?)")
"""Kubernetes sets these in every pod next to a service named concordance.
Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables"""


def unknown_settings() -> list[str]:
    """Return a line for each unknown variable of the environment and of `.env`, with the setting that is meant, if one is near."""
    found = sorted(name for name in _given() if name not in OURS)
    if not found:
        return []
    known = _known()
    return [_line(name, known) for name in found if name not in known and not _KUBERNETES.fullmatch(name)]


def _given() -> set[str]:
    from resources.settings.secret_files import dotenv

    names = set(os.environ)
    with suppress(ValueError):  # the command itself reports a file that cannot be read
        names |= dotenv().keys()
    return {name.upper() for name in names if name.upper().startswith(PREFIX)}


def _known() -> frozenset[str]:
    """Return the variables of all settings, former ones included: `load` says what became of those."""
    from resources.settings import Settings, secret_files, variables
    from resources.sources import specs

    names = (*Settings.model_fields, *variables.GROUPS, *variables.NESTED.values(), *variables.FIXED)
    known = {f"{PREFIX}{name}".upper() for name in names} | {*secret_files.variables_of(Settings).values()}
    for spec in specs():
        if spec.settings is not Settings:
            prefix = spec.settings.model_config.get("env_prefix", "")
            known |= {f"{prefix}{name}".upper() for name in spec.settings.model_fields}
            known |= {*secret_files.variables_of(spec.settings).values()}
    return frozenset(known)


def _line(name: str, known: frozenset[str]) -> str:
    from resources.settings import variables

    near = difflib.get_close_matches(
        name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], n=1, cutoff=0.7
    )
    meant = (
        f"did you mean {variables.variable_of(near[0].lower())}?"
        if near
        else "docs/configuration.md lists the settings."
    )
    return f"{name} is not a setting and is ignored: {meant}"
