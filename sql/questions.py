"""Statements about the company's question set and its evaluations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from sql.family import Family, Json


class Question(msgspec.Struct, frozen=True):
    """A question; `documents` is decoded JSON."""

    id: int
    question: str
    email: str
    groups: list[str]
    never: bool
    state: Literal["proposed", "accepted"]
    origin: Literal["command", "feedback"]
    added_by: str
    added_at: datetime
    documents: Any


class Run(msgspec.Struct, frozen=True):
    """The figures of an evaluation."""

    at: datetime
    model: str
    questions: int
    recall_5: float | None
    recall_10: float | None
    ndcg_10: float | None
    mrr: float | None
    never: int
    leaks: int


class SavedRun(msgspec.Struct, frozen=True):
    """An evaluation that was stored."""

    evaluation_id: int
    at: datetime


class Questions(Family, path="questions/questions.sql"):
    """The question set and its evaluations."""

    def put(
        self, *, question: str, doc_ids: list[str], email: str, groups: list[str], never: bool, added_by: str
    ) -> int: ...
    def propose(self, *, feedback_id: str, doc_id: str, added_by: str) -> int | None: ...
    def accept(self, *, ids: list[int]) -> list[int]: ...
    def remove(self, *, ids: list[int]) -> list[int]: ...
    def counted(self) -> int: ...
    def stored(self, *, state: str | None) -> list[Question]: ...
    def unreadable(self, *, doc_ids: list[str], principals: list[str]) -> list[str]: ...
    def names(self, *, doc_ids: list[str]) -> list[str]: ...
    def last_run(self) -> Run | None: ...
    def save_run(
        self,
        *,
        collection: str,
        model: str,
        questions: int,
        recall_5: float | None,
        recall_10: float | None,
        ndcg_10: float | None,
        mrr: float | None,
        never: int,
        leaks: int,
    ) -> SavedRun: ...
    def save_results(self, *, evaluation_id: int, rows: Json) -> int: ...
