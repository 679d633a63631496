"""Recognise what the sample company has left in an installation, and remove its questions."""

from __future__ import annotations

from functools import cache

import msgspec

from orchestration.demo import sample
from orchestration.demo.sample_sources import DRIVE_FILE, SLACK_FILE, DriveManifest, SlackManifest, read
from orchestration.demo.simulated import simulated
from resources.core.domain import SourceName
from resources.settings import Settings
from resources.sources import configured
from resources.stores.postgres import session
from sql.questions import Questions

ADDED_BY = "sample"


def is_sample(settings: Settings, source: SourceName, root: str) -> bool:
    """Return True if a root is the sample company's and not one of the user's own settings."""
    if source == SourceName.FILES:
        ours = {one.name: one.url for one in sample.roots()}
        own = {one.name: one.url for one in settings.file_roots}
        return root in ours and own.get(root, ours[root]) == ours[root]
    if root == "my_drive":  # the first partition of every installation: ours unless the user has set up a Drive
        return source in simulated(settings) or not configured(settings, source)
    return root in _ids()


@cache
def _ids() -> frozenset[str]:
    drives = msgspec.json.decode(read(DRIVE_FILE), type=DriveManifest).shared_drives
    channels = msgspec.json.decode(read(SLACK_FILE), type=SlackManifest).channels
    return frozenset(one.id for one in (*drives, *channels))


def remove_questions(settings: Settings) -> None:
    """Remove the questions that `up --sample` added to the question set."""
    with session(settings.postgres_dsn) as connection:
        questions = Questions(connection)
        questions.remove(ids=[one.id for one in questions.stored(state=None) if one.added_by == ADDED_BY])
