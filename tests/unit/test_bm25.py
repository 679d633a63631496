"""The sparse vectors are BM25: the formula, a query's counts, words in addition to their stems, and one way of counting length."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.bm25 import FORM, K1, SPELLING, B, SparseVector, encode_documents, encode_query, mean_length
from resources.core.spelling import folded, folded_in_place, spelled

TERMS = ["fox", "dog", "survey", "budget", "ship"]
"""Words that stemming does not change."""
texts = st.lists(st.sampled_from(TERMS), min_size=1, max_size=60)


@given(document=texts, query=texts, avg_len=st.floats(1, 500))
def test_dot_product_is_bm25_without_idf(document: list[str], query: list[str], avg_len: float) -> None:
    counts, asked = Counter(document), Counter(query)
    norm = K1 * (1 - B + B * len(document) / avg_len)
    expected = sum(asked[term] * counts[term] * (K1 + 1) / (counts[term] + norm) for term in asked)
    stored = encode_documents([" ".join(document)], avg_len)[0]
    assert product(encode_query(" ".join(query)), stored) == pytest.approx((1 + FORM) * expected, rel=1e-4)


def product(query: SparseVector, document: SparseVector) -> float:
    weights = dict(zip(*query, strict=True))
    return sum(weights.get(index, 0) * value for index, value in zip(*document, strict=True))


@given(query=texts)
def test_a_query_keeps_the_count_of_each_term(query: list[str]) -> None:
    vector = encode_query(" ".join(query))
    assert sorted(vector.values) == sorted((1 + FORM) * count for count in Counter(query).values())
    assert vector.indices == sorted(set(vector.indices))


def test_very_long_queries_keep_exact_counts() -> None:
    assert sorted(encode_query("fox " * 3000 + "dog").values) == [1 + FORM, 3000 * (1 + FORM)]


def test_forms_of_a_word_share_a_stem_and_the_same_form_counts_more() -> None:
    same, other, none = encode_documents(["a survey of surveys", "surveying a survey", "budgets"], 2)
    asked = encode_query("the surveys")
    assert product(asked, same) > product(asked, other) > 0 == product(asked, none)
    assert product(encode_query("SURVEY"), same) == product(encode_query("survey"), other)
    assert sorted(asked.values) == [FORM, 1]


def test_a_word_that_is_its_own_stem_is_one_term() -> None:
    assert len(encode_documents(["survey fox"], 2)[0].indices) == 2
    assert encode_query("survey").values == [1 + FORM]


def test_stopwords_are_no_terms() -> None:
    assert encode_query("the fox and") == encode_query("fox")
    assert encode_documents([""], 10) == [([], [])]


def test_mean_length_counts_what_the_vectors_count() -> None:
    assert mean_length(["the fox and the dog", "fox"]) == 1.5
    assert mean_length([]) == 1.0
    average = mean_length(["fox dog budget"] * 4)
    assert encode_documents(["fox dog budget"], average)[0].values == pytest.approx([1.0] * 3)


def test_the_average_must_be_positive() -> None:
    with pytest.raises(ValueError):
        encode_documents(["fox"], 0)


@pytest.mark.parametrize(
    "identifier",
    [
        "PKZ-0821", "E4411_TIMEOUT", "TR-40S/118", "2.13.7", "ann.lee@example.com", "db-07.prod.example.net", "/srv/data/a_1.csv",
    ],
)  # fmt: skip
def test_an_identifier_is_a_term_besides_its_parts(identifier: str) -> None:
    near = identifier[:-1] + ("9" if identifier[-1].isdigit() else "q")
    stored, missed = encode_documents([f"See {identifier}, please.", f"See {near}, please."], 4)
    asked = encode_query(identifier.upper())
    assert set(asked.indices) <= set(stored.indices)
    assert product(asked, stored) > product(asked, missed)
    parts = encode_query(" ".join(re.findall(r"[^\W_]+", identifier)))
    assert len(asked.indices) == len(parts.indices) + 1


@pytest.mark.parametrize("word", ["a", "aB", "a1", "1,111", "a-", "é", "東", "ß"])
def test_a_long_word_takes_linear_time(word: str) -> None:
    began = time.process_time()
    assert len(encode_documents([word * 300_000], 10)[0].indices) >= 0
    assert time.process_time() - began < 20, "quadratic: an hour"


def test_a_hyphenated_word_is_its_parts_and_with_less_weight_one_word() -> None:
    parts, both = (dict(zip(*encode_query(text), strict=True)) for text in ("ship dog", "ship-dog"))
    assert both.items() > parts.items()
    assert [both[index] for index in both.keys() - parts.keys()] == [SPELLING]


SPELLINGS = [
    ("Jose Garcia", "José García"), ("Lodz", "Łódź"), ("strasse", "Straße"), ("Malmo", "Malmö"), ("Αθηνα", "Αθήνα"), ("naive", "naïve"),
    ("Jose\u0301", "José"), ("PKZ-0821", "PKZ0821"), ("TR-40S/118", "TR40S118"), ("12,500", "12500"), ("12.500", "12500"),
    ("12\u202f500", "12500"), ("1,234,567", "1234567"), ("wi-fi", "wifi"), ("wi\u2011fi", "wi-fi"), ("O'Brien", "OBrien"),
    ("O’Brien", "O'Brien"), ("e-mails", "emails"), ("getUserName", "get user name"), ("get_user_name", "getUserName"),
    ("PKZ0821", "PKZ 0821"), ("AT&T", "ATT"), ("2026-01-31", "20260131"),
    ("Mueller", "Müller"), ("Kuendigungsfrist", "Kündigungsfrist"), ("Aarhus", "Århus"), ("Heizoel", "Heizöl"), ("Aepfel", "Äpfel"),
    ("Kierkegaard", "Kierkegård"), ("Soeren", "Søren"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_spellings_find_each_other(one: str, other: str, language: str) -> None:
    for asked, stored in ((one, other), (other, one)):
        for query in (asked, asked.upper() if "_" not in one and asked.islower() else asked):
            (vector,) = encode_documents([f"Amtlich: {stored}."], 4, [language])
            assert product(encode_query(query, {"en", language}), vector) > 0, (query, stored)


@pytest.mark.parametrize(
    ("query", "stored"),
    [("guest", "gust"), ("neue", "nue"), ("Quelle", "Qulle"), ("Samuel", "Samul"), ("poet", "pot"), ("Staat", "Stat")],
)
def test_two_vowels_are_seldom_an_umlaut(query: str, stored: str) -> None:
    (vector,) = encode_documents([stored], 4)
    assert product(encode_query(query), vector) == 0


@pytest.mark.parametrize(
    ("query", "near", "exact"),
    [
        ("C++", "vitamin C pills", "our C++ code"), ("C#", "note C sharpened", "our C# code"), ("F#", "page F of it", "our F# code"),
        (".NET", "a fishing net", "the .NET code"), ("2.13.7", "21.3.7", "2.13.7"), ("10.0.0.1", "100.0.1", "10.0.0.1"),
    ],
)  # fmt: skip
def test_signs_and_points_tell_names_and_versions_apart(query: str, near: str, exact: str) -> None:
    other, same = encode_documents([near, exact], 3)
    assert product(encode_query(query), same) > product(encode_query(query), other)


@pytest.mark.parametrize("query", ["The Who", "the who", "THE WHO"])
def test_stop_words_with_capitals_are_a_name(query: str) -> None:
    name, sentence = encode_documents(["A concert of The Who in May", "The dogs of the man who barks. The end"], 5)
    assert product(encode_query(query), name) > 0 == product(encode_query(query), sentence)


@pytest.mark.parametrize("query", ["IT", "it", "IT?"])
def test_a_stop_word_in_capitals_is_a_name(query: str) -> None:
    name, sentence = encode_documents(["Ask IT for a laptop", "It barks, and it runs"], 5)
    assert product(encode_query(query), name) > 0 == product(encode_query(query), sentence)


def test_a_name_of_stop_words_counts_among_other_words() -> None:
    name, sentence = encode_documents(["The policy of IT", "The policy: it runs on"], 5)
    assert product(encode_query("IT policy"), name) > product(encode_query("IT policy"), sentence)
    assert set(encode_query("it policy").indices) == set(encode_query("policy").indices)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("京都", "東京都庁の案内"),
        ("東京都庁", "東京都庁の案内"),
        ("서울", "서울특별시에서"),
        ("合同", "我们的合同范本"),
        ("ลาพักร้อน", "พนักงานมีสิทธิลาพักร้อนสิบวัน"),
        ("ห้องน้ำ", "ในห้องน้ำ"),
        ("ວັນພັກ", "ມີວັນພັກສິບມື້"),
        ("ច្បាប់", "តាម\u200bច្បាប់\u200bការងារ"),
        ("ခွင့်ရက်", "ဝန်ထမ်းခွင့်ရက်များ"),
    ],
)
def test_scripts_without_spaces_are_found_by_two_characters(query: str, text: str) -> None:
    found, other = encode_documents([text, "安全な自転車 ราคาค่าไฟ ລາຄາ ថ្លៃទឹក ဈေးနှုန်း"], 5)
    assert product(encode_query(query), found) > 0 == product(encode_query(query), other)


def test_stop_words_with_accents_stay_stop_words() -> None:
    assert encode_documents(["für über"], 5, ["de"]) == [([], [])]
    assert product(encode_query("kuhe", {"de"}), encode_documents(["Die Kühe"], 5, ["de"])[0]) > 0


def test_other_spellings_do_not_lengthen_a_text() -> None:
    assert mean_length(["wi-fi"]) == mean_length(["wi fi"]) == 2
    plain, joined = encode_documents(["wi fi", "wi-fi"], 2)
    assert dict(zip(*joined, strict=True)).items() > dict(zip(*plain, strict=True)).items()


@given(text=st.text(max_size=60))
def test_a_text_that_is_folded_in_place_keeps_its_length(text: str) -> None:
    plain = folded_in_place(text)
    assert plain is None or (plain == folded(text) and len(plain) == len(text))


def test_clitics_join_nothing() -> None:
    assert not any(spelled("don't"))
    assert not any(spelled("company's"))


GERMAN = "Die Kündigungsfristen der Verträge stehen in Anlage PKZ-0821."


def test_passages_have_the_stems_and_stop_words_of_their_language() -> None:
    (german,), (english,) = (encode_documents([GERMAN], 10, [language]) for language in ("de", "en"))
    assert product(encode_query("Verträgen", {"en"}), german) == 0
    assert product(encode_query("Verträgen", {"en", "de"}), german) > 0
    assert product(encode_query("Kündigungsfrist", {"en", "de"}), german) > 0
    assert product(encode_query("Kündigungsfrist", {"en", "de"}), english) == 0
    assert (
        product(encode_query("die der in", {"en"}), english) > product(encode_query("die der in", {"de"}), german) == 0
    )


def test_a_word_of_an_identifier_is_whole_in_every_language() -> None:
    near, exact = encode_documents(["Anlage PKZ-0822 der Verträge", "Anlage PKZ-0821 der Verträge"], 10, ["de", "de"])
    for query in ("PKZ-0821", "Was steht in der Anlage PKZ-0821?"):
        vector = encode_query(query, {"de", "en", "fr"})
        assert product(vector, exact) > product(vector, near)


@given(query=st.text(max_size=100))
def test_a_corpus_in_english_alone_has_queries_in_english_alone(query: str) -> None:
    assert encode_query(query, {"en"}) == encode_query(query) == encode_query(query, {"en", "xx", "ja"})


def test_the_stop_words_of_a_query_tell_its_language() -> None:
    corpus = {"en", "de", "fr"}
    assert encode_query("How are the contracts with suppliers checked?", corpus) == encode_query(
        "How are the contracts with suppliers checked?"
    )
    without = encode_query("werden Verträge geprüft", corpus - {"fr"})
    assert set(encode_query("Wie werden die Verträge geprüft?", corpus - {"fr"}).indices) == set(without.indices)


def test_lengths_are_counted_without_the_stop_words_of_each_language() -> None:
    assert mean_length(["die Verträge und der Preis"], ["de"]) == 2
    assert mean_length(["die Verträge und der Preis", "the contracts and the price"], ["de", "en"]) == 2
    assert mean_length(["die Verträge und der Preis"]) == 5


@pytest.mark.parametrize(
    ("shown", "asked"),
    [("The ﬁle is oﬃcial", "official file"), ("ﺍﻟﺨﻄﻮﻁ", "الخطوط"), ("ＡＢＣ－１２３", "ABC-123"), ("ｶﾞｲﾄﾞ", "ガイド")],
)
def test_ligatures_and_presentation_forms_are_found_by_plain_letters(shown: str, asked: str) -> None:
    assert product(encode_query(asked), encode_documents([shown], 3.0)[0]) > 0


def test_signs_that_are_no_letters_stay_apart_from_words() -> None:
    assert product(encode_query("Acme"), encode_documents(["Acme™"], 3.0)[0]) > 0
