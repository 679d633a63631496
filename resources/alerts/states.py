"""The state of alerts in Postgres: who fires, since when, and who was told.

Several processes judge the same rules. A condition is true while any of them has seen it within `CLEAR_SECONDS`; each change of state is
made by one statement in one process, which writes its notice in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog

from resources.alerts.rules import RULES, Observation
from resources.core.durations import how_long
from resources.sources import label
from sql.alerts import Alerts, AlertState

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

INTERVAL_SECONDS = 30.0
"""How often each process judges."""
CLEAR_SECONDS = 90.0
"""An alert ends when no process has seen its condition for this long: three looks."""
KEPT_DAYS = 7
MOST_NOTICES = 1000
"""Notices that wait for the webhook; beyond this the oldest are dropped."""

log = structlog.get_logger("alerts")


class Observed(msgspec.Struct, frozen=True):
    """A condition that is true now, as a row."""

    rule: str
    subject: str
    severity: str
    value: float
    hold_seconds: float


def observe(connection: Connection, observations: Sequence[Observation]) -> None:
    """Store which conditions are true, for a process that judges. In one transaction."""
    true = [
        Observed(one.rule, one.subject, rule.severity, one.value, rule.hold_seconds)
        for one in observations
        if (rule := RULES[one.rule]).broken(one.value)
    ]
    with connection.transaction():
        alerts = Alerts(connection)
        alerts.lock_alerts()
        alerts.observe(observed=true, clear_seconds=CLEAR_SECONDS)


def judge(
    connection: Connection, observations: Sequence[Observation], *, repeat_seconds: float, notify: bool
) -> list[AlertState]:
    """Store which conditions are true and return the alerts that changed, or that are due to be repeated. In one transaction.

    Each is logged by the process that gets it. With `notify`, a notice for the webhook is stored.
    """
    alerts = Alerts(connection)
    with connection.transaction():
        observe(connection, observations)
        changed = [
            *alerts.fire(clear_seconds=CLEAR_SECONDS, repeat_seconds=repeat_seconds),
            *alerts.resolve(clear_seconds=CLEAR_SECONDS),
        ]
        alerts.forget_alerts(clear_seconds=CLEAR_SECONDS, days=KEPT_DAYS)
        if notify:
            for one in changed:
                alerts.add_notice(text=notice(one), most=MOST_NOTICES)
    for one in changed:
        log.log(
            _level(one),
            "alert",
            rule=one.rule,
            subject=one.subject,
            state=_state(one),
            value=one.value,
            text=sentence(one),
        )
    return changed


def sentence(one: AlertState) -> str:
    """Return what is wrong, in a sentence. Holds no more than figures and the names of sources and dependencies."""
    rule = RULES.get(one.rule)
    if rule is None:  # of another version, while an installation is upgraded
        return f"{one.rule} {one.subject}".strip()
    return rule.sentence(label(one.subject) if one.subject else "", one.value)


def notice(one: AlertState) -> str:
    """Return the text for the webhook."""
    if one.resolved_at is not None:
        return f"[resolved] {one.rule}: {sentence(one)} It lasted {how_long((one.resolved_at - one.since).total_seconds())}."
    return f"[{one.severity}] {one.rule}: {sentence(one)} Since {one.since:%Y-%m-%d %H:%M} UTC."


def _state(one: AlertState) -> str:
    return "firing" if one.resolved_at is None else "resolved"


def _level(one: AlertState) -> int:
    """Return a level of the standard library's logging: error for critical alerts, warning for others, info for what has ended."""
    if one.resolved_at is not None:
        return 20
    return 40 if one.severity == "critical" else 30
