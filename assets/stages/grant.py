"""Who may find a document: the permissions that its source reports, narrowed by the rules of the platform. Never widened."""

from __future__ import annotations

from resources.domain import Item
from resources.permissions import granted


def effective_permissions(item: Item) -> tuple[str, ...]:
    """Return the principals that may find the document, sorted and without doubles; none means nobody."""
    return tuple(sorted(set(granted(item.permissions, item.owner, item.tags))))
