"""Recognise that a language model says that the sources hold no answer, in whatever words. Pure.

Models are asked for one fixed reply, and small ones vary or translate it. A sentence counts only if it is about the sources as a whole
and adds nothing: "The report does not name a cause" is a claim, and so is "The sources give no price, but the lease ends in May".
"""

import re

from serving.answers.prompt import NO_DATA

_WHAT = (
    r"(?:\w+ ){0,2}(?:data|information|info|answers?|mentions?|details?|results?|references?|evidence|passages?|"
    r"statements?|indications?)"
)
_SOURCES = (
    r"(?:(?:any|none) of )?(?:(?:the|these|those|your|our|my|any) |(?=sources?\b|provided\b))"
    r"(?:(?:provided|given|available|above|cited|supplied|retrieved|quoted|numbered|company['’]s|following|\w+ly) )*?"
    r"(?:sources?|documents|passages|excerpts|context|texts?|materials?|"
    r"(?:provided|given|available|supplied) information|information provided)"
    r"(?: (?:provided|given|above|available|supplied|i have|at hand|\[\d+\]))*"
)
_IN = rf"(?: (?:in|from|within) {_SOURCES})?"
_LEAD = r"(?:[^,]*, |(?:it (?:seems|appears)|i (?:see|find|found|am afraid)|note) that )?"
_SAY = (
    r"(?:contain|mention|say|state|specify|provide|include|answer|address|cover|give|tell|indicate|discuss|describe|have(?! to)|hold|list|"
    r"explain|offer|reveal|show|name|refer)"
)
_DONE = (
    r"(?:mentioned|stated|specified|provided|given|found|contained|available|included|answered|covered|listed|addressed|described|"
    r"discussed|explained|named|present)"
)
_NOT = r"(?: not|n['’]t)"
_ADVERB = r"(?: \w+ly)?"

_STATEMENTS = re.compile(
    rf"^(?:"
    rf"{_LEAD}{_SOURCES} (?:do|does|did){_NOT}{_ADVERB} {_SAY}\b"
    rf"|{_LEAD}{_SOURCES} (?:lacks?|(?:contains?|provides?|includes?|gives?|offers?|has|have|holds?) (?:no|nothing))\b"
    rf"|(?:none|neither|nothing) (?:of|in) {_SOURCES} \w+"
    rf"|.*\b(?:is|are|was|were|be){_NOT}{_ADVERB} {_DONE} (?:\w+ ){{0,2}}(?:in|by|from|within|anywhere in) {_SOURCES}$"
    rf"|.*\bthere (?:is|are|was|were) no {_WHAT}\b.*\b(?:in|from|within) {_SOURCES}$"
    rf"|(?:.* )?no {_WHAT} (?:was |were |is |are |has been |could be |can be )?{_DONE}{_IN}(?: (?:for|about|on) .*)?$"
    rf"|no {_WHAT}{_IN}$"
    rf")",
    re.IGNORECASE,
)
_TRANSLATED = """
keine daten gefunden | es wurden keine daten gefunden | aucune donnée trouvée | aucune donnée n'a été trouvée
no se encontraron datos | no se han encontrado datos | nessun dato trovato | nenhum dado encontrado | geen gegevens gevonden
ingen data fundet | ingen data funnet | inga data hittades | tietoja ei löytynyt | nem található adat | nu s-au găsit date
veri bulunamadı | δεν βρέθηκαν δεδομένα | данные не найдены | لم يتم العثور على بيانات | לא נמצאו נתונים | कोई डेटा नहीं मिला
ไม่พบข้อมูล | 未找到数据 | 没有找到数据 | 未找到相關資料 | データが見つかりません | データが見つかりませんでした | 데이터를 찾을 수 없습니다
"""
"""The reply in the languages that `spoken` recognises."""
_QUELLEN = r"(?:diese[nr]?|die|den) (?:\w+en )?(?:quellen?|dokumente?n?|unterlagen|passagen|auszüge?n?|texte?n?)"
_KEINE = r"(?:nichts?|kein\w*)\b"
_NENNEN = (
    r"(?:äußern|beantworten|behandeln|beschreiben|bieten|enthalten|erklären|erwähnen|geben|liefern|machen|nennen|sagen)"
)
_STEHT = r"(?:findet|finden|steht|stehen|gibt)"
_GENANNT = r"(?:enthalten|genannt|angegeben|gegeben|geliefert|beantwortet|erwähnt|gesagt|gemacht|gefunden|beschrieben|vorhanden)"
_SOURCES_FR = r"(?:les|ces|aucune? des) (?:sources?|documents?|passages?|extraits?|textes?)(?: \w+e?s)?"
_DISENT = (
    r"(?:abord|apport|cit|comport|compren|contien|décri|di[st]|donn|évoqu|fait|font|fourni|inclu|indiqu|mentionn|offr|parl|précis|répond|"
    r"révèl|spécifi|trait)\w*"
)
_DIT = r"(?:trouvée?|donnée?|fournie?|disponible|mentionnée?|indiquée?|présente?|contenue?|précisée?)"
_FUENTES = r"(?:las|los|estas|estos) (?:fuentes|documentos|pasajes|fragmentos|textos)(?: \w+[oa]s)?"
_STATEMENTS_ABROAD = re.compile(
    rf"^(?:"
    rf"(?:leider[ ,]+)?(?:{_NENNEN} {_QUELLEN}|{_QUELLEN} {_NENNEN}) (?:\w+ ){{0,3}}?{_KEINE}"
    rf"|(?:(?:.* )?{_STEHT} (?:\w+ ){{0,2}}?in {_QUELLEN}|(?:.* )?in {_QUELLEN} {_STEHT}) (?:\w+ ){{0,3}}?{_KEINE}"
    rf"|(?:.* )?in {_QUELLEN} (?:\w+ ){{0,3}}?{_KEINE} (?:.* )?{_GENANNT}$"
    rf"|(?:aus )?{_QUELLEN} (?:\w+ ){{0,4}}?{_KEINE} (?:.* )?(?:entnehmen|hervor)$"
    rf"|(?:.*\b(?:{_STEHT}|sind|wurden|habe|konnte) (?:\w+ ){{0,2}}?)?keine (?:daten|angaben?|informationen?|antwort) in {_QUELLEN}"
    rf"(?: (?:zu[mr]?|dazu|über|für)\b.*| {_GENANNT})?$"
    rf"|(?:malheureusement[ ,]+)?{_SOURCES_FR} n(?:e |['’]){_DISENT} (?:\w+ ){{0,2}}?(?:pas|rien|aucune?)\b"
    rf"|(?:malheureusement[ ,]+)?{_SOURCES_FR} ne permettent pas de (?:répondre|déterminer|savoir|trouver|dire)\b"
    rf"|(?:malheureusement[ ,]+)?aucune? (?:donnée|information|réponse|mention|précision)(?: (?:sur|à ce sujet|concernant|relative)\b.*?)?"
    rf"(?: n(?:e |['’])(?:figure|se trouve|(?:est|a été) {_DIT}))? (?:dans|par) {_SOURCES_FR}$"
    rf"|(?:\w+mente[ ,]+)?{_FUENTES} no (?:contienen|mencionan|indican|especifican|proporcionan|dan|responden|incluyen"
    rf"|ofrecen|dicen|tienen(?! que)|permiten (?:responder|determinar|saber|encontrar))\b"
    r"|(?:\w+mente[ ,]+)?no (?:hay|existen?|se (?:ha podido|pudo|puede) encontrar"
    r"|se (?:han? )?(?:enc[ou]|mencion|indic|especific|proporcion)\w+) "
    r"(?:ninguna? )?(?:(?:datos?|información)(?: (?:sobre|acerca|al respecto|para|disponibles?)\b.*)?|(?:respuesta|mención)\b.*)"
    rf" en {_FUENTES}$"
    rf")",
    re.IGNORECASE,
)
"""German, French and Spanish. They know fewer words than the English ones, so they count only for what no source supports."""
_UNABLE = re.compile(
    rf"\b(?:there (?:is|are|was|were) no {_WHAT}(?:$| (?:about|on|of|for|that|which|regarding|concerning|available|provided|given|in|to))\b"
    rf"|(?:i|we) (?:can ?not|can['’]t|could{_NOT}|am not able to|was not able to|was unable to|am unable to|did{_NOT}|do{_NOT}) "
    r"(?:find|answer|determine|see|locate|know|have|tell|say)\b"
    r"|(?:can ?not|could not) be (?:answered|determined|found)\b|(?:unable|not possible|impossible) to (?:answer|find|determine|say)\b)",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"\b(?:but|however|although|though|except|only|besides|instead|yet"
    r"|aber|sondern|jedoch|allerdings|außer|lediglich|mais|cependant|toutefois|sauf|seulement|pero|sino|embargo|aunque|salvo)\b",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(r"^[^:]{0,80}:\s+")
_LONGEST = 300
_MARKS = re.compile(r"\[\d{1,4}\]")
_NO_WORD = re.compile(r"\W+")


def _words(text: str) -> str:
    return _NO_WORD.sub(" ", text).strip().casefold()


_REPLIES = frozenset(map(_words, [NO_DATA, *re.split(r"[|\n]", _TRANSLATED.strip())]))


def says_no_data(sentence: str, *, cited: bool, supported: bool = False) -> bool:
    """Return True if a sentence of an answer says only that the sources do not answer. With `cited`, it must name the sources.

    `supported`: a source says so, which makes it a claim unless it is in English or one of the fixed replies.
    """
    plain = " ".join(_MARKS.sub(" ", sentence).strip(" \t\n\"'“”‘’.!*_#:()-").split())
    plain = _PREAMBLE.sub("", plain).strip("\"'“”*_ ")
    if len(plain) > _LONGEST or _ADDS.search(plain):
        return False
    if _words(plain) in _REPLIES or _STATEMENTS.match(plain) or (not supported and _STATEMENTS_ABROAD.match(plain)):
        return True
    return not cited and _UNABLE.search(plain) is not None
