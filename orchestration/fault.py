"""A wrong value of a setting, as `concordance up` and `concordance doctor` name it."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A wrong value. `part` is the check of `concordance doctor` that it belongs to."""

    part: str
    setting: str
    what: str
    remedy: str
    stops: bool = False
    """True if `up` must not start."""

    def __str__(self) -> str:
        return f"{self.setting}: {self.what}. {self.remedy}".rstrip()
