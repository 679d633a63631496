"""The rules by which an installation alerts: a figure, its limit, and how long it must be past the limit.

`deploy/observability/rules.yaml` has the same rules for Prometheus; a test compares names, limits, times and severities.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from resources.core.durations import how_long

Severity = Literal["warning", "critical"]
_COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "==": operator.eq}
FEW_RETRIES = 10
"""With fewer repeated calls than this, the share that fails is not meaningful."""


class Observation(NamedTuple):
    """The figure that a rule judges now. `subject` is a source or a dependency; empty for the whole installation."""

    rule: str
    value: float
    subject: str = ""


@dataclass(frozen=True)
class Rule:
    """A condition. It fires once it has held for `hold_seconds` without a pause."""

    comparison: Literal[">", ">=", "<", "=="]
    limit: float
    hold_seconds: float
    severity: Severity
    text: str
    """A sentence with `{subject}` and `{value}`."""
    form: Literal["number", "percent", "duration"] = "number"
    """How `value` is written."""

    def broken(self, value: float) -> bool:
        """Return True if the figure is past the limit."""
        return _COMPARISONS[self.comparison](value, self.limit)

    def sentence(self, subject: str, value: float) -> str:
        """Return what is wrong."""
        written = {"number": f"{value:.0f}", "percent": f"{value:.1%}", "duration": how_long(value)}[self.form]
        return self.text.format(subject=subject, value=written.replace("%", " %"))


_MINUTE = 60.0

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "SearchSlow": Rule(
            ">", 300, 10 * _MINUTE, "warning", "5 % of the searches of the last ten minutes took longer than {value} ms."
        ),
        "ServerErrors": Rule(
            ">", 0.05, 10 * _MINUTE, "critical", "{value} of the requests of the last ten minutes failed.", "percent"
        ),
        "ModelFails": Rule(
            ">", 0.1, 10 * _MINUTE, "warning",
            "{value} of the answers of the last ten minutes were not written by the language model, which failed.", "percent",
        ),
        "DependencyDown": Rule(
            "==", 0, 2 * _MINUTE, "critical", "A dependency does not answer: {subject}."
        ),
        "SyncsFail": Rule(
            "<", 0.95, 15 * _MINUTE, "warning",
            "{value} of the syncs of {subject} in the last six hours succeeded.", "percent",
        ),
        "SyncsFailInARow": Rule(">=", 3, 0, "critical", "The latest {value} syncs of {subject} failed."),
        "DocumentsFail": Rule(
            ">", 0.05, 15 * _MINUTE, "warning",
            "{value} of the documents that {subject} synced in the last hour failed.", "percent",
        ),
        "ManyDocumentsFail": Rule(
            ">", 0.10, 15 * _MINUTE, "critical",
            "{value} of the documents that {subject} synced in the last hour failed.", "percent",
        ),
        "RetriesFail": Rule(
            ">", 0.10, 15 * _MINUTE, "warning",
            "{value} of the repeated calls to {subject} in the last hour failed for good.", "percent",
        ),
        "SyncOverdue": Rule(
            ">", 3600, 5 * _MINUTE, "warning", "No sync of {subject} has succeeded for {value}.", "duration"
        ),
        "IndexFilling": Rule(
            ">", 0.8, 5 * _MINUTE, "warning",
            "The index holds {value} of the passages that CONCORDANCE_LIMITS__MAX_VECTORS allows.", "percent",
        ),
        "EmbeddingBudget": Rule(
            ">", 0.8, 5 * _MINUTE, "warning", "{value} of this month's embedding budget is used.", "percent"
        ),
        "DiskFilling": Rule("<", 0.2, 10 * _MINUTE, "warning", "{value} of the disk of HOME is free.", "percent"),
        "DiskUnwritable": Rule(
            "==", 0, 0, "critical", "A disk or folder that holds a store accepts no writes."
        ),
    }
)  # fmt: skip
"""Rules by name. They are judged from what all processes of an installation see; `serving.http.alerting` gathers it."""
