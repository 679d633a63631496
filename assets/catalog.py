"""Catalog metadata of Dagster's definitions: owner, tags, kinds and freshness policies."""

from __future__ import annotations

import warnings
from datetime import timedelta

import dagster as dg

from resources.syncs.launch import SOURCE_TAG

OWNERS = ("team:concordance",)
STAGE_TAG = "concordance/stage"
SET_UP_TAG = "concordance/set_up"
PURPOSE_TAG = "concordance/purpose"
"""`sync`, `upkeep`, `evaluation` or `alerts`."""
UPKEEP = "upkeep"
"""Runs of this purpose start one after another: `dagster.yaml`."""
DOCUMENTATION = {"owner": OWNERS[0], "documentation": "docs/operations.md"}
"""Metadata of definitions for which Dagster has no owners."""

KINDS = {
    "raw": {"deltalake", "postgres"},
    "parsed": {"deltalake", "python"},
    "chunked": {"deltalake", "python"},
    "embedded": {"deltalake", "ai"},
    "indexed": {"qdrant", "postgres"},
}

# in use since 1.5 and 1.12, and pinned
warnings.filterwarnings("ignore", message=".*`(backfill_policy|owners)`.*", category=dg.BetaWarning)


def purpose(name: str) -> dict[str, str]:
    """Return the tags of a job, schedule or sensor."""
    return {PURPOSE_TAG: name}


def source_tags(source: str, *, set_up: bool) -> dict[str, str]:
    """Return the tags of a source's assets."""
    return {SOURCE_TAG: source, SET_UP_TAG: "yes" if set_up else "no"}


def freshness(minutes: int) -> dg.FreshnessPolicy:
    """Return when an asset that is synced every so many minutes is too old: a day allows for a first sync that takes hours."""
    return dg.FreshnessPolicy.time_window(
        warn_window=timedelta(hours=2) + timedelta(minutes=minutes), fail_window=timedelta(days=1)
    )
