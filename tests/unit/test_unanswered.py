"""What is said when nothing is found, and the languages of questions."""

import pytest

from serving.answers.spoken import foreign_language


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wie viele Urlaubstage habe ich?", "German"),
        ("Was sind die Kosten für das Gateway?", "German"),
        ("Wann verfällt der Urlaub?", "German"),
        ("Wer genehmigt einen Flug?", "German"),
        ("Combien de jours de congé ai-je ?", "French"),
        ("Où se trouve la cantine ?", "French"),
        ("Quand faut-il aérer ?", "French"),
        ("Comment demander un congé ?", "French"),
        ("Comment contacter le support ?", "French"),
        ("Pourquoi signaler un badge perdu ?", "French"),
        ("¿Quién firma la solicitud?", "Spanish"),
        ("Hoeveel kost een vlucht?", "Dutch"),
        ("¿Cuántos días de vacaciones tengo?", "Spanish"),
        ("Hoeveel vakantiedagen heb ik?", "Dutch"),
        ("Hvor er kantinen?", "Danish or Norwegian"),
        ("Montako lomapäivää minulla on?", "Finnish"),
        ("Сколько у меня дней отпуска?", "Russian"),
        ("Скільки днів відпустки?", "a language in Cyrillic letters"),
        ("休暇は何日ありますか", "Japanese"),
        ("年假有几天", "Chinese"),
        ("휴가는 며칠입니까", "Korean"),
        ("كم عدد أيام الإجازة؟", "Arabic"),
    ],
)
def test_a_language_shows_by_its_letters_or_stop_words(question: str, language: str) -> None:
    assert foreign_language(question) == language


@pytest.mark.parametrize(
    "question",
    [
        "How many unused holidays may I carry over to the next year?",
        "What does Die Zeit cost?",
        "Who is Aino Lehtola?",
        "Am I in so far?",
        "Do we sell to les Amis de la Rivière?",
        "May I comment on a page?",
        "comment on a page",
        "Comment on PDF?",
        "Who may comment as me?",
        "kantine",
        "PKZ-0821",
        "",
        "12,500 ?",
    ],
)
def test_english_names_and_single_words_are_not_taken_for_another_language(question: str) -> None:
    assert foreign_language(question) is None
