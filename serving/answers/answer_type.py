# ruff: noqa: E501 (word lists read best on one line)
"""What kind of answer a question expects, and whether a sentence holds one. Pure.

English, German and French: a question of another language expects nothing, and its quotes are chosen by the rest.
"""

import re
from typing import Literal

from serving.answers.words import content, digits

AnswerType = Literal["amount", "duration", "time", "person", "place", "yes_no", "phone", "email", "other"]

EXACT: frozenset[AnswerType] = frozenset({"phone", "email"})
"""Kinds whose shape is certain: a text without one is no answer."""

_QUEL = r"\bquel(?:le)?s?\b(?:\s(?:est|sont|était|sera)\s(?:la\s|le\s|les\s|l['’]))?\s?"
_WELCHE = r"\b(?:welche[rnms]?|(?:was|wie)\s(?:ist|sind|lautet|war)\s(?:der|die|das))\s"
"""What a question for a thing of a kind begins with: `quelle durée`, `quelle est la durée`, `welche Frist`, `was ist die Frist`."""
_DURATION = re.compile(
    r"\bhow (?:long|soon|quickly|fast|early|often|frequently|late|old|far (?:ahead|in advance))\b|\bhow much (?:notice|time)\b|"
    rf"\bwie (?:lang(?:e|fristig)?|oft|häufig|schnell|früh|spät|alt)\b|{_WELCHE}\w*(?:frist|dauer|zeitraum)\b|"
    rf"\bcombien de (?:temps|fois)\b|{_QUEL}(?:délai|durée|âge|fréquence|préavis)",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    r"\bhow (?:much|many|far|big|large|high|heavy|tall|wide|warm|hot|cold|thick|deep|strong)\b|"
    r"\b(?:what|which)\b.{0,40}\b(?:price|cost|fee|deposit|number|limit|maximum|minimum|percentage|percent|budget|rate|salary|amount|size|"
    r"length|height|weight|temperature|code|port|version|cap|excess|default|threshold|value|largest|smallest|highest|lowest)\b|"
    r"\bcosts?\s*\?$|"
    r"\bwie (?:hoch|groß|gross|teuer|weit|schwer|stark|breit)\b|\bwas kostet\b|"
    rf"{_WELCHE}.{{0,40}}(?:preis|kosten|gebühr|betrag|anzahl|zahl|grenze|höhe|satz|budget|nummer|wert)\b|"
    r"\bquel(?:le)?s?\b.{0,40}\b(?:prix|coût|montant|nombre|taux|tarif|limite|plafond|budget|numéro|taille|valeur|pourcentage)s?\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\bhow (?:much|many)\b|\bwie ?viele?\b(?! uhr)|\bcombien\b", re.IGNORECASE)
_TIME = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:day|date|year|month|time|hour|week|quarter)s?\b|\bwhat\b.{0,30}\b(?:deadline|last day|date|times?)\b|"
    r"\bsince what\b|\bby what date\b|"
    rf"\bwann\b|\bwie ?viel uhr\b|\bam wievielten\b|{_WELCHE}(?:tag|datum|jahr|monat|woche|uhrzeit|wochentag|termin|stichtag)|"
    rf"\bquand\b|{_QUEL}(?:jour|date|heure|année|mois|semaine)",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\bwho(?:m|se)?\b|\b(?:which|what) (?:person|team|company|supplier|customer|agency|agencies|office)\b|"
    rf"\b(?:wer|wem|wen|wessen)\b|{_WELCHE}(?:person|abteilung|firma|kunde|lieferant|team)|"
    rf"^\W*(?:(?:à|de|par|avec|pour|chez) )?qui\b|{_QUEL}(?:personne|équipe|entreprise|service|fournisseur|client)",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\bwhere\b|\b(?:which|what) (?:room|place|city|country|folder|directory|file|floor|building)\b|"
    rf"\b(?:wo|wohin|woher)\b|{_WELCHE}(?:raum|ort|stadt|land|ordner|datei|stockwerk|gebäude)\b|"
    rf"^\W*(?:d['’]|vers |par )?où\b|{_QUEL}(?:salle|lieu|ville|pays|dossier|fichier|étage|bâtiment)\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^(?:\W*)(?:is|are|was(?! (?:ist|sind|passiert|geschieht|bedeutet|kostet|gilt|muss|kann|darf|soll|heißt|wird|steht|tun)\b)|were|do|does|did|can|could|may|must|should|shall|will|would|has|have|am|might)\b"
    r"|[.,:;]\s+(?:is|are|do|does|did|can|could|may|must|should|will|would|has|have|am)\b(?=[^.]*\?)"
    r"|^\W*(?:ist|sind|darf|dürfen|kann|können|muss|muß|müssen|soll|sollen|sollte|hat|habe|haben|wird|werden|gibt|gilt|brauche?|braucht)\b"
    r"|^(?!.*\b(?:quel|quelle|quels|quelles|comment|pourquoi|que|quoi|combien|où)\b|\W*(?:à |de |par )?qu).*"
    r"(?:\w-(?:t-)?(?:je|tu|il|elle|on|nous|vous|ils|elles)\b)|^\W*est-ce qu(?!i\b)",
    re.IGNORECASE,
)

_ASKED = r"\b(?:what(?:['’]s| is| are| was)|which|(?:to|at|on|under) what)\b.{0,40}\b"
_ASKED_ABROAD = r"\b(?:welche|(?:wie|was) (?:lautet|ist)|quel(?:le)?)\b.{0,40}\b"
_PHONE = re.compile(
    rf"{_ASKED}(?:phone|telephone|mobile|cell|fax|hotline) numbers?\b|\b(?:what|which) number\b.{{0,20}}\b(?:call|dial|ring)\b|"
    rf"{_ASKED_ABROAD}(?:(?:telefon|handy|fax|mobil|hotline)-?nummer|durchwahl|numéro de (?:téléphone|portable|fax))\b",
    re.IGNORECASE,
)
_EMAIL = re.compile(
    rf"{_ASKED}e-?mail address(?:es)?\b|{_ASKED_ABROAD}(?:e-?mail-?adresse|adresse (?:e-?mail|mail|électronique))\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b(?:19|20)\d\d\s*[-/–]\s*(?:19|20)\d\d\b")
_HOLDS_PHONE = re.compile(
    r"(?<![\w.])\+?\(?(?:\d[\s()/.-]{0,2}){6,}(?![\w%])|\b(?:call|dial|ext|extension|phone|tel)\b[.:]?\s*\+?\d{3}",
    re.IGNORECASE,
)
_HOLDS_EMAIL = re.compile(r"\w@\w")

_MONTH = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|"
    r"januar|februar|märz|mai|juni|juli|oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
)
_SPAN = (
    r"(?:milli)?seconds?|minutes?|mins?|hours?|hrs?|(?:business |working |calendar )?days?|nights?|weeks?|fortnights?|months?|quarters?|years?|yrs?|"
    r"sekunden?|minuten?|stunden?|(?:werk|arbeits|kalender)?tage?n?|wochen?|monate?n?|quartale?n?|jahre?n?|"
    r"secondes?|heures?|jours?|semaines?|mois|trimestres?|ans?|années?"
)
_FEW = (
    r"zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|"
    r"deux|trois|quatre|cinq|sept|huit|neuf|dix|onze|douze|quinze|vingt|trente"
)
"""Numbers in words that `digits` does not know, since it knows English."""
_HOLDS_DURATION = re.compile(
    rf"\b(?:\d[\d.,]*(?:\s*(?:-|to|or|bis|à|oder|ou)\s*\d+)?|{_FEW})[\s-]*(?:\(\d+\)\s*)?(?:{_SPAN}|ms|h)\b|\b(?:an?|one|every|each|per|half an?|within an?)\s(?:{_SPAN})\b|"
    r"\b(?:annually|yearly|quarterly|monthly|weekly|daily|hourly|immediately|overnight|forever|permanent(?:ly)?|indefinitely|once|twice|"
    r"jährlich|monatlich|wöchentlich|täglich|stündlich|sofort|unverzüglich|dauerhaft|einmal|zweimal|\w+(?:tägig|wöchig|monatig|jährig)\w*|"
    r"annuel(?:le)?(?:ment)?|mensuel(?:le)?(?:ment)?|hebdomadaire(?:ment)?|quotidien(?:ne)?(?:ment)?|immédiat(?:ement)?)\b",
    re.IGNORECASE,
)
_HOLDS_AMOUNT = re.compile(
    r"\d|\b(?:half|none|unlimited|no (?:limit|cost|fee|maximum|minimum)|free|one|once|twice|double|dozen|hundred|thousand|million)\b|"
    rf"\b(?:{_FEW}|keine?|unbegrenzt|kostenlos|hälfte|halbe\w?|\w+(?:zehn|zig|hundert|tausend)|aucune?|illimitée?|gratuite?|moitié)\b",
    re.IGNORECASE,
)
_HOLDS_TIME = re.compile(
    rf"\b(?:{_MONTH})\.?\s+\d|\d\.?\s*(?:{_MONTH})\b|\b(?:january|february|march|april|june|july|august|september|october|november|december)\b|"
    r"\b(?:januar|februar|märz|juni|juli|oktober|dezember|janvier|février|avril|juin|juillet|août|septembre|octobre|novembre|décembre)\b|"
    r"\b(?:im mai|en (?:mars|mai))\b|"
    r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b\d{1,2}[:.]\d\d\b|\b\d{1,2}\s?[ap]\.?m\b|\b(?:19|20)\d\d\b|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}/\d{1,2}\b|"
    r"\b(?:noon|midnight|morning|afternoon|evening|spring|summer|autumn|winter|today|tomorrow|yesterday|q[1-4])\b|"
    r"\b\d{1,2} ?(?:uhr|h(?:eures)?|h ?\d\d)\b|\b\d{1,2}\.\d{1,2}\.(?:\d{2}|\d{4})\b|"
    r"\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)s?\b|"
    r"\b(?:(?:vor|nach)?mittags?|mitternacht|morgens?|abends?|heute|gestern|frühjahr|sommer|herbst|midi|minuit|matin(?:ée)?|soir|demain|printemps|été|automne|hiver)\b",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"\b(?:after|before|until|once|within|when|whenever|upon|during|prior to|as soon as|at the (?:end|start|beginning)|"
    r"nach|vor|bis|sobald|wenn|während|spätestens|frühestens|ab|seit|après|avant|jusqu|dès|lorsque|depuis|pendant|à partir)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<![.!?:#*\-|]\s)(?<!^)\b[A-Z][a-zà-ÿ]+(?:[\s-][A-Z][a-zà-ÿ]+)*|[\w.]+@\w|\s@\w")
_ROLE = re.compile(
    r"\b(?:managers?|supervisors?|directors?|officers?|leads?|leaders?|teams?|departments?|committees?|board|chair\w*|president|chief|head|secretary|"
    r"administrators?|engineers?|owners?|employees?|staff|members?|contractors?|partners?|governors?|mayors?|authors?|maintainers?|users?|"
    r"customers?|suppliers?|assistants?|accountants?|auditors?|lawyers?|doctors?|nurses?|representatives?|everyone|everybody|anyone|anybody|"
    r"nobody|you|we|they|hr|founders?|ceo|cto|cfo)\b",
    re.IGNORECASE,
)
_HOLDS_PLACE = re.compile(
    r"\b(?:rooms?|floors?|buildings?|streets?|avenue|road|offices?|halls?|desks?|shel(?:f|ves)|cabinets?|cupboards?|drawers?|doors?|corner|entrance|lobby|"
    r"kitchens?|basement|car park|parking|yard|site|folders?|director(?:y|ies)|files?|pages?|tabs?|channels?|menus?|settings|north|south|east|west|left|right)\b|"
    r"[~/\\%][\w.{}-]+[/\\]|#\w|\b(?:in|at|from|near|behind|under|next to|opposite|to) (?:the )?[A-Z]|"
    r"(?<!\d )\b(?-i:am [A-ZÄÖÜ])|\b(?:im|beim|auf|neben|hinter|unter|gegenüber|zwischen|dans|aux?|chez|sur|sous|derrière|devant|près|en face)\b|"
    r"\bà (?:la\b|l['’]|(?-i:[A-ZÀ-Þ]))",
    re.IGNORECASE,
)
_RULING = re.compile(
    r"\b(?:not|no|never|none|cannot|must|may|can|should|shall|only|allowed|permitted|required|need(?:s|ed)?|prohibited|forbidden|banned|optional|mandatory|"
    r"always|unless|except|able|eligible|entitled|free|yes|included|excluded|recommended|preferred|approval|without|avoid|encouraged|expected)\b|n['’]t\b|"
    r"\b(?:nicht|kein\w*|nie|niemals|muss|muß|müssen|darf|dürfen|kann|können|soll|sollen|sollte\w*|nur|erlaubt|zulässig|verboten|untersagt|pflicht\w*|"
    r"verpflicht\w*|erforderlich|freiwillig|immer|außer|ohne|berechtigt|anspruch|ausgeschlossen|empfohlen|"
    r"pas|jamais|aucune?|doit|doivent|peut|peuvent|seulement|uniquement|permise?|autorisée?s?|interdite?s?|interdit|obligatoires?|facultatif|volontaire|"
    r"optionnel(?:le)?|toujours|sauf|sans|droit|possible|impératif|recommandée?)\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:how (?:many|much)|wie ?viele?) ((?:[\w-]+\s+){0,2}[\w-]+)|\bcombien d(?:e |['’])([\w-]+)", re.IGNORECASE
)


def expected(question: str) -> AnswerType:
    """Return the kind of answer that a question expects."""
    for pattern, kind in _KINDS:
        if pattern.search(question):
            return kind
    return "other"


_KINDS: tuple[tuple[re.Pattern[str], AnswerType], ...] = (
    (_PHONE, "phone"),
    (_EMAIL, "email"),
    (_DURATION, "duration"),
    (_HOW_MANY, "amount"),
    (_TIME, "time"),
    (_AMOUNT, "amount"),
    (_PERSON, "person"),
    (_PLACE, "place"),
    (_YES_NO, "yes_no"),
)


def holds_type(text: str, kind: AnswerType) -> float:
    """Return how surely a text holds an answer of this kind, 0 to 1; 0 for `other`."""
    if kind == "amount":
        return float(bool(_HOLDS_AMOUNT.search(digits(text))))
    if kind == "duration":
        spelled = digits(text)
        return (
            1.0
            if _HOLDS_DURATION.search(spelled)
            else 0.5
            if _HOLDS_TIME.search(spelled) or _HOLDS_AMOUNT.search(spelled)
            else 0.0
        )
    if kind == "time":
        spelled = digits(text)
        return (
            1.0
            if _HOLDS_TIME.search(spelled)
            else 0.6
            if _HOLDS_DURATION.search(spelled)
            else 0.4
            if _BOUND.search(text)
            else 0.0
        )
    if kind == "person":
        return 1.0 if _NAME.search(text) else 0.6 if _ROLE.search(text) else 0.0
    if kind == "place":
        return float(bool(_HOLDS_PLACE.search(text)))
    if kind == "yes_no":
        return float(bool(_RULING.search(text)))
    if kind == "phone":
        return float(bool(_HOLDS_PHONE.search(_DATE.sub(" ", text))))
    if kind == "email":
        return float(bool(_HOLDS_EMAIL.search(text)))
    return 0.0


def counted(question: str) -> frozenset[str]:
    """Return the stems of what a question counts: "how many paid breaks" asks for breaks."""
    found = _COUNTED.search(question)
    return content(found[1] or found[2]) if found else frozenset()
