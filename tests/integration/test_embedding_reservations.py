"""Batches that are embedded at the same time do not pass the month's budget together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from resources.rates.reservation import Reservation
from resources.stores.postgres import session
from sql.sync import Collections

MONTH, BUDGET, COST = "2026-11", 1.0, 0.1
FIGURES = {"model": "m", "texts": 1, "tokens": 100, "cost_usd": COST}


def spent(database: str) -> float:
    with session(database) as connection:
        return Collections(connection).usage(month=MONTH)


def test_parallel_batches_never_pass_the_budget(database: str) -> None:
    workers = 4
    start = threading.Barrier(workers)

    def embed(_: int) -> int:
        done = 0
        with session(database, autocommit=True) as connection:
            start.wait(30)
            while True:
                reservation = Reservation(connection, MONTH)
                if reservation.reserve(COST, BUDGET) + COST > BUDGET + 1e-6:
                    if spent(database) >= BUDGET - 1e-6:
                        return done
                    continue  # others have reserved the rest
                reservation.extend()
                reservation.settle(**FIGURES)
                done += 1

    with ThreadPoolExecutor(workers) as pool:
        assert sum(pool.map(embed, range(workers))) == 10
    assert abs(spent(database) - BUDGET) < 1e-6
    with session(database) as connection:
        assert connection.execute("SELECT count(*) AS n FROM embedding_reservations").fetchall() == [{"n": 0}]


def test_what_a_killed_batch_had_reserved_is_free_after_a_while(database: str) -> None:
    with session(database, autocommit=True) as killed:
        assert Reservation(killed, MONTH).reserve(0.9, BUDGET) == 0
    with session(database, autocommit=True) as connection:
        assert Reservation(connection, MONTH).reserve(0.2, BUDGET) == 0.9
        connection.execute("UPDATE embedding_reservations SET until = now() - interval '1 second'")
        assert Reservation(connection, MONTH).reserve(0.2, BUDGET) == 0
        assert connection.execute("SELECT cost_usd FROM embedding_reservations").fetchall() == [{"cost_usd": 0.2}]


def test_a_batch_that_failed_gives_its_reservation_back(database: str) -> None:
    with session(database, autocommit=True) as connection:
        failed = Reservation(connection, MONTH)
        failed.reserve(0.9, BUDGET)
        failed.settle(model="m", texts=0, tokens=0, cost_usd=0.0)
        partly = Reservation(connection, MONTH)
        assert partly.reserve(0.9, BUDGET) == 0
        partly.settle(**FIGURES)
        assert Reservation(connection, MONTH).reserve(0.9, BUDGET) == COST
