"""Searches, uploads, asks and reads a problem with a client that openapi-python-client generated, and prints what it got.

It runs in the generator's environment: `client.py URL TOKEN`, with the generated package `concordance_client` on the path.
"""

import sys
from io import BytesIO

from concordance_client import AuthenticatedClient
from concordance_client.api.answers import ask
from concordance_client.api.documents import get_document, list_documents, upload
from concordance_client.api.search import search
from concordance_client.models import (
    AskRequest,
    NewTags,
    Problem,
    SearchMode,
    SearchRequest,
    UploadBody,
    UploadMetadata,
)
from concordance_client.types import File

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)

found = search.sync_detailed(
    client=client, body=SearchRequest(query="When is tea served?", top_k=1, mode=SearchMode.HYBRID)
)
print("search:", found.status_code.value, found.parsed.results[0].title, "-", found.parsed.results[0].citation.text)

file = File(BytesIO(b"# Soup\n\nSoup is served on Mondays."), "soup.md", "text/markdown")
metadata = UploadMetadata(title="Soup", tags=NewTags.from_dict({"topic": "kitchen"}))
uploaded = upload.sync_detailed(client=client, body=UploadBody(file=file, metadata=metadata))
print("upload:", uploaded.status_code.value, uploaded.parsed.status, "-", uploaded.parsed.message)

answer = ask.sync_detailed(client=client, body=AskRequest(query="When is tea served?"))
print("ask:", answer.status_code.value, answer.parsed.answer)

listed = list_documents.sync_detailed(client=client, title="tea", limit=1)
print("list:", listed.status_code.value, listed.parsed.total, listed.parsed.documents[0].title)

wrong = get_document.sync_detailed(doc_id="00000000-0000-4000-8000-000000000000", client=client)
assert isinstance(wrong.parsed, Problem)
print("problem:", wrong.status_code.value, wrong.parsed.type_, "-", wrong.parsed.title)
