"""The modules with routes, room by room."""

from serving.account import admin_pages, export, me_page, usage_page
from serving.agents import connected, mcp, oauth
from serving.answers import asking, history, not_useful, question_set
from serving.answers import pages as answer_pages
from serving.compatibility import book, neurodrive, outline
from serving.documents import ingest, listing, originals, push, push_batch, reading, revisions, upload_page, uploads
from serving.documents import page as document_page
from serving.http import audit_log
from serving.identity import (
    administration,
    me,
    own_keys,
    passkeys,
    session_routes,
    sign_in_links,
    sign_in_routes,
    suggestions,
)
from serving.identity.scim import routes as scim
from serving.search import citation_routes, health, page, saved, searches, why
from serving.sources import (
    check,
    consent,
    dagster,
    events,
    held_deletions,
    notifications,
    pages,
    places,
    states,
    stored_settings,
    sync,
)
from serving.web import docs, static
from serving.widget import asking as widget

ROOMS = (
    (audit_log,),
    (docs, static),
    (administration, me, own_keys, passkeys, scim, session_routes, sign_in_links, sign_in_routes, suggestions),
    (citation_routes, health, page, saved, searches, why),
    (asking, history, not_useful, answer_pages, question_set),
    (check, consent, dagster, events, held_deletions, notifications, pages, places, states, stored_settings, sync),
    (ingest, listing, originals, document_page, push, push_batch, reading, revisions, upload_page, uploads),
    (connected, mcp, oauth),
    (widget,),
    (book, neurodrive, outline),
    (admin_pages, export, me_page, usage_page),
)
