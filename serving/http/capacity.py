"""Figures of an installation's limits: its disk, its index, and the budget of embedding."""

import shutil
from contextlib import suppress

from resources.settings import Settings


def capacity(settings: Settings) -> dict[str, float]:
    """Return sizes in bytes, the limit of passages and the budget in US dollars, by the names of `serving.http.metrics.GAUGES`. Blocking.

    A disk that cannot be read has no sizes: `resources.stores.disk` says why.
    """
    found: dict[str, float] = {}
    if settings.embedding_budget is not None:
        found["embedding_budget_usd"] = settings.embedding_budget
    if settings.max_vectors is not None:
        found["index_limit_vectors"] = settings.max_vectors
    with suppress(OSError):
        disk = shutil.disk_usage(settings.home)
        found |= {"home_disk_bytes": disk.total, "home_disk_free_bytes": disk.free}
    return found
