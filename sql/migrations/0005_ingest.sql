-- Requests to ingest a document, each with the change that it made; how it goes follows from the ledger. Grain: request.
CREATE TABLE ingest_jobs (
    job_id uuid PRIMARY KEY,
    doc_id uuid NOT NULL,
    owner text NOT NULL,
    change bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Conversations as a reader's page reports them; the log of our own answers is `answers`. Grain: question with its answer.
CREATE TABLE conversations (
    conversation_id uuid PRIMARY KEY,
    email text NOT NULL,
    query text NOT NULL,
    answer text NOT NULL,
    sources jsonb NOT NULL,
    asked_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX conversations_at ON conversations (created_at);

-- A page's address leads to its document.
CREATE INDEX documents_url ON documents USING hash (url);
