"""Who may find a document: the permissions that its source reports, narrowed by the rules of the platform. Never widened."""

from __future__ import annotations

from resources.domain import Item

DRAFT = "draft"


def effective_permissions(item: Item) -> tuple[str, ...]:
    """Return the principals that may find the document, sorted and without doubles; none means nobody.

    A draft (`tags.lifecycle = draft`) is for its owner alone, and for nobody when no owner is known.
    """
    if str(item.tags.get("lifecycle", "")).lower() == DRAFT:
        return (item.owner.lower(),) if item.owner else ()
    return tuple(sorted({principal.strip() for principal in item.permissions if principal.strip()}))
