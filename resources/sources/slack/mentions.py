"""Channel names in messages: only public ones are shown, and those shown are recorded.

A channel can become private after its name was written into documents of other channels. Slack changes none of their messages
then, so each channel records whose names its documents contain, and is read again once one of them is no longer public.
"""

from collections.abc import Iterable, Mapping


class Mentions:
    """Looks up names during the sync of one channel. `public` holds the names of the workspace's public channels by id."""

    def __init__(self, public: Mapping[str, str]) -> None:
        self._public = public
        self.shown: set[str] = set()
        """Ids of the channels whose names were shown."""

    def name(self, channel: str) -> str | None:
        """Return the name of a public channel; None for any other."""
        found = self._public.get(channel)
        if found is not None:
            self.shown.add(channel)
        return found

    def still_public(self, channels: Iterable[str]) -> bool:
        """Return True if all of these channels are public now."""
        return self._public.keys() >= set(channels)
