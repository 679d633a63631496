"""Recognise that a language model says that the sources hold no answer, in whatever words. Pure.

Models are asked for one fixed reply, and small ones vary it. A sentence counts only if it is about the sources as a whole and adds
nothing: "The report does not name a cause" is a claim, and so is "The sources give no price, but the lease ends in May".
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
_UNABLE = re.compile(
    rf"\b(?:there (?:is|are|was|were) no {_WHAT}(?:$| (?:about|on|of|for|that|which|regarding|concerning|available|provided|given|in|to))\b"
    rf"|(?:i|we) (?:can ?not|can['’]t|could{_NOT}|am not able to|was not able to|was unable to|am unable to|did{_NOT}|do{_NOT}) "
    r"(?:find|answer|determine|see|locate|know|have|tell|say)\b"
    r"|(?:can ?not|could not) be (?:answered|determined|found)\b|(?:unable|not possible|impossible) to (?:answer|find|determine|say)\b)",
    re.IGNORECASE,
)
_ADDS = re.compile(r"\b(?:but|however|although|though|except|only|besides|instead|yet)\b", re.IGNORECASE)
_PREAMBLE = re.compile(r"^[^:]{0,80}:\s+")
_LONGEST = 300
_MARKS = re.compile(r"\[\d{1,4}\]")


def says_no_data(sentence: str, *, cited: bool) -> bool:
    """Return True if a sentence of an answer says only that the sources do not answer. With `cited`, it must name the sources."""
    plain = " ".join(_MARKS.sub(" ", sentence).strip(" \t\n\"'“”‘’.!*_#:()-").split())
    plain = _PREAMBLE.sub("", plain).strip("\"'“”*_ ")
    if len(plain) > _LONGEST or _ADDS.search(plain):
        return False
    if re.sub(r"\W+", " ", plain).strip().casefold() == NO_DATA.casefold() or _STATEMENTS.match(plain):
        return True
    return not cited and _UNABLE.search(plain) is not None
