"""Example responses that share parts, from the sample company."""

from typing import Any

DOC_ID = "b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706"
CHUNK_ID = "efa9beb4-55dc-57a6-ac3a-ff911f42f5ea"
LINK = f"https://search.example/documents/{DOC_ID}?chunk=0#place"
MOMENT = "2026-11-22T00:16:33Z"

_QUERY_ID = "bf52aaec-19b9-4966-914a-f4fcdd086fea"
_QUOTE = "Employees may carry over five unused days of holiday until the end of March."
_ANSWER = f"“{_QUOTE}” [1]"

_SUMMARY: dict[str, Any] = {
    "doc_id": DOC_ID,
    "title": "Holidays",
    "source_type": "files",
    "source_id": "company/people/holidays.md",
    "collection_id": "company",
    "path": "people/holidays.md",
    "mime_type": "text/markdown",
    "owner": "people@larkmoor.example",
    "tags": {"source": "files", "tenant": "larkmoor", "dataset": "company", "topic": "holidays"},
    "created_at": "2026-02-01T09:00:00Z",
    "modified_at": "2026-11-10T09:00:00Z",
    "acl_checked_at": MOMENT,
}
_CITATION = {"index": 1, "text": "[1] Holidays (Files, Nov 10)", "link": LINK, "format": "inline"}
_RESULT = _SUMMARY | {
    "chunk_id": CHUNK_ID,
    "chunk_index": 0,
    "chunk_text": f"Holidays\n\n{_QUOTE}",
    "snippet": _QUOTE,
    "highlights": [{"start": 30, "end": 36}, {"start": 45, "end": 52}],
    "section_path": ["Holidays"],
    "page_start": None,
    "page_end": None,
    "relevance_score": 0.801766,
    "also_in": [],
    "citation": _CITATION,
}
_SENTENCE = {"text": _ANSWER, "start": 0, "end": len(_ANSWER), "citations": [1], "supported": True}

SEARCH = {
    "results": [_RESULT],
    "understood": [],
    "query_id": _QUERY_ID,
    "latency_ms": 6.82,
    "cached": False,
    "held_back": 0,
    "warnings": [],
    "next_cursor": None,
}
ANSWER = {
    "answer_id": "3f9d3c1e-8a55-4c7a-9d0e-5b1f0a2c4d6e",
    "query_id": _QUERY_ID,
    "answer": _ANSWER,
    "found": True,
    "mode": "extractive",
    "model": None,
    "standalone": None,
    "understood": [],
    "sources": [_RESULT],
    "cited": [1],
    "sentences": [_SENTENCE],
    "quotes": [{"sentence": 0, "source": 1, "start": 10, "end": 10 + len(_QUOTE), "page": None}],
    "removed_citations": 0,
    "removed_links": 0,
    "cached": False,
    "held_back": 0,
    "latency_ms": 21.4,
    "model_ms": 0.0,
    "warnings": [],
}
KEPT_ANSWER = {
    name: ANSWER[name]
    for name in (
        "answer_id",
        "query_id",
        "standalone",
        "answer",
        "found",
        "mode",
        "model",
        "sentences",
        "quotes",
        "removed_citations",
        "latency_ms",
    )
} | {
    "own": True,
    "asked_by": "ann@acme.com",
    "shared_at": None,
    "query": "How many unused holidays may I carry over?",
    "created_at": MOMENT,
    "completed": True,
    "changed": False,
    "revoked": False,
    "warnings": [],
    "sources": [
        {
            "index": 1,
            "chunk_index": 0,
            "status": "current",
            "cited": True,
            "doc_id": DOC_ID,
            "chunk_id": CHUNK_ID,
            "title": "Holidays",
            "link": LINK,
        }
    ],
}
_NOTES: list[dict[str, str]] = []
_LISTED = _SUMMARY | {
    "url": None,
    "author": "Helen Marsh",
    "indexed_at": MOMENT,
    "language": "en",
    "page_count": None,
    "notes": _NOTES,
    "chunk_count": 3,
}
DOCUMENTS = {"documents": [_LISTED], "total": 61, "next_cursor": "kteWjZIC"}
DOCUMENT = _LISTED | {
    "text": f"Holidays\n\n{_QUOTE}",
    "text_start": 0,
    "text_end": 10 + len(_QUOTE),
    "place": {
        "start": 10,
        "end": 10 + len(_QUOTE),
        "chunk_index": 0,
        "page_start": None,
        "page_end": None,
        "section_path": ["Holidays"],
    },
    "citation": _CITATION,
}
FORMATTED = {
    "citations": [
        {
            "index": 1,
            "text": f"[^1]: Holidays. Files, 10 Nov 2026. {LINK}",
            "link": LINK,
            "source_type": "files",
            "doc_id": DOC_ID,
        }
    ]
}
BOOK_ANSWER = {
    "answer": "According to [Holidays - Carrying over]: five days [1].",
    "sources": [{"file": "people/holidays.md", "section": "Carrying over", "link": LINK}],
    "answer_id": ANSWER["answer_id"],
    "unsupported": [],
    "warnings": [],
}
FILE = {
    "id": "1XyZ",
    "name": "Holidays",
    "path": "People/Holidays",
    "mimeType": "application/vnd.google-apps.document",
    "webViewLink": "https://docs.google.com/document/d/1XyZ/edit",
}
