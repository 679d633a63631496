"""People and groups from where they are kept: Google's directory, a CSV file, and what an identity provider sends or claims.

Syncs and SCIM's routes write the tables `directory` and `people`. What a request may read is not decided here: see
`serving.identity`.
"""

from collections.abc import Collection

from resources.settings import Settings

GOOGLE = "google_directory"
FILE = "groups_file"
SCIM = "scim"
PEOPLE = "google"
"""Name of Google's directory in the table `people`."""
CLAIM = "groups_claim"
"""Claims of sign-in providers, which sessions carry."""
SOURCES_OF_GROUPS = (GOOGLE, FILE, SCIM)


def sources_of_groups(settings: Settings, read: Collection[str]) -> list[str]:
    """Return the sources of groups that are set up; `read` names those that were ever read (`source_states.directory_at`).

    A service account counts once Google has let it read the directory, SCIM once a client has signed in. Slack's user
    groups do not count: their domain is Slack's own.
    """
    asked = to_sync(settings)
    set_up = {
        GOOGLE: GOOGLE in asked and (settings.google_directory_api_url is not None or GOOGLE in read),
        FILE: FILE in asked,
        SCIM: SCIM in read,
        CLAIM: settings.claims_groups,
    }
    return [name for name, on in set_up.items() if on]


def groups_are_managed(settings: Settings, read: Collection[str]) -> bool:
    """Return True if groups come from where they are kept. Groups in tokens and keys made here are then ignored."""
    return bool(sources_of_groups(settings, read))


def to_sync(settings: Settings) -> list[str]:
    """Return the sources that a sync of the directory reads; a service account may yet turn out not to be allowed to."""
    service_account = settings.reads_as_service_account and settings.google_subject is not None
    set_up = {
        GOOGLE: settings.google_directory_api_url is not None or service_account,
        FILE: settings.groups_file is not None,
    }
    return [name for name, on in set_up.items() if on]
