-- Purpose: store an answer, unless this statement, sent again, has stored it before. Parameters: the columns; put_at; sources and
-- sentences are json. Grain: answer. Index: primary key.
INSERT INTO answers (
    answer_id, created_at, query_id, email, principals, question, standalone, answer, found, mode, model, sources, sentences, unsupported,
    removed_citations, removed_links, warnings, cached, completed, shareable, latency_ms, model_ms
)
VALUES (
    %(answer_id)s::uuid, %(put_at)s, %(query_id)s::uuid, %(email)s, %(principals)s, %(question)s, %(standalone)s, %(answer)s, %(found)s,
    %(mode)s, %(model)s, %(sources)s::jsonb, %(sentences)s::jsonb, %(unsupported)s, %(removed_citations)s, %(removed_links)s,
    %(warnings)s, %(cached)s, %(completed)s, %(shareable)s, %(latency_ms)s, %(model_ms)s
)
ON CONFLICT (answer_id) DO NOTHING
