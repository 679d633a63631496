-- Answers as they were given, with what they were made from. Grain: answer. The log of questions, and what `GET /api/answers` shows.
CREATE TABLE answers (
    answer_id uuid PRIMARY KEY,
    query_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    email text NOT NULL,
    -- whose rights the sources were read by
    principals text [] NOT NULL,
    question text NOT NULL,
    -- the question as it was searched, when earlier messages made it differ
    standalone text,
    answer text NOT NULL,
    found boolean NOT NULL,
    mode text NOT NULL CHECK (mode IN ('model', 'extractive', 'none')),
    model text,
    -- [{index, chunk_id, doc_id, text_hash, cited}]: which passages, as they were then
    sources jsonb NOT NULL,
    -- [{text, start, end, citations, supported, reason}]
    sentences jsonb NOT NULL,
    unsupported integer NOT NULL DEFAULT 0,
    removed_citations integer NOT NULL DEFAULT 0,
    removed_links integer NOT NULL DEFAULT 0,
    warnings text [] NOT NULL DEFAULT '{}',
    cached boolean NOT NULL DEFAULT FALSE,
    -- false: the reader left while it was streamed
    completed boolean NOT NULL DEFAULT TRUE,
    latency_ms double precision NOT NULL,
    model_ms double precision NOT NULL
);
CREATE INDEX answers_email ON answers (email, created_at DESC);
CREATE INDEX answers_at ON answers (created_at);
CREATE INDEX answers_query ON answers (query_id);

-- What people said of answers and searches. Grain: feedback.
CREATE TABLE feedback (
    feedback_id uuid PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    email text NOT NULL,
    answer_id uuid,
    query_id uuid,
    verdict text NOT NULL CHECK (verdict IN ('good', 'bad')),
    comment text,
    -- what should have been found, as the person says; nothing is told of whether it exists
    expected_doc_id uuid,
    CHECK (answer_id IS NOT NULL OR query_id IS NOT NULL)
);
CREATE INDEX feedback_at ON feedback (created_at);

-- Answers of the language model, keyed by question, the caller's principals, model, prompt and the exact texts of the sources: a
-- changed or revoked source is another key. Grain: cache key.
CREATE TABLE answer_cache (
    cache_key text PRIMARY KEY,
    body bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX answer_cache_expires ON answer_cache (expires_at);
CREATE INDEX audit_log_query ON audit_log (query_id) WHERE query_id IS NOT NULL;
