-- What a partition is called, how many documents its source says it has, and since when it cannot be read.
ALTER TABLE partitions
    ADD COLUMN title text,
    ADD COLUMN source_count integer,
    ADD COLUMN counted_at timestamptz,
    ADD COLUMN lost_at timestamptz;

-- Calls to a source's interface by method, and how often one was tried again.
ALTER TABLE sync_jobs
    ADD COLUMN calls jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN retries integer NOT NULL DEFAULT 0,
    ADD COLUMN retries_failed integer NOT NULL DEFAULT 0;

CREATE INDEX documents_collections ON documents USING gin (collection_ids);

-- What a connector remembers beside its cursor: folders of a drive, threads of a channel. Grain: (source, partition, key).
CREATE TABLE source_memory (
    source text NOT NULL,
    partition text NOT NULL,
    key text COLLATE "C" NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (source, partition, key)
);

-- What the pages of a listing under way have shown, until it is complete. Grain: document.
CREATE TABLE listed_documents (
    source text NOT NULL,
    partition text NOT NULL,
    source_id text NOT NULL,
    PRIMARY KEY (source, partition, source_id)
);

-- Contents that a sync fetched whose batch is not complete: a killed sync does not fetch them again. Grain: (document, version).
CREATE TABLE fetched_contents (
    source text NOT NULL,
    source_id text NOT NULL,
    version text NOT NULL,
    content_hash text NOT NULL,
    size bigint NOT NULL,
    PRIMARY KEY (source, source_id, version)
);

-- Deletions that wait for a person because they are many. Grain: document.
CREATE TABLE held_deletions (
    source text NOT NULL,
    partition text NOT NULL,
    source_id text NOT NULL,
    source_time timestamptz,
    held_at timestamptz NOT NULL DEFAULT now(),
    approved_at timestamptz,
    approved_by text,
    PRIMARY KEY (source, source_id)
);

-- Whether a source's syncs are paused and why; credentials is a hash that tells when they were changed. Grain: source.
CREATE TABLE source_states (
    source text PRIMARY KEY,
    paused_at timestamptz,
    paused_reason text,
    credentials text NOT NULL DEFAULT '',
    tried_at timestamptz,
    directory_at timestamptz
);

-- What sources say of people beside the groups of their tokens. Grain: (source, email, principal).
CREATE TABLE directory (
    source text NOT NULL,
    email text NOT NULL,
    principal text NOT NULL,
    PRIMARY KEY (source, email, principal)
);
CREATE INDEX directory_email ON directory (email);

-- Tokens that people gave for a source, encrypted with ENCRYPTION_KEYS. Grain: provider.
CREATE TABLE credentials (
    provider text PRIMARY KEY,
    account text NOT NULL,
    secret bytea NOT NULL,
    scopes text [] NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    updated_by text NOT NULL
);

-- Every right to find a document that was given or taken, and when it took effect: a revocation at once, since each hit is
-- rechecked against this database; a grant when the index holds it. Grain: change of one principal on one document.
CREATE TABLE grant_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    source text NOT NULL,
    doc_id uuid NOT NULL,
    principal text NOT NULL,
    change text NOT NULL CHECK (change IN ('added', 'revoked')),
    effective_at timestamptz
);
CREATE INDEX grant_audit_at ON grant_audit (at);
CREATE INDEX grant_audit_pending ON grant_audit (doc_id) WHERE effective_at IS NULL;

-- Proof of deletion: when the source says it happened (else when the document was last seen there), and that caches are gone.
ALTER TABLE deletion_receipts
    ADD COLUMN source_time timestamptz,
    ADD COLUMN source_time_is_exact boolean NOT NULL DEFAULT FALSE,
    ADD COLUMN caches_gone_at timestamptz,
    ADD COLUMN verified_at timestamptz;
ALTER TABLE documents
    ADD COLUMN gone_at_source timestamptz,
    ADD COLUMN gone_is_exact boolean NOT NULL DEFAULT FALSE;

CREATE FUNCTION audit_first_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO grant_audit (source, doc_id, principal, change)
    SELECT f.source, f.doc_id, g.principal, 'added'
    FROM fresh AS f CROSS JOIN LATERAL unnest(f.permissions) AS g (principal)
    WHERE f.state = 'live';
    RETURN NULL;
END
$$;

CREATE FUNCTION audit_grants() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO grant_audit (source, doc_id, principal, change, effective_at)
    SELECT c.source, c.doc_id, g.principal, 'added', NULL::timestamptz
    FROM (
        SELECT f.source, f.doc_id, f.permissions AS now_held,
            CASE WHEN b.state = 'live' THEN b.permissions ELSE '{}' END AS held
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE f.state = 'live' AND (b.state <> 'live' OR f.permissions <> b.permissions)
    ) AS c CROSS JOIN LATERAL unnest(c.now_held) AS g (principal)
    WHERE g.principal <> ALL (c.held)
    UNION ALL
    SELECT c.source, c.doc_id, g.principal, 'revoked', now()
    FROM (
        SELECT f.source, f.doc_id, b.permissions AS held,
            CASE WHEN f.state = 'live' THEN f.permissions ELSE '{}' END AS now_held
        FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
        WHERE b.state = 'live' AND (f.state <> 'live' OR f.permissions <> b.permissions)
    ) AS c CROSS JOIN LATERAL unnest(c.held) AS g (principal)
    WHERE g.principal <> ALL (c.now_held);

    UPDATE grant_audit AS a SET effective_at = now()
    FROM fresh AS f INNER JOIN before AS b ON b.doc_id = f.doc_id
    WHERE
        a.doc_id = f.doc_id AND a.effective_at IS NULL AND a.principal = ANY (f.permissions)
        AND f.state = 'live' AND f.indexed_payload = f.payload_hash AND b.indexed_payload IS DISTINCT FROM f.indexed_payload;
    RETURN NULL;
END
$$;

CREATE TRIGGER documents_first_grants AFTER INSERT ON documents
REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION audit_first_grants();
CREATE TRIGGER documents_grants AFTER UPDATE ON documents
REFERENCING OLD TABLE AS before NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION audit_grants();

-- Documents with when their permissions were last checked: of uploads now, since their permissions are our own; of one whose
-- deletion waits for a person when it began to wait; null when that is not known. Every read for a person goes through it.
-- Grain: document.
CREATE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source = 'upload' THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id;

-- Sign-ins at a provider that were begun and not finished: each can be finished once, before it expires. Grain: sign-in.
CREATE TABLE sign_ins (
    sign_in_id uuid PRIMARY KEY,
    requested_by text NOT NULL,
    expires_at timestamptz NOT NULL
);
