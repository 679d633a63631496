"""A part of the month's embedding budget, reserved before texts are embedded and settled afterwards.

Syncs that run at the same time, on any machine, cannot pass the budget together. What a sync that was killed had reserved is free again
after `RESERVED_SECONDS`.
"""

from __future__ import annotations

from uuid import uuid4

from resources.stores.postgres import Connection
from sql.rates import Reservations

RESERVED_SECONDS = 30 * 60
"""How long a reservation lasts without a sign of life: longer than the retries of one request."""


class Reservation:
    """What one batch of texts may cost, in US dollars."""

    def __init__(self, connection: Connection, month: str) -> None:
        self._connection = connection
        self._statements = Reservations(connection)
        self._month = month
        self._id = str(uuid4())
        self._made = False

    def reserve(self, cost: float, budget: float) -> float:
        """Reserve the cost if the budget allows it, and return what is spent and reserved without it."""
        with self._connection.transaction():
            self._statements.lock_budget()
            used = self._statements.reserve(
                reservation_id=self._id, month=self._month, cost_usd=cost, budget=budget, seconds=RESERVED_SECONDS
            )
        self._made = True
        return used or 0.0

    def extend(self) -> None:
        """Keep the reservation: the batch goes on."""
        if self._made:
            self._statements.extend(reservation_id=self._id, seconds=RESERVED_SECONDS)

    def settle(self, *, model: str, texts: int, tokens: int, cost_usd: float) -> None:
        """Book what was used, and give the rest back."""
        if texts:
            self._statements.settle(
                reservation_id=self._id, month=self._month, model=model, texts=texts, tokens=tokens, cost_usd=cost_usd
            )
        elif self._made:
            self._statements.release(reservation_id=self._id)
