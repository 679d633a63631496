"""Keyword search in four languages: a small set of documents and questions that inflect their words, and the service over HTTP."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from orchestration.evaluation.quality import configuration, evaluate
from resources.settings import Settings
from tests.fixtures.serving import Running, Site

FOLDER = Path(__file__).parents[1] / "fixtures" / "languages"
"""The same six subjects in English, German, French and Spanish, with two questions about each."""
LEAST_KEYWORD, LEAST_HYBRID = 0.97, 0.98
READERS = ["domain:acme.com"]
BOB = "bob@acme.com"


@pytest.fixture
def settings(tmp_path: Path, models_home: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(models_home)
    return Settings(_env_file=None, home=home)


def test_questions_in_four_languages_find_their_documents(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluate(settings, FOLDER, hybrid=configuration(settings), progress=lambda _: None)
    with capsys.disabled():
        figures = f"keyword {report.keyword.ndcg_10:.3f}, dense {report.dense.ndcg_10:.3f}, hybrid {report.hybrid.ndcg_10:.3f}"
        sys.stdout.write(f"\nnDCG@10 of {report.queries} questions in four languages: {figures}\n")
    assert report.keyword.ndcg_10 >= LEAST_KEYWORD
    assert report.hybrid.ndcg_10 >= LEAST_HYBRID


@pytest.mark.slow
def test_the_bundled_model_knows_the_meaning_of_english_best(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Questions that share no words with the documents: what `docs/operations.md` says of other languages."""
    questions = [json.loads(line) for line in (FOLDER / "by_meaning.jsonl").read_text().splitlines()]
    figures: dict[str, float] = {}
    for language in ("en", "de", "fr", "es"):
        folder = tmp_path / language
        folder.mkdir()
        shutil.copy(FOLDER / "corpus.jsonl", folder)
        asked = [one for one in questions if one["language"] == language]
        queries = [json.dumps({"_id": one["document"], "text": one["text"]}) for one in asked]
        (folder / "queries.jsonl").write_text("\n".join(queries))
        (folder / "qrels.tsv").write_text("\n".join(f"{one['document']}\t{one['document']}\t1" for one in asked))
        report = evaluate(settings, folder, hybrid=configuration(settings), progress=lambda _: None)
        figures[language] = report.dense.ndcg_10
    with capsys.disabled():
        sys.stdout.write(f"\nnDCG@10 by meaning alone: {figures}\n")
    assert figures["en"] > 0.9 > 0.7 > max(figures["de"], figures["fr"], figures["es"])


@pytest.fixture
def mixed(site: Site) -> Site:
    site.add("Vertrag", ["Die Kündigungsfristen der Verträge betragen drei Monate."], READERS, language="de")
    site.add("Contrat", ["Les contrats sont résiliés avec un préavis de trois mois."], READERS, language="fr")
    site.add("Contract", ["Contracts are terminated with three months of notice."], READERS, language="en")
    return site


def test_a_query_finds_inflected_words_of_every_language_of_the_corpus(mixed: Site, running: Running) -> None:
    assert running.titles("Verträgen", BOB, mode="keyword") == ["Vertrag"]
    assert running.titles("résilier", BOB, mode="keyword") == ["Contrat"]
    assert running.titles("terminating", BOB, mode="keyword") == ["Contract"]
    assert running.titles("Welche Fristen stehen in den Verträgen?", BOB)[0] == "Vertrag"


@pytest.fixture
def foreign(site: Site) -> Site:
    site.add("Vergütung", ["Über jede Gehaltserhöhung entscheidet die Abteilung im März."], READERS, language="de")
    site.add("Personel", ["Yıllık maaşı şirket her ay öder."], READERS, language="tr")
    site.add("الموظفون", ["يقدم الموظف طلب إجازة إلى مديره قبل أسبوعين."], READERS, language="ar")
    site.add("Персонал", ["Вопрос о зарплате решает руководитель отдела в марте."], READERS, language="ru")
    return site


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Gehaltserhöhungen", "Vergütung"),
        ("maaşlar", "Personel"),
        ("الإجازات", "الموظفون"),
        ("зарплатами", "Персонал"),
    ],
)
def test_a_word_that_the_stemmer_of_the_passages_language_finds_counts(
    foreign: Site, running: Running, query: str, title: str
) -> None:
    first, *others = running.search(query, BOB, explain=True)["results"]
    assert (first["title"], first["explain"]["keyword_score"]) == (title, 1.0)
    assert {one["explain"]["keyword_score"] for one in others} <= {0.0}
