"""Sentences that answers quote: what the question expects, with the neighbours that it needs, and never a heading or a question."""

from types import SimpleNamespace

import pytest

from serving.answers.answer_type import AnswerType, expected, holds_type
from serving.answers.certainty import REFUSED, certainty
from serving.answers.extractive import Quote, choose, compose, marks, measured, shortlist, without_strays
from serving.answers.parts import parts_of
from serving.answers.words import content, holds
from serving.search.citations.heading import ITEM, known_of
from serving.search.retrieval.highlight import pieces


def quoted(question: str, text: str, heading: str = "Handbook") -> list[str]:
    passages = [(heading, text)]
    return [piece.text for piece in choose(shortlist(question, passages), passages, [[]])]


@pytest.mark.parametrize(
    ("question", "kind", "holds", "lacks"),
    [
        ("How long may I be away?", "duration", "At most four hours.", "Ask your lead."),
        ("How much is the deposit?", "amount", "It costs $5.", "Ask the clerk."),
        ("When are badges made?", "time", "Every Wednesday.", "In the workshop by hand."),
        ("Who signs the letter?", "person", "It is signed by the governor.", "It is blue."),
        ("Where are the pens?", "place", "They are in room 3523.", "They are blue."),
        (
            "What is the phone number of the clerk?",
            "phone",
            "Call 0800 555 0142.",
            "Keys on 11 May 2026, 46 desks for 52 of us.",
        ),
        ("Which number do I call?", "phone", "Dial 112.", "It was made on 2026-03-11, for 2025-2026."),
        ("Which email address do bills go to?", "email", "Bills: ap@mill.example", "Send bills by email."),
        ("How do I change my phone number?", "other", "", ""),
        ("May I squash commits?", "yes_no", "This is not allowed.", "Commits have authors."),
        ("Wie lange dauert die Probezeit?", "duration", "Sie endet nach sechs Monaten.", "Sie steht im Vertrag."),
        ("Wie viele Urlaubstage habe ich?", "amount", "Es gibt keine.", "Der Urlaub ist zu beantragen."),
        ("Wie hoch ist die Kaution?", "amount", "Sie beträgt 5 EUR.", "Fragen Sie am Schalter."),
        ("Ab wie viel Uhr ist geöffnet?", "time", "Ab 8 Uhr.", "An der Rezeption."),
        ("Bis wann muss ich das melden?", "time", "Spätestens am 3. Mai.", "Schriftlich."),
        ("Was passiert, wenn ich krank bin?", "other", "", ""),
        ("Darf ich im Urlaub arbeiten?", "yes_no", "Das ist nicht erlaubt.", "Urlaub gibt es."),
        ("Welche Telefonnummer hat der Hausmeister?", "phone", "Tel. 030 1234567", "Er ist im Keller."),
        ("Wer leitet das Lager?", "person", "Das Lager leitet Frau Rahn.", "es ist blau"),
        ("Wo stehen die Drucker?", "place", "Im Flur von Berlin: in Berlin.", "Sie sind neu."),
        ("Wo stehen die Drucker?", "place", "Sie stehen hinter der Theke.", "Sie sind neu."),
        ("Wo bekomme ich Werkzeug?", "place", "Die Ausgabe ist am Schalter.", "Es wird geprüft."),
        ("Wann ist die Inventur?", "time", "Sie beginnt im Januar.", "Sie betrifft alle Lager."),
        ("Combien de temps dure le stage ?", "duration", "Il dure six mois.", "Il est utile."),
        ("Combien de jours puis-je prendre ?", "amount", "Au plus 25 jours.", "Selon le contrat."),
        ("À quelle heure commence le forum ?", "time", "À 10h, dans la salle.", "Dans la salle."),
        ("Où est l'imprimante ?", "place", "Elle est dans le couloir.", "Elle est neuve."),
        ("Où a lieu la formation ?", "place", "Elle se tient à Lyon.", "Elle est à payer."),
        ("Quand a lieu l'inventaire ?", "time", "Il commence en janvier.", "Il concerne les dépôts."),
        ("Qui valide les congés ?", "person", "C'est Anne Roy.", "ils sont validés"),
        ("La présence est-elle obligatoire ?", "yes_no", "Elle est facultative, sauf le lundi.", "Elle compte."),
        ("Quel salon faut-il rejoindre ?", "other", "", ""),
        ("Quelle est la durée du préavis ?", "duration", "Il dure trois mois.", "Il est écrit."),
        ("Quelle est la date limite ?", "time", "Le 3 mai.", "Elle est fixée."),
        ("Quel est le pourcentage remboursé ?", "amount", "La moitié.", "Selon le contrat."),
        ("Quelle est la politique de congés ?", "other", "", ""),
        ("Welche Kündigungsfrist gilt?", "duration", "Drei Monate.", "Sie steht im Vertrag."),
        ("Was ist der Termin der Abgabe?", "time", "Der 3. Mai.", "Er steht im Plan."),
        ("Wie ist die Höhe der Kaution?", "amount", "Sie beträgt 5 EUR.", "Fragen Sie am Schalter."),
    ],
)
def test_a_question_expects_an_answer_of_its_kind(question: str, kind: AnswerType, holds: str, lacks: str) -> None:
    assert expected(question) == kind
    assert kind == "other" or holds_type(holds, kind) > holds_type(lacks, kind)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Wie lange gilt die Schutzfrist nach der Geburt?", {"schutzfrist", "geburt"}),
        ("Wann endet die Probezeit?", {"endet", "probezeit"}),
        ("Qu'est-ce que l'espace membre ?", {"espac", "membr"}),
        ("Où se trouve la cantine ?", {"cantin"}),
        ("When did the man die of AI in LA?", {"man", "die", "ai", "la"}),
        ("Is MIT on par with a WO of EST?", {"mit", "par", "wo", "est"}),
        ("What's the company's policy?", content("company policy")),
        ("Why can't I log in if I'm ill, and who’ll say why it doesn’t work?", content("log ill say work")),
        ("Where is O'Brien's desk?", {"o", "brien", "desk"}),
    ],
)
def test_words_of_german_and_french_questions_carry_content_as_english_ones_do(question: str, words: set[str]) -> None:
    assert content(question) == words


def test_an_amount_is_preferred_to_the_sentence_that_resembles_the_question() -> None:
    filler = "The garden is watered by a volunteer who comes with a can and a hose in the early hours of the day. " * 3
    text = f"The deposit for a transit card is described by the clerk of the office.\n\n{filler}\n\nA card requires a $5 deposit."
    assert "$5" in quoted("How much is the deposit for a card?", text)[0]


def test_a_quote_of_a_numbered_list_does_not_end_with_the_next_number() -> None:
    text = "1. Ask the clerk for a form.\n2. Fill it in. Sign it in ink.\n3. Hand it in before noon."
    assert [text[piece.start : piece.end].strip() for piece in pieces(text)] == [
        "1. Ask the clerk for a form.",
        "2. Fill it in.",
        "Sign it in ink.",
        "3. Hand it in before noon.",
    ]
    assert quoted("Who signs the form in ink?", text)[0].endswith("Hand it in before noon.")


@pytest.mark.parametrize(("near", "first"), [(0.55, "The default is 90 days."), (0.3, "Inactive ones are archived.")])
def test_of_two_that_answer_alike_the_one_that_holds_what_is_asked_for_comes_first(near: float, first: str) -> None:
    text = f"Inactive ones are archived. {'They stay readable for everybody. ' * 12}The default is 90 days."
    alike, typed = (
        Quote(1, "", one, text.index(one), text.index(one) + len(one), {"untyped": 0.0, "type": 0.0} | features)
        for one, features in (
            ("Inactive ones are archived.", {"near": 1.0, "untyped": 1.0}),
            ("The default is 90 days.", {"near": near, "type": 1.0}),
        )
    )
    assert first in choose([alike, typed], [("", text)], [[]])[0].text


def test_a_short_item_below_its_heading_is_quoted() -> None:
    text = "Discounts\n\n- Headspace: $70/year\n- Calm: free\n"
    assert "Headspace: $70/year" in quoted("How much does Headspace cost?", text)[0]


def test_a_line_in_lower_case_above_a_list_is_its_heading() -> None:
    text = (
        "postpack\n\n- Runs after the tarball has been made\n- Runs in global mode\n\n"
        "dependencies\n\n- Runs after any change of the modules\n- Does not run in global mode\n"
    )
    assert quoted("Does the dependencies script run in global mode?", text)[0].endswith("Does not run in global mode")
    assert quoted("Does the postpack script run in global mode?", text)[0].endswith("Runs in global mode")
    assert not any("dependencies" in one for one in quoted("Does the postpack script run in global mode?", text))


def test_neither_headings_nor_questions_nor_headers_are_quoted() -> None:
    text = (
        "Disability insurance\n\nDo you have disability insurance?\n\nWe do not offer it to anybody.\n\n"
        "| Insurance | Offered |\n| Disability insurance | no |\n"
    )
    found = quoted("Do you have disability insurance?", text)
    assert found
    assert not any("?" in one or one.startswith(("Disability insurance", "| Insurance")) for one in found)


@pytest.mark.parametrize(
    ("heading", "sentence", "question"),
    [
        ("Firmware 4.6 of the gauge", "It waits for five minutes.", "How long does the gauge wait?"),
        (
            "What the gauge does when the gateway has been away for hours",
            "It waits for five minutes.",
            "How long does it wait?",
        ),
        ("مقياس الماء", "ينتظر خمس دقائق.", "كم ينتظر المقياس"),
    ],
)
def test_the_heading_of_a_passage_is_no_part_of_its_first_sentence(heading: str, sentence: str, question: str) -> None:
    (quote,) = quoted(question, f"{heading}\n\n{sentence}", f"Manual {heading}")
    assert quote == sentence


@pytest.mark.parametrize("heading", ["§ 9 Illness on leave", "2.1 Illness", "Article 12a Illness on leave"])
def test_the_numbered_heading_of_the_next_section_is_no_part_of_a_quote(heading: str) -> None:
    text = f"Nobody works on leave.\n\n{heading}\n\nDays of illness do not count."
    assert quoted("Who works on leave?", text)[0] == "Nobody works on leave."


def test_a_quantity_in_a_line_of_its_own_is_quoted() -> None:
    for quantity in ("2.1 litres a day", "2.1 GB a day"):
        assert quantity in quoted("How much goes in a day?", f"Amounts\n\n{quantity}\n\nNothing else.")[0]


@pytest.mark.parametrize(
    ("line", "footer"),
    [
        ("The answer is given on page 12", False),
        ("Die Preise stehen auf Seite 3", False),
        ("Page 3 of 12", True),
        ("Anvil Works | Seite 3", True),
        ("Annual report 2025 – page 3/12", True),
        ("Anvil Works · Annual report 2025 Page 3", True),
    ],
)
def test_a_sentence_that_ends_with_a_page_number_is_no_footer(line: str, footer: bool) -> None:
    assert [one.quotable for one in parts_of(f"It is so.\n\n{line}")] == [True, not footer]


def test_a_date_at_the_front_of_a_line_is_no_item() -> None:
    assert [bool(ITEM.match(line)) for line in ("24. Dezember ist zu.", "3. bis 5. Mai", "24. Tische", "- 24")] == [
        0,
        0,
        1,
        1,
    ]


def test_the_footer_of_a_page_is_not_quoted() -> None:
    text = "Revenue was 9 million euros.\n\nAnvil Works · Annual report 2025 · Page 1 of 12"
    assert quoted("How much was the revenue of Anvil Works in 2025?", text) == ["Revenue was 9 million euros."]
    assert (
        "See page 3." in quoted("Where are the prices of anvils?", "The prices of anvils are listed.\n\nSee page 3.")[0]
    )


@pytest.mark.parametrize(
    ("term", "text", "held"),
    [
        ("station12", "Station12 | 36", True),
        ("station12", "Station 12 is closed.", True),
        ("station12", "Station | Level, Station1 | 3, Station120 | 7", False),
        ("station1", "Station12 | 36", False),
        ("calibration", "It is calibrated.", True),
    ],
)
def test_an_identifier_with_figures_is_not_another_one_that_begins_like_it(term: str, text: str, held: bool) -> None:
    assert holds(content(text), term) == held


@pytest.mark.parametrize(("item", "margin"), [("Heron", "18.50 %"), ("Dipper", "2.50 %")])
def test_each_row_of_a_sheet_is_quoted_after_its_header(item: str, margin: str) -> None:
    text = "Resale\n\nProduct | Margin | Stock\n\nHeron | 18.50 % | 12\nDipper | 2.50 % | 40"
    row = next(line for line in text.splitlines() if line.startswith(item))
    assert margin in row
    assert quoted(f"What is the margin of the {item}?", text)[0] == f"Product | Margin | Stock: {row}"


def test_no_sentence_is_quoted_twice() -> None:
    long = "in a holder of cast aluminium that takes them in one direction and in no other, as its cover says, whatever the weather"
    text = (
        f"Two cells power the Heron, {long}, and a third one in winter, which the works fit on demand. "
        f"The cells of a Heron last 6.5 years. At one reading a minute they last 11 months. {long}."
    )
    passages = [("Heron", text)]
    chosen = choose(shortlist("How long do the cells of a Heron last?", passages), passages, [[]])
    assert len(chosen) == 2
    assert sum("The cells of a Heron last 6.5 years." in one.text for one in chosen) == 1


MORE = " It was tried for a week in the flume, and for another one on the bridge." * 3
NOTES = "\n\n".join(
    (
        f"Version 4.6.0, 2 June. The gauge measures the air once a minute.{MORE}",
        f"Version 4.6.0.1, 3 June. What had changed in the firmware is as before.{MORE}",
        f"Version 4.4.0, 8 September. The firmware is signed, which changed the key; no downgrade below 4.4.0.{MORE}",
    )
)


@pytest.mark.parametrize("version", ["4.6.0", "4.4.0"])
def test_what_is_said_of_a_version_is_quoted_and_nothing_of_another(version: str) -> None:
    passages = [("Release notes", NOTES)]
    chosen = choose(shortlist(f"What changed in firmware {version}?", passages), passages, [[]])
    assert chosen[0].text.startswith(f"Version {version}, ")
    assert all(f"{version}," in one.text or f"{version};" in one.text for one in without_strays(chosen, sure=True))


@pytest.mark.parametrize("more", [[], ["| Palm, old | 7"]])
def test_a_row_of_another_thing_is_not_quoted_beside_that_of_the_question(more: list[str]) -> None:
    rows = ["| Plant | Litres", "| Fern | 2", "| Palm | 5", *more]
    passages = [("Plants", "\n".join(f"{row} |" for row in rows))]
    chosen = choose(shortlist("How many litres does the palm need?", passages), passages, [[]])
    assert [one.text for one in without_strays(chosen, sure=True)] == [f"Plant | Litres: {row[2:]}" for row in rows[2:]]


@pytest.mark.parametrize(
    ("text", "quotable"),
    [
        ("Who is the officer?\n\nAnn Smith\n\nWho pays?\n\nThe company pays.", ["Ann Smith", "The company pays."]),
        ("Who is the officer?\nAnn Smith\nBuilding B", ["Ann Smith Building B"]),
        ("Who is the officer?\n# Next\nIt is so.", ["It is so."]),
        ("Head of HR\nAnn Smith\nBuilding B", ["Ann Smith Building B"]),
        ("# HR\nHead\nAnn Smith\nBuilding B", ["Ann Smith Building B"]),
        (
            "付款期限\n\n付款期限为三十天。\n\n以后收费；\n\n谁付款？\n\n公司付款。",
            ["付款期限为三十天。", "以后收费；", "公司付款。"],
        ),
        ("「誰が払う？」\n\n会社が払う。\n\nمن يدفع؟\n\nالشركة تدفع.", ["会社が払う。", "الشركة تدفع."]),
        ("भुगतान\n\nकंपनी भुगतान करती है।\n\nऔर कुछ नहीं।", ["कंपनी भुगतान करती है।", "और कुछ नहीं।"]),
    ],
)
def test_a_short_line_that_answers_is_no_heading(text: str, quotable: list[str]) -> None:
    assert [one.text for one in parts_of(text) if one.quotable] == quotable


TALK = (
    "Ada Hill: Good morning everyone\n\nMarta Kolb: The VPN gateway moves to Kiel\n\n"
    "Bo Ray: The staging server stays in Hamburg\n\nAda Hill: Great, thanks"
)
NOTES_OF_ONE_LINE = "Dogs are allowed on Fridays only\n\nThe gate code changes every month\n\nAsk Ada for the rest."


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("Where does the VPN gateway move?", TALK, "The VPN gateway moves to Kiel"),
        ("When are dogs allowed?", NOTES_OF_ONE_LINE, "Dogs are allowed on Fridays only"),
    ],
)
def test_short_paragraphs_without_a_full_stop_are_quoted(question: str, text: str, answer: str) -> None:
    assert answer in quoted(question, text)[0]


def test_short_lines_that_follow_each_other_are_no_headings_unless_the_parser_says_so() -> None:
    text = "Care\n\nPower\n\nTwo cells."
    for known, quotable in (([], ["Care", "Two cells."]), (["Care"], ["Two cells."]), (["Power"], ["Two cells."])):
        assert [one.text for one in parts_of(text, known_of(known)) if one.quotable] == quotable


def test_a_conversation_has_no_headings_without_a_mark() -> None:
    said = "Marta Kolb: The VPN gateway moves to Kiel\n\nAda Hill: Great, thanks."
    assert [[one.quotable for one in parts_of(said, known)] for known in (None, frozenset[str]())] == [
        [True, True],
        [False, True],
    ]


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "Does the warranty cover water damage?",
            "- The warranty covers water damage.\n- The warranty does not cover theft or loss.",
            "The warranty covers water damage.",
        ),
        (
            "Is the canteen open on Sundays?",
            "Is the canteen open on Sundays?\nThe canteen is open on Sundays.\n\nWhat does lunch cost?\nLunch costs 6 EUR.",
            "The canteen is open on Sundays.",
        ),
        (
            "Who leads the procurement team?",
            "### Marta Kolb\nLeads the procurement team\n\n### Jonas Weiss\nLeads the sales team",
            "Leads the procurement team",
        ),
        (
            "Which version fixed the login bug?",
            "## 2.3.1\n- Fixed the login bug\n\n## 2.3.0\n- New export",
            "Fixed the login bug",
        ),
    ],
)
def test_a_sentence_in_the_words_of_the_question_is_quoted(question: str, text: str, answer: str) -> None:
    passages = [("Handbook", text)]
    found = shortlist(question, passages)
    assert answer in found[0].text
    assert answer in choose(found, passages, [[]])[0].text


def test_a_question_without_its_mark_is_not_quoted() -> None:
    assert quoted("When does the canteen open?", "When the canteen opens\n\nAt eight.\n\nWhen it closes\n\nAt two.")[
        0
    ].startswith("At")


def test_an_answer_of_one_line_is_quoted_below_its_question() -> None:
    text = (
        "Who is the data protection officer?\n\nAnn Smith\n\nWho pays for the training?\n\nThe company pays all costs."
    )
    assert quoted("Who is the data protection officer?", text)[0] == "Ann Smith"


def test_a_line_with_bars_that_is_no_table_is_quoted() -> None:
    text = "Acme Ltd | Mill Road 1 | Harwick\n\nHours: 9-17 | Phone: 030 1234567\n"
    assert "Hours: 9-17 | Phone: 030 1234567" in quoted("What are the hours of Acme?", text)[0]
    assert quoted("Where is Acme?", "Acme Ltd | Mill Road 1 | Harwick\n\nWe mill.")[0].endswith("Harwick")


def test_the_first_row_of_a_sheets_passage_is_no_header_without_an_empty_line_below() -> None:
    rows = "Data | Olga Pratt\nAudit | Quin Ross\nSales | Ina Reyes"
    for text, header in ((rows, ""), (f"Team | Lead\n\n{rows}", "Team | Lead: ")):
        passages = [("Teams", text)]
        for question, row in (("Who leads Data?", "Data | Olga Pratt"), ("Who leads Audit?", "Audit | Quin Ross")):
            found = shortlist(question, passages, cut=[parts_of(text, sheet=True)])
            assert choose(found, passages, [[]])[0].text == f"{header}{row}"


def test_a_link_alone_is_not_quoted() -> None:
    assert quoted(
        "Where is the guide to leave?", "(https://intra.example/leave)\n\nThe guide to leave is on the intranet."
    ) == ["The guide to leave is on the intranet."]


def test_a_quote_is_a_stretch_of_its_passage() -> None:
    text = "Leave is granted by leads.\nIt is at most four hours for each election.\n\nOther rules follow."
    for one in quoted("How long is leave for an election?", text):
        assert " ".join(one.split()) in " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Bring to the office:\n\n- Bring two\n  photos.\n- Sign it.",
            "Bring to the office:\n- Bring two photos.\n- Sign it.",
        ),
        ("To bring it:\n1. Ask for it.\n2. Bring it.", "To bring it:\n1. Ask for it.\n2. Bring it."),
        ("- Bring two photos.\n- Sign it.", "- Bring two photos.\n- Sign it."),
        ("[14:02] Ada: Bring two photos.\n[14:03] Bob: Two?\n", "[14:02] Ada: Bring two photos."),
        ("[14:02] Ada: Bring photos.\n[14:03] Bob: Bring\ntwo.", "[14:02] Ada: Bring photos.\n[14:03] Bob: Bring two."),
        ("Bring two\nphotos. Sign\nthem.", "Bring two photos. Sign them."),
    ],
)
def test_items_of_a_list_keep_their_lines_and_wrapped_lines_do_not(text: str, shown: str) -> None:
    passages = [("", text)]
    chosen = choose(shortlist("What do I bring?", passages), passages, [[]])
    assert compose(chosen[:1])[0] == f"“{shown}” [1]"


@pytest.mark.parametrize(
    ("text", "piece", "marked"),
    [
        ("Disks of 15 GB. A limit of 1.5 GB.", "1.5 GB", "1.5 GB"),
        ("It holds if x = y. It holds if x != y. ", "It holds if x != y. ", "It holds if x != y."),
        ("Kind | Least\nA | 5\nB | -5", "B | -5", "B | -5"),
        ("Care\n\n- Water  it.\n- Air it.\n", "- Water  it.\n", "Water  it."),
        ("Fees\n\n+ 25 EUR\n", "+ 25 EUR\n", "+ 25 EUR"),
    ],
)
def test_a_mark_is_where_the_quote_was_taken_from(text: str, piece: str, marked: str) -> None:
    start = text.index(piece)
    one = Quote(1, "", " ".join(piece.split()), start, start + len(piece), {})
    assert [(at, number, text[start:end]) for at, number, start, end in marks([one], [("", text)])] == [(0, 1, marked)]


def test_a_quote_stays_on_one_page() -> None:
    text = "The ferry runs every hour. The bolts of the mast need a torque of 18 Nm. Grease them first."
    passages, second = [("Mast", text)], text.index("The bolts")
    found = shortlist("What torque do the bolts of the mast need?", passages)
    assert choose(found, passages, [[]])[0].text == text
    assert choose(found, passages, [[second]])[0].text == text[second:]


def test_rows_of_a_pdfs_table_are_quoted_one_by_one() -> None:
    faults = [
        ("Motor overheated", "Let it cool for 30 minutes; clean the intake"),
        ("Dry running", "Fill the suction line"),
        ("Phase missing", "Check the fuses of all three phases"),
        ("Sensor cable broken", "Replace cable TP-4720"),
    ]
    rows = [f"E{number} {meaning} {remedy}" for number, (meaning, remedy) in enumerate(faults * 4, start=20)]
    text = "\n".join(["Code Meaning Remedy", *rows, "", "The pump is guaranteed for three years."])
    for number, row in ((21, rows[1]), (30, rows[10]), (35, rows[15])):
        first, *_ = quoted(f"What does the code E{number} mean?", text)
        assert row in first
        assert len(first) < len(text) / 2
        assert "guaranteed" not in first


def test_a_long_sentence_of_many_lines_is_quoted_whole() -> None:
    lines = [
        "The lease of the boathouse at the upper lock of the Weir, which was signed in Harwick by the Mayor and by",
        "Mr Ford for the Rowing Club, and to which the drawings of 1987 belong, ends at the end of the month of May if",
        "the Mayor or the Club gives notice in writing, and otherwise goes on for a year at the rent of the year before,",
        "Unless the Council decides otherwise.",
    ]
    assert quoted("When does the lease of the boathouse end?", "\n".join(lines)) == [" ".join(lines)]


def test_messages_of_a_log_are_quoted_one_by_one() -> None:
    said = [
        f"[14:{minute}] ada: nothing new about the queue of number {minute}, I go on looking"
        for minute in range(10, 40)
    ]
    said[20] = "[14:30] bob: the certificate of the gateway had expired at noon"
    first = quoted("When had the certificate expired?", "\n".join(said))[0]
    assert said[20] in first
    assert len(first) <= 280


def test_of_rows_that_mean_alike_the_one_with_the_cells_asked_for_is_quoted_after_the_first_line_of_its_header() -> (
    None
):
    header, wanted = "Part | Bin | Price", "Pressure sensor 0-25 bar | D22 | 71.20"
    rows = ["Pressure sensor 0-10 bar | D21 | 64.90", wanted, "Ball valve of brass | A04 | 6.40"]
    passages = [("Stock", "\n".join([header, "| of shelf | in euros", *rows]))]
    found = [
        piece._replace(features={**piece.features, "near": 0.5 if "0-10" in piece.text else 0.4})
        for piece in shortlist("In which bin is the pressure sensor 0-25 bar?", passages)
    ]
    assert {piece.text for piece in found} == {*rows}
    assert choose(found, passages, [[]])[0].text == f"{header}: {wanted}"


def test_a_quote_without_the_phone_number_that_is_asked_for_is_not_certain() -> None:
    text = "The landlord of the yard wants us out by the end of May. The landlord of the yard is nice."
    source = SimpleNamespace(heading="Yard", chunk_text=text)
    for question, sure in (
        ("What is the landlord of the yard like?", True),
        ("What is the phone number of the landlord of the yard?", False),
    ):
        pieces = measured(shortlist(question, [("Yard", text)], [1.0]), [1.0, 0.9])
        assert (certainty(question, pieces, [source]) > REFUSED) == sure  # type: ignore[list-item]


def test_an_email_address_in_angle_brackets_is_quoted() -> None:
    passages = [("Mail", "From: Petra Lindner <p.lindner@haller.example>\nTo: Service <service@mill.example>")]
    text, _ = compose(choose(shortlist("Which email address does Petra Lindner have?", passages), passages, [[]]))
    assert "Petra Lindner p.lindner@haller.example" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("24. Dezember ist ein halber Arbeitstag.", "24. Dezember ist ein halber Arbeitstag."),
        ("3. und 4. Mai ist zu.", "3. und 4. Mai ist zu."),
        ("3. Mailboxen leeren.", "3. Mailboxen leeren."),
        ("2. Mahnung: 10 EUR", "2. Mahnung: 10 EUR"),
        ("Read array[0], f(x)[1] or m[2][3]; see [4].", "Read array［0］, f(x)［1］ or m［2］［3］; see (4)."),
        ("The range is [1, 5] as said.[6]", "The range is ［1, 5］ as said.(6)"),
        ("5. Stock, Raum 12", "5. Stock, Raum 12"),
        ("Fixed the crash [#123], see [Ref: 4711].", "Fixed the crash [#123], see [Ref: 4711]."),
        ("- Open <b>it</b><br/> now.", "Open it now."),
        ("+ 25 EUR each night", "+ 25 EUR each night"),
        ("The condition x<y must hold, p<0.05, q>1.", "The condition x‹y must hold, p<0.05, q>1."),
        ("Run deploy <environment> --force", "Run deploy ‹environment› --force"),
        ("او می\u200cرود، hid\u200cden \u200dx\u200b.", "او می\u200cرود، hidden x."),
        ("क्\u200dष और क्\u200cष\u200d.", "क्\u200dष और क्\u200cष."),
        ("Valid when 0<a and b>5 holds.", "Valid when 0‹a and b›5 holds."),
        ("Run for <i && j>, or <a name>.", "Run for ‹i && j›, or ‹a name›."),
        ("A <a href='x' id=y>b</a > <input disabled> <td NoWrap v-x.y=\"1 2\"> c<br/>.", "A b c."),
        ("List<String> and <x onload=a()> <IMG src=x onerror=a()> hold.", "List‹String› and ‹x onload=a()› hold."),
        ("Mail <https://evil.example/x> Ada <a@mill.example>.", "Mail (link removed) Ada a@mill.example."),
        ("第1条 " + "当社は責任を負う" * 55, "第1条 " + ("当社は責任を負う" * 55)[:396] + " …"),
        ("word " * 90, "word " * 79 + "word …"),
    ],
)
def test_a_quote_says_what_its_source_says_without_tags(text: str, shown: str) -> None:
    quote, _ = compose([Quote(1, "", text, 0, len(text), {})])
    assert quote == f"“{shown}” [1]"


LONG = (
    "It is kept in the large cabinet behind the door of the workshop on the second floor, where the porter has a key for "
    * 2
)


@pytest.mark.parametrize(
    ("question", "text", "wanted"),
    [
        pytest.param(
            "What does a place for a car cost?",
            "- Ask the porter.\n- See the list of places.\n\nA place costs 30 euros. Pay it in May.",
            "A place costs 30 euros. Pay it in May.",
            id="what stands below a list is about something else",
        ),
        pytest.param(
            "Can passwords be relied on to stay secret?",
            "- passwords\n- tokens\n\nHowever, secret passwords should not be relied on.",
            "- passwords\n- tokens\nHowever, secret passwords should not be relied on.",
            id="what stands below a list may refer to it",
        ),
        pytest.param(
            "What does a place for a car cost?",
            f"A place for a car costs 30 euros.\n\nPlaces are for:\n\n- {LONG}",
            "A place for a car costs 30 euros.",
            id="an introduction without what it introduces says nothing",
        ),
        pytest.param(
            "How much is the lamp?",
            f"Each desk gets:\n\n- a lamp for 30 euros\n- a lamp for 50 euros. {LONG[:224]}.\n- a chair",
            "Each desk gets:\n- a lamp for 30 euros\n- a lamp for 50 euros.",
            id="an item says little without its introduction",
        ),
    ],
)
def test_a_quote_grows_by_what_belongs_to_it(question: str, text: str, wanted: str) -> None:
    assert quoted(question, text)[0] == wanted
