"""Effects of Drive's labels on a file, by the setting `drive_labels`. Pure.

The labels of a file are part of its metadata, so no further call or scope is needed. A file whose labels the account may not read
is treated as if it had all of them.
Source: https://developers.google.com/workspace/drive/api/guides/about-labels
"""

from collections.abc import Mapping
from typing import Any, Literal

from resources.core.json import object_of
from resources.core.permissions import ANSWER_SHARING, LANGUAGE_MODEL, LOCAL, NOBODY

LabelRule = Literal["exclude", "no_model", "no_share"]
FIELDS = "labelInfo(labels(id))"
_TAGS = {"no_model": (LANGUAGE_MODEL, LOCAL), "no_share": (ANSWER_SHARING, NOBODY)}


def parameter(rules: Mapping[str, LabelRule]) -> str | None:
    """Return the value of `includeLabels`; None if no labels are configured, which leaves the parameter out."""
    return ",".join(sorted(rules)) or None


def refusal(file: Mapping[str, Any], rules: Mapping[str, LabelRule]) -> str | None:
    """Return why a file must not be indexed; None if it may be."""
    excluded = sorted(label for label, rule in rules.items() if rule == "exclude")
    if not excluded:
        return None
    carried = _carried(file)
    if carried is None:
        return (
            "Drive does not show its labels to the account that reads Drive, so it is treated as if it had those that "
            "are excluded (CONCORDANCE_DRIVE__LABELS): give the account permission to read them."
        )
    found = next((label for label in excluded if label in carried), None)
    return (
        None
        if found is None
        else f"It has the label {found}, which is excluded from the index (CONCORDANCE_DRIVE__LABELS)."
    )


def tags(file: Mapping[str, Any], rules: Mapping[str, LabelRule]) -> dict[str, str]:
    """Return the tags that a file's labels give its document, and all of them if the labels cannot be read."""
    carried = _carried(file)
    effective = {rule for label, rule in rules.items() if carried is None or label in carried}
    return {tag: value for rule, (tag, value) in _TAGS.items() if rule in effective}


def _carried(file: Mapping[str, Any]) -> set[str] | None:
    """Return the labels of a file among those asked for; None if the account may not read them."""
    if object_of(file.get("capabilities")).get("canReadLabels") is not True:
        return None
    return {str(label.get("id")) for label in object_of(file.get("labelInfo")).get("labels") or ()}
