-- Registry: one row a document, the ledger of states. Grain: document.
-- Desired state (source metadata, permissions, content) is written by the raw stage; indexed_* columns by the indexed stage.
CREATE TABLE documents (
    doc_id uuid PRIMARY KEY,
    source text NOT NULL,
    source_id text NOT NULL,
    partition text NOT NULL,
    collection_ids text [] NOT NULL DEFAULT '{}',
    source_title text NOT NULL,
    -- the title that the file gives itself; shown where the source has nothing better than the file's name
    document_title text,
    path text NOT NULL DEFAULT '',
    title text NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN document_title IS NOT NULL AND (source_title = path OR right(path, length(source_title) + 1) = '/' || source_title)
                THEN document_title
            ELSE source_title
        END
    ) STORED,
    mime_type text NOT NULL DEFAULT '',
    url text,
    owner text,
    author text,
    description text,
    size bigint,
    created_at timestamptz,
    modified_at timestamptz,
    permissions text [] NOT NULL DEFAULT '{}',
    tags jsonb NOT NULL DEFAULT '{}',
    profile text NOT NULL DEFAULT 'auto',
    locator text NOT NULL DEFAULT '',
    -- what the source said last: equal versions are not fetched again
    version text NOT NULL DEFAULT '',
    content_hash text,
    -- what parsing depends on: content, type and, for images, the words about it
    content_key text,
    -- hash of everything that a point's payload says of the document
    payload_hash text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('live', 'lost_access', 'deleted', 'skipped', 'failed')),
    reason text,
    stage text,
    attempts integer NOT NULL DEFAULT 0,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    -- what Qdrant is known to hold; null: nothing complete
    indexed_content text,
    indexed_payload text,
    indexed_at timestamptz,
    language text,
    page_count integer,
    chunk_count integer NOT NULL DEFAULT 0,
    UNIQUE (source, source_id)
);
CREATE INDEX documents_partition ON documents (source, partition, state);
CREATE INDEX documents_permissions ON documents USING gin (permissions);

-- Passages as they are indexed. Grain: chunk. chunk_id is also the point id in Qdrant.
CREATE TABLE chunks (
    chunk_id uuid PRIMARY KEY,
    doc_id uuid NOT NULL REFERENCES documents (doc_id) ON DELETE CASCADE,
    chunk_index integer NOT NULL,
    chunk_text text NOT NULL,
    text_hash text NOT NULL,
    start_char integer NOT NULL,
    end_char integer NOT NULL,
    tokens integer NOT NULL,
    section_path text [] NOT NULL DEFAULT '{}',
    anchor text,
    page_start integer,
    page_end integer,
    is_table boolean NOT NULL DEFAULT FALSE,
    sheet text,
    row_start integer,
    row_end integer,
    language text,
    -- where pages and sections begin within: [{start_char, page, anchor, section_path}]; null when there is one place only
    places jsonb,
    tsv tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('english', chunk_text)) STORED,
    UNIQUE (doc_id, chunk_index)
);
CREATE INDEX chunks_tsv ON chunks USING gin (tsv);

-- Cursor of each partition and when its permissions were last read in full. Grain: (source, partition).
CREATE TABLE partitions (
    source text NOT NULL,
    partition text NOT NULL,
    cursor text,
    listing_id uuid,
    acl_checked_at timestamptz,
    -- the acl_checked_at that the payloads in Qdrant carry, at the oldest
    acl_painted_at timestamptz,
    last_sync_at timestamptz,
    PRIMARY KEY (source, partition)
);

-- Uploads as people made them; the source `upload` reads this in order of change. Grain: (owner, content).
CREATE TABLE uploads (
    source_id text PRIMARY KEY,
    doc_id uuid NOT NULL UNIQUE,
    owner text NOT NULL,
    day text NOT NULL,
    content_hash text NOT NULL,
    file_name text NOT NULL,
    title text NOT NULL,
    description text,
    mime_type text NOT NULL,
    size bigint NOT NULL,
    permissions text [] NOT NULL,
    tags jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    modified_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    -- raised by every write, under a lock so that the order of numbers is the order of commits
    change bigint NOT NULL
);
CREATE SEQUENCE uploads_change;
CREATE INDEX uploads_day_change ON uploads (day, change);

-- One row a sync; at most one running a source. Grain: job.
CREATE TABLE sync_jobs (
    job_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    source text NOT NULL,
    partitions text [],
    full_sync boolean NOT NULL DEFAULT FALSE,
    status text NOT NULL CHECK (status IN ('running', 'success', 'failed')),
    stage text,
    run_id text,
    requested_by text NOT NULL DEFAULT 'schedule',
    started_at timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    heartbeat_at timestamptz,
    completed_at timestamptz,
    synced integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    deleted integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    embedded integer NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    cost_usd double precision NOT NULL DEFAULT 0,
    error_message text
);
CREATE UNIQUE INDEX sync_jobs_one_running ON sync_jobs (source) WHERE status = 'running';
CREATE INDEX sync_jobs_latest ON sync_jobs (source, started_at DESC);

-- What went wrong with which document in which sync. Grain: (job, document, stage).
CREATE TABLE sync_errors (
    job_id uuid NOT NULL REFERENCES sync_jobs (job_id) ON DELETE CASCADE,
    source_id text NOT NULL,
    stage text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL DEFAULT 'failed' CHECK (outcome IN ('failed', 'skipped')),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, source_id, stage)
);

-- Collections of the vector index and what was fixed when each was made. Grain: collection.
CREATE TABLE index_collections (
    name text PRIMARY KEY,
    model text NOT NULL,
    dimensions integer NOT NULL,
    chunking_version text NOT NULL,
    bm25_avg_len double precision NOT NULL,
    active boolean NOT NULL DEFAULT FALSE,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Counter that every change of the index raises; results cached under an older value are not used. One row.
CREATE TABLE index_version (
    one boolean PRIMARY KEY DEFAULT TRUE CHECK (one),
    version bigint NOT NULL DEFAULT 0
);
INSERT INTO index_version DEFAULT VALUES;

-- Tokens and cost of embedding. Grain: (month, model).
CREATE TABLE embedding_usage (
    month text NOT NULL,
    model text NOT NULL,
    texts bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    cost_usd double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (month, model)
);

-- Keys for programs; only a hash is kept. Grain: key.
CREATE TABLE api_keys (
    key_id text PRIMARY KEY,
    key_hash text NOT NULL,
    email text NOT NULL,
    groups text [] NOT NULL DEFAULT '{}',
    admin boolean NOT NULL DEFAULT FALSE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

-- Who searched what and which documents came back; who opened a document. Grain: event.
CREATE TABLE audit_log (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    email text NOT NULL,
    action text NOT NULL,
    query_id uuid,
    query text,
    doc_ids uuid [] NOT NULL DEFAULT '{}',
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_at ON audit_log (at);

-- Candidates of searches, keyed by query, filters and the caller's principals; every hit is rechecked when it is used.
CREATE UNLOGGED TABLE search_cache (
    cache_key text PRIMARY KEY,
    candidates bytea NOT NULL,
    index_version bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX search_cache_expires ON search_cache (expires_at);

-- Proof that a deleted document is gone. Grain: (document, deletion).
CREATE TABLE deletion_receipts (
    doc_id uuid NOT NULL,
    source text NOT NULL,
    source_id text NOT NULL,
    tombstone_at timestamptz NOT NULL,
    points_deleted integer NOT NULL DEFAULT 0,
    points_gone_at timestamptz,
    PRIMARY KEY (doc_id, tombstone_at)
);

-- Numbers of change rows in the lake: latest wins.
CREATE SEQUENCE lake_sequence;
