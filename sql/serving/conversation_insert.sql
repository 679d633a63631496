-- Purpose: store a conversation that a reader's page reports, unless this statement, sent again, has stored it before. Parameters: the
-- columns; put_at; sources is json. Grain: conversation. Index: primary key.
INSERT INTO conversations (conversation_id, email, query, answer, sources, asked_at, created_at)
VALUES (%(conversation_id)s::uuid, %(email)s, %(query)s, %(answer)s, %(sources)s::jsonb, %(asked_at)s, %(put_at)s)
ON CONFLICT (conversation_id) DO NOTHING
