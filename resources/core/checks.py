"""What a check of the installation finds, for `concordance doctor` and the start."""

import msgspec

from resources.core.errors import ConcordanceError, ConfigurationError


class Check(msgspec.Struct, frozen=True):
    """The result of one check, with what to do if it is not `ok`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    stops: bool = False
    """True if nothing can start."""

    def __str__(self) -> str:
        return f"{self.detail.rstrip('.')}. {self.remedy}".rstrip()


def wrong(name: str, setting: str, what: str, remedy: str, *, stops: bool = False) -> Check:
    """Return the check of a setting whose value is wrong."""
    return Check(name, False, f"{setting}: {what}", remedy, stops)


def refused(name: str, setting: str, error: ConcordanceError, *, stops: bool = False) -> Check:
    """Return the check of a setting whose value raises an error. The setting is named even if the error knows another name of it."""
    what, remedy = (error.what, error.remedy) if isinstance(error, ConfigurationError) else (str(error), "")
    return wrong(name, setting, what.removesuffix("."), remedy, stops=stops)
