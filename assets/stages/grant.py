"""Compute who may find a document: the permissions of its source, narrowed by the platform's rules and never widened."""

from resources.core.domain import Item
from resources.core.permissions import granted


def effective_permissions(item: Item) -> tuple[str, ...]:
    """Return the principals that may find the document, sorted and without duplicates; an empty result means no one."""
    return tuple(sorted(set(granted(item.permissions, item.owner, item.tags))))
