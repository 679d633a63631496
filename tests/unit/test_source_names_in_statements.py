"""No statement decides by a source's name what its declaration says: the table `sources` holds that."""

from __future__ import annotations

import re

from resources import sources
from sql import ROOT

OWN = {
    "assistant/asker.sql": "the Slack assistant",
    "assistant/full_members.sql": "the Slack assistant",
    "events/events.sql": "events of Slack",
    "demo/summary.sql": "file roots of the sample company",
    "uploads/uploads.sql": "the table of uploads and pushed documents",
    "serving/why.sql": "threads and messages of Slack",
    "serving/collections.sql": "names of Slack channels",
    "serving/names_of.sql": "names of Slack channels",
    "serving/partition_elsewhere.sql": "names of pushed sources",
    "serving/readable_names.sql": "names of Slack channels",
    "serving/documents.sql": "participants of Slack conversations",
    "serving/full_text.sql": "participants of Slack conversations",
}
"""Statements that are about one source, and what of it."""


def test_only_statements_about_one_source_name_it() -> None:
    name = re.compile(f"'({'|'.join(sources.names())})'")
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in ROOT.rglob("*.sql")}
    found = {path for path, text in texts.items() if name.search(text) and not path.startswith("migrations/")}
    assert found == set(OWN)
