"""Figures of an installation's limits: its disk, and the budget of embedding."""

import shutil

from resources.settings import Settings


def capacity(settings: Settings) -> dict[str, float]:
    """Return sizes in bytes and the budget in US dollars, by the names of `serving.http.metrics.GAUGES`. Blocking."""
    disk = shutil.disk_usage(settings.home)
    found = {"home_disk_bytes": float(disk.total), "home_disk_free_bytes": float(disk.free)}
    budget = settings.embedding_budget
    return found if budget is None else found | {"embedding_budget_usd": budget}
