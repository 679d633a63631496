"""A question that follows others: what it leans on, and what is searched for it."""

import pytest

from serving.answers.follow_up import follow_up, leaning
from serving.answers.schemas import Message

CARRIED = "How many unused holidays may I carry over to the next year?"
OFFER = "What do we offer for StreamSight?"
ALLOWANCE = "What is the allowance for a week as primary on call?"
TRAVEL = "Who approves travel over 500 EUR?"
WARRANTY = "How long is the warranty on a gateway?"


def after(before: str, question: str, answer: str = "“Ask Pia Solberg about it.” [1]") -> tuple[str, str]:
    searched, leans = follow_up(question, [Message("user", before), Message("assistant", answer)])
    return leans, searched


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "And what is the capital of France?",
        "Who wrote The Brothers Karamazov?",
        "How long does the battery of a Dipper last?",
        "What is the dress code?",
        "Is it allowed to bring my dog to the office?",
        "Can employees bring their dogs?",
        "Who is Pia Solberg?",
        "thanks! And how do I get to Oslo?",
        "What did we decide this week?",
        "Wie viele Urlaubstage habe ich?",
        "Und wer genehmigt Reisen nach Oslo?",
        "Und gibt es Parkplätze in Hamburg?",
        "Et où est le bureau de Lyon ?",
    ],
)
def test_a_question_with_a_subject_is_searched_by_itself(question: str) -> None:
    assert after(CARRIED, question) == ("no", question)


@pytest.mark.parametrize(
    ("before", "question", "searched"),
    [
        (OFFER, "Who approved it?", "Who approved it? offer for StreamSight"),
        (OFFER, "And how much is it?", "how much is it? offer for StreamSight"),
        (OFFER, "And the loan?", "What do we offer for StreamSight: the loan?"),
        (OFFER, "Why?", "Why? offer for StreamSight"),
        ("What did revenue do in 2025?", "and in 2023?", "What did revenue do in 2023?"),
        ("What did we sell in Norway in 2025?", "and in 2023?", "What did we sell in Norway in 2023?"),
        ("What did we sell in Norway in 2025?", "And in Finland?", "What did we sell in Finland in 2025?"),
        ("Is the office open on Mondays?", "And on Sundays?", "Is the office open on Sundays?"),
        (WARRANTY, "And on batteries?", "How long is the warranty on batteries?"),
        (WARRANTY, "What about lightning?", "How long is the warranty on a gateway: lightning?"),
        ("Who may give 10 per cent off?", "And 15 per cent?", "Who may give 15 per cent off?"),
        (TRAVEL, "And under 500 EUR?", "Who approves travel under 500 EUR?"),
        (TRAVEL, "And over 1000 EUR?", "Who approves travel over 1000 EUR?"),
        (TRAVEL, "And between 500 and 900 EUR?", f"{TRAVEL[:-1]}: between 500 and 900 EUR?"),
        ("What applies before 10 days?", "And after 10 days?", "What applies after 10 days?"),
        ("Is less than 3 hours paid?", "And more than 3 hours?", "Is more than 3 hours paid?"),
        ("What is due before May?", "And after May?", "What is due after May?"),
        ("What was sold before 2024?", "And after 2024?", "What was sold after 2024?"),
        ("What were sales in March?", "And in May?", "What were sales in May?"),
        ("What is due before 1 May?", "And after 1 May?", "What is due after 1 May?"),
        ("What is due before 1 May?", "And before June 15?", "What is due before June 15?"),
        ("What was sold on 5 May 2024?", "And on 6 May?", "What was sold on 6 May 2024?"),
        ("What was due on May 5, 2024 in Berlin?", "And May 6?", "What was due on May 6, 2024 in Berlin?"),
        ("What was sold on 5 May 2024?", "And on 6 May 2023?", "What was sold on 6 May 2023?"),
        ("Was kostet das Büro in Berlin?", "Und in Hamburg?", "Was kostet das Büro in Hamburg?"),
        ("Combien coûte le bureau à Paris ?", "Et à Lyon ?", "Combien coûte le bureau à Paris: à Lyon?"),
        ("Wie lange gilt die Garantie?", "Aber auf Batterien?", "Wie lange gilt die Garantie: auf Batterien?"),
        ("What is the phone number of Ann?", "And Bob?", "What is the phone number of Bob?"),
        (
            "Who is responsible for keys?",
            "What is her phone number?",
            "What is her phone number? Pia Solberg responsible for keys",
        ),
        (OFFER, "Since when?", "Since when? offer for StreamSight"),
        (
            "Who has exclusive rights for Norway north of Trondheim?",
            "And in the Netherlands?",
            "Who has exclusive rights in the Netherlands?",
        ),
        (
            CARRIED,
            "Does Priya approve that?",
            "Does Priya approve that? unused holidays may I carry over to the next year",
        ),
    ],
)
def test_a_question_without_one_borrows_it(before: str, question: str, searched: str) -> None:
    assert after(before, question) == ("surely", searched)


@pytest.mark.parametrize(
    "question", ["Where is the canteen?", "What is the deadline?", "parking", "And who pays travel?"]
)
def test_a_short_question_may_mean_either(question: str) -> None:
    assert leaning(question) == "perhaps"


@pytest.mark.parametrize(
    ("before", "question", "searched"),
    [
        ("What is the price of A-1234?", "A-1235?", "What is the price of A-1235?"),
        ("What does order 4711 cost?", "4712?", "What does order 4712 cost?"),
        ("What did we sell in Norway in 2025?", "2023", "What did we sell in Norway in 2023?"),
        ("What did Norway buy?", "4711", "What did Norway buy: 4711?"),
    ],
)
def test_an_identifier_alone_may_stand_for_the_one_before(before: str, question: str, searched: str) -> None:
    assert after(before, question) == ("perhaps", searched)


@pytest.mark.parametrize("thanks", ["thanks", "Ok, thank you very much!", "Great", "Vielen Dank!", "merci beaucoup"])
def test_thanks_ask_nothing_and_end_no_subject(thanks: str) -> None:
    assert after(CARRIED, thanks) == ("no", thanks)
    earlier = [Message("user", "What did we sell in 2025?"), Message("assistant", "Nine [1]."), Message("user", thanks)]
    assert follow_up("and in 2023?", earlier).searched == "What did we sell in 2023?"
    asked = [Message("user", "Who approved the offer?"), Message("assistant", "“Ask Pia Solberg.” [1]")]
    thanked = [*asked, Message("user", thanks), Message("assistant", "You are welcome. Ask Ann Miller for more.")]
    assert follow_up("When did she do that?", thanked) == follow_up("When did she do that?", asked)
    assert "Pia Solberg" in follow_up("When did she do that?", thanked).searched


def test_the_subject_is_handed_on_through_the_conversation() -> None:
    asked = ["How many gauges did Nordvann order in 2024?", "And in 2025?"]
    earlier = [message for one in asked for message in (Message("user", one), Message("assistant", "Nine [1]."))]
    assert follow_up("And in 2026?", earlier).searched == "How many gauges did Nordvann order in 2026?"


def test_a_new_subject_ends_the_old_one() -> None:
    earlier = [Message("user", CARRIED), Message("assistant", "Six [1]."), Message("user", OFFER)]
    assert follow_up("Who approved it?", earlier).searched == "Who approved it? offer for StreamSight"


def test_without_an_earlier_question_nothing_is_borrowed() -> None:
    assert follow_up("Who approved it?", [Message("assistant", "Hello")]) == ("Who approved it?", "no")


def test_an_earlier_message_may_be_long_or_empty() -> None:
    assert len(follow_up("Who approved it?", [Message("user", "What is it? " + "filler " * 2000)]).searched) <= 1000
    assert follow_up("Who approved it?", [Message("user", " \n")]) == ("Who approved it?", "no")
