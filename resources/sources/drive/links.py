"""Readers of files shared by link, by the setting `drive_link_sharing`: no one, those who opened the file, or the organisation.

Drive reports an opened file only to the person who opened it (`viewedByMe`), so each user's view is read, with one call each.
Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

from resources.core import permissions
from resources.core.errors import InvalidRequestError

LinkSharing = Literal["nobody", "opened", "domain"]
_PUBLIC = frozenset({"gmail.com", "googlemail.com"})
"""Domains whose accounts are no organisation."""
_SERVICE_ACCOUNTS = ".gserviceaccount.com"


class Links:
    """`account` returns the email that reads the files, `openers` the people who opened each file that is shared by link."""

    def __init__(
        self,
        setting: LinkSharing,
        account: Callable[[], str],
        openers: Callable[[], Mapping[str, frozenset[str]]] = dict,
    ) -> None:
        self.setting: LinkSharing = setting
        self._account = account
        self._openers = openers

    @cached_property
    def organisation(self) -> str | None:
        """The domain that a link grants; None if it grants no domain."""
        if self.setting != "domain":
            return None
        domain = self._account().rpartition("@")[2]
        return None if domain in _PUBLIC or domain.endswith(_SERVICE_ACCOUNTS) or "." not in domain else domain

    @cached_property
    def account(self) -> frozenset[str]:
        """The account that reads the files, as a principal; none if only a token is known of it."""
        try:
            return frozenset({permissions.email(self._account())})
        except InvalidRequestError:
            return frozenset()

    @property
    def asks(self) -> bool:
        """True if it matters who opened a file."""
        return self.setting == "opened"

    def opened(self, file_id: str) -> frozenset[str]:
        return self._openers().get(file_id, frozenset()) if self.asks else frozenset()
