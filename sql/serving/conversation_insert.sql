-- Purpose: store a conversation that a reader's page reports. Parameters: the columns; put_at; sources is json. Grain: conversation.
INSERT INTO conversations (conversation_id, email, query, answer, sources, asked_at, created_at)
VALUES (%(conversation_id)s::uuid, %(email)s, %(query)s, %(answer)s, %(sources)s::jsonb, %(asked_at)s, %(put_at)s)
