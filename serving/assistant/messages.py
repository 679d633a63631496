"""Write answers as Slack's messages: Block Kit with Slack's markup. Pure.

What an answer says may come from documents that anybody wrote. So all of it is escaped, Slack is told to link and mention nothing by
itself (`verbatim`), and the only links are those of the citations.
Source: https://docs.slack.dev/messaging/formatting-message-text, https://docs.slack.dev/reference/block-kit/blocks
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import UNSET

from resources.sources.slack.questions import VERDICTS
from serving.answers.citations import CITATION
from serving.answers.schemas import AnswerResponse
from serving.answers.unanswered import number
from serving.search.citations.links import is_web
from serving.search.results import Result

SECTION_CHARACTERS = 3000
"""Source: https://docs.slack.dev/reference/block-kit/blocks/section-block"""
MESSAGE_CHARACTERS = 10_000
"""Characters of all text of a message. Slack names no limit and refuses blocks from some 12,000 to 13,200 characters on
(`msg_blocks_too_long`). Source: https://github.com/slackapi/bolt-js/issues/2509, https://github.com/slackapi/bolt-js/issues/2867"""
MOST_SOURCES = 15
TITLE_CHARACTERS, ADDRESS_CHARACTERS = 150, 2000

THINKING = "Looking for an answer …"
UNKNOWN = (
    "Sorry, I can't answer you here. I answer members of this workspace whose email Slack has confirmed. "
    "Please ask the people who run Concordance here."
)
HELP = "Ask me a question, and I look for the answer in the company's documents."
TOO_LONG = "Sorry, I can't look for that. Please ask in at most 1,000 characters."
FAILED = "Sorry, I could not answer: search is not available at the moment. Please ask again in a few minutes."
NOT_SHOWN = "Sorry, Slack could not show my answer here. Please ask on the search page of Concordance."
LATE = "Sorry, I could not answer in time. Please ask again."
RATED = "Thank you, your rating was saved."
NOT_RATED = "Sorry, your rating could not be saved: this answer is not stored any more."
NOTHING = "I found nothing about this in the documents that you may read."
NOTHING_HERE = (
    "I found nothing about this in the documents that everyone here may read. "
    "Ask me in a direct message: there I look in everything that you may read."
)
ONLY_DIRECT = "I answer this in a direct message only: ask me there."
EVERYONE = (
    "Answered from documents that everyone here may read. In a direct message, I look in everything that you may read."
)
_LABELS = {"good": "Useful", "bad": "Not useful"}

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_BULLET = re.compile(r"^(\s*)[-*]\s+", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
_SPACES = re.compile(r"\s+")


class SlackMessage(NamedTuple):
    """A message: its blocks, and the text of its notification, which never quotes a document."""

    text: str
    blocks: list[dict[str, Any]]


def mark(ts: str) -> str:
    """Return the `block_id` by which the reply to a question is recognised."""
    return f"concordance-{ts}"


def plain(text: str, ts: str) -> SlackMessage:
    """Return a message of ours to the question `ts`."""
    return SlackMessage(text, [_section(escape(text)) | {"block_id": mark(ts)}])


def limited(seconds: float, ts: str) -> SlackMessage:
    wait = max(1, round(seconds))
    unit = "second" if wait == 1 else "seconds"
    return plain(f"You have asked many questions in a short time. Please ask again in {wait} {unit}.", ts)


def answer(given: AnswerResponse, ts: str, *, direct: bool, buttons: bool) -> SlackMessage:
    """Return the reply to the question `ts`. `direct`: only the person who asked reads it. `buttons`: it can be rated."""
    lines = [*_notes(given), *([EVERYONE] if given.found and not direct else [])]
    notes = next(iter(parts("\n".join(escape(_SPACES.sub(" ", line)) for line in lines))), "")
    if not given.found:
        message = _nothing(given, ts, direct=direct)
    else:
        sections = [_section(part) for part in _answered(given, MESSAGE_CHARACTERS - len(notes))]
        sections[0]["block_id"] = mark(ts)
        message = SlackMessage("Here is an answer to your question.", sections)
    blocks = message.blocks + ([{"type": "context", "elements": [_mrkdwn(notes)]}] if notes else [])
    return message._replace(blocks=blocks + ([_buttons()] if buttons else []))


def _answered(given: AnswerResponse, room: int) -> list[str]:
    """Return the sections of an answer and its sources in `room` characters: with all links, those of the sources, or none."""
    shown = numbers(given.answer)
    cited = [one for one in given.sources if one.citation.index in given.cited]
    cited = sorted(cited, key=lambda one: shown.get(one.citation.index, len(shown) + 1))[:MOST_SOURCES]
    links = {one.citation.index: _address(one.citation.link) for one in cited}
    text, sources = "", ""
    for in_text, below in ((links, links), ({}, links), ({}, {})):
        text, sources = markup(given.answer, in_text), "\n".join(_source(one, below) for one in cited)
        if len(sources) <= room // 2 and len(text) + len(sources) <= room:
            break
    listed = parts(sources, room // 2)
    return parts(text, room - sum(map(len, listed))) + listed


def _nothing(given: AnswerResponse, ts: str, *, direct: bool) -> SlackMessage:
    """Return the reply to a question that is not answered. In a channel, no document is named: answers from some are not shared."""
    if given.unanswered is UNSET:
        return plain(NOTHING if direct else NOTHING_HERE, ts)
    if not direct:
        known = given.unanswered.documents
        counted = f" Everyone here may read {_documents(known)}." if known else ""
        return plain(f"{NOTHING_HERE}{counted}", ts)
    message = plain(f"I found no answer. {given.unanswered.message}", ts)
    closest = [(_title(one.title), _address(one.link)) for one in given.unanswered.closest]
    lines = [f"<{address}|{title}>" if address else title for title, address in closest]
    said = parts("Closest: " + ", ".join(lines), MESSAGE_CHARACTERS // 2) if lines else []
    return message._replace(blocks=message.blocks + [_section(part) for part in said])


def escape(text: str) -> str:
    """Escape Slack's control characters, so that nothing in a text is a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markup(text: str, links: Mapping[int, str]) -> str:
    """Return an answer in Slack's markup; the citations with an address in `links` open it."""
    text = escape(text)
    text = _HEADING.sub(r"*\1*", text)
    text = _BULLET.sub(r"\1• ", text)
    text = _BOLD.sub(r"*\1*", text)
    shown = numbers(text)
    return CITATION.sub(lambda found: _citation(found, links, shown), text)


def numbers(text: str) -> dict[int, int]:
    """Return the numbers that readers see, by those of the sources: they count from 1 in the order of the citations."""
    cited = dict.fromkeys(int(found[1]) for found in CITATION.finditer(text) if found[1])
    return {index: number for number, index in enumerate(cited, start=1)}


def parts(text: str, most: int = MESSAGE_CHARACTERS) -> list[str]:
    """Split markup into texts that fit a section, between lines or words, and never in a link or an escaped character.

    What goes beyond `most` characters is cut off.
    """
    found: list[str] = []
    text = text.strip()
    if len(text) > most:
        text = text[: _cut(text, most - 2)].rstrip() + " …"
    while len(text) > SECTION_CHARACTERS:
        cut = _cut(text, SECTION_CHARACTERS)
        found.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*found, text] if text else found


def _cut(text: str, most: int) -> int:
    """Return where to cut, at most after `most` characters. Outside of links, `<` and `>` are escaped."""
    opened = text.rfind("<", 0, most)
    limit = opened if opened > text.rfind(">", 0, most) else most
    for separator in ("\n", " "):
        cut = text.rfind(separator, limit // 2, limit)
        if cut > 0 and text.rfind("<", 0, cut) <= text.rfind(">", 0, cut):
            return cut
    escaped = text.rfind("&", max(0, limit - 4), limit)
    return limit if escaped < 0 or ";" in text[escaped:limit] else escaped


def _citation(found: re.Match[str], links: Mapping[int, str], shown: Mapping[int, int]) -> str:
    if not found[1]:
        return found[0]  # code
    address, mark = links.get(int(found[1])), f"[{shown[int(found[1])]}]"
    return f"<{address}|{mark}>" if address else mark


def _address(link: str) -> str:
    """Return a link as it can stand in Slack's markup; empty for what is no web address, or too long for a section."""
    address = quote(link, safe="%/:?#[]@!$&'()*+,;=~").replace("&", "&amp;")
    return address if is_web(link) and len(address) <= ADDRESS_CHARACTERS else ""


def _title(text: str) -> str:
    text = _SPACES.sub(" ", text).strip()
    text = text if len(text) <= TITLE_CHARACTERS else f"{text[:TITLE_CHARACTERS].rstrip()}…"
    return escape(text.replace("|", "¦"))


def _source(cited: Result, links: Mapping[int, str]) -> str:
    title, address = _title(cited.citation.text), links.get(cited.citation.index)
    return f"<{address}|{title}>" if address else title


def _notes(given: AnswerResponse) -> list[str]:
    notes = [one.message for one in given.warnings]
    unsupported = [one.text for one in given.sentences if not one.supported and one.reason != "language"]
    if unsupported:
        notes.append(f"Not supported by these sources, so check it: {' … '.join(unsupported)}")
    if given.held_back:
        notes.append(f"Left out: {_documents(given.held_back)} whose permissions were checked too long ago.")
    return notes


def _documents(count: int) -> str:
    return f"{number(count)} {'document' if count == 1 else 'documents'}"


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _buttons() -> dict[str, Any]:
    buttons = [
        {"type": "button", "action_id": action, "text": {"type": "plain_text", "text": _LABELS[verdict]}}
        for action, verdict in VERDICTS.items()
    ]
    return {"type": "actions", "block_id": "concordance-rating", "elements": buttons}
