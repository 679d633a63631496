"""What a check of the installation finds, for `concordance doctor`."""

import msgspec


class Check(msgspec.Struct, frozen=True):
    """The result of one check, with what to do if it is not `ok`."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
