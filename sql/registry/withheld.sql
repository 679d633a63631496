-- What searches without Postgres must know, as Postgres knows it: see `resources/stores/withholding.py`. Grain as each statement says.

-- name: lock
-- Lock these documents against changes by others, once nobody is changing them. Grain: document. Index: primary key.
SELECT doc_id::text AS doc_id FROM documents WHERE doc_id = ANY(:doc_ids::uuid []) ORDER BY doc_id FOR NO KEY UPDATE;

-- name: lock_free
-- Lock those of these documents that nobody is changing. Grain: document. Index: primary key.
SELECT doc_id::text AS doc_id
FROM documents WHERE doc_id = ANY(:doc_ids::uuid []) ORDER BY doc_id FOR NO KEY UPDATE SKIP LOCKED;

-- name: standing
-- Who may read these documents now, and whether points of them may say otherwise: an empty hash is that of any document that was narrowed.
-- Grain: document. Index: primary keys.
SELECT
    d.doc_id::text AS doc_id,
    d.source,
    CASE
        WHEN d.state <> 'live' OR EXISTS (SELECT FROM hidden_documents AS h WHERE h.doc_id = d.doc_id) THEN '{}'
        ELSE ARRAY(
            SELECT p.principal FROM unnest(d.permissions) AS p (principal)
            WHERE NOT EXISTS (
                SELECT FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition AND g.email = p.principal
            )
        )
    END AS readers,
    EXISTS (
        SELECT FROM index_entries AS e
        WHERE e.doc_id = d.doc_id AND (d.state <> 'live' OR d.payload_hash = '' OR e.payload IS DISTINCT FROM d.payload_hash)
    )
    OR EXISTS (SELECT FROM hidden_documents AS h WHERE h.doc_id = d.doc_id)
    OR EXISTS (
        SELECT FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition AND g.email = ANY(d.permissions)
    ) AS behind
FROM documents AS d
WHERE d.doc_id = ANY(:doc_ids::uuid [])
ORDER BY d.doc_id;

-- name: unknown
-- Those of these ids that are no document. Grain: id.
SELECT i.doc_id::text AS doc_id
FROM unnest(:doc_ids::uuid []) AS i (doc_id)
WHERE NOT EXISTS (SELECT FROM documents AS d WHERE d.doc_id = i.doc_id);

-- name: erased
-- Those of these ids whose documents were erased. Grain: id. Indexes: primary keys.
SELECT i.doc_id::text AS doc_id
FROM unnest(:doc_ids::uuid []) AS i (doc_id)
WHERE
    NOT EXISTS (SELECT FROM documents AS d WHERE d.doc_id = i.doc_id)
    AND EXISTS (SELECT FROM deletion_receipts AS r WHERE r.doc_id = i.doc_id AND r.erased_at IS NOT NULL);

-- name: narrowing
-- Indexed documents that lose readers when these rows are saved, and the readers that they keep. Parameters: source, rows jsonb
-- (doc_id, permissions, state). Locks them. Grain: document. Index: primary keys.
SELECT
    d.doc_id::text AS doc_id,
    d.source,
    CASE
        WHEN r.state = 'live' THEN ARRAY(SELECT p.principal FROM unnest(d.permissions) AS p (principal) WHERE p.principal = ANY(r.permissions))
        ELSE '{}'
    END AS readers,
    TRUE AS behind
FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, permissions text [], state text)
INNER JOIN documents AS d ON d.doc_id = r.doc_id
WHERE
    d.source = :source AND d.state = 'live' AND (r.state <> 'live' OR NOT d.permissions <@ r.permissions)
    AND EXISTS (SELECT FROM index_entries AS e WHERE e.doc_id = d.doc_id)
ORDER BY d.doc_id
FOR NO KEY UPDATE OF d;

-- name: behind
-- Documents whose points may say otherwise than the registry. Grain: document. Index: none; only for a collection that is new.
SELECT e.doc_id::text AS doc_id
FROM index_entries AS e INNER JOIN documents AS d ON d.doc_id = e.doc_id
WHERE d.state <> 'live' OR d.payload_hash = '' OR e.payload IS DISTINCT FROM d.payload_hash
UNION
SELECT h.doc_id::text AS doc_id FROM hidden_documents AS h
UNION
SELECT d.doc_id::text AS doc_id
FROM departures AS g INNER JOIN documents AS d ON d.source = g.source AND d.partition = g.partition AND g.email = ANY(d.permissions);

-- name: checks
-- When the permissions were checked that the index has of each partition. Grain: partition.
SELECT source, partition, acl_indexed_at AS checked_at
FROM partitions
WHERE acl_indexed_at IS NOT NULL AND lost_at IS NULL
ORDER BY source, partition;

-- name: lost
-- Partitions that can no longer be read. Grain: partition.
SELECT source, partition FROM partitions WHERE lost_at IS NOT NULL ORDER BY source, partition;

-- name: held
-- Documents whose deletion waits for approval, and since when. Parameters: source or null. Grain: document.
SELECT d.doc_id::text AS doc_id, d.source, h.held_at
FROM held_deletions AS h
INNER JOIN documents AS d ON d.source = h.source AND d.source_id = h.source_id
WHERE :source::text IS NULL OR h.source = :source::text;

-- name: inactive
-- Addresses that a source reports as inactive. Grain: person.
SELECT DISTINCT email FROM people WHERE NOT active ORDER BY email;

-- name: ended
-- Addresses that this transaction has made inactive. Grain: person.
SELECT DISTINCT email FROM people WHERE NOT active AND updated_at = now() ORDER BY email;

-- name: given
-- Addresses that were given to another account, and when that was seen. Parameters: now (only those that this transaction has seen).
-- Grain: address.
SELECT email, max(tokens_since) AS since
FROM people
WHERE tokens_since IS NOT NULL AND (NOT :now::boolean OR tokens_since = now())
GROUP BY email
ORDER BY email;

-- name: read
-- Sources of people and groups that were ever read. Grain: source.
SELECT source FROM source_states WHERE directory_at IS NOT NULL ORDER BY source;

-- name: reported
-- What sources report of these addresses now, locked. Grain: (source, person).
SELECT email, active FROM people WHERE email = ANY(:emails::text []) ORDER BY email, source FOR UPDATE;

-- name: revoked
-- The deny-list. Grain: token.
SELECT token_id, expires_at FROM revoked_tokens WHERE expires_at >= :now ORDER BY token_id;

-- name: note!
-- Note what the index has yet to be told to withhold. Parameters: kind, keys. Grain: entry.
INSERT INTO unwithheld (kind, key) SELECT :kind, k.key FROM unnest(:keys::text []) AS k (key)
ON CONFLICT (kind, key) DO UPDATE SET noted_at = now();

-- name: just_noted
-- Whether this transaction has noted something: `noted_at` is when it began.
SELECT EXISTS (SELECT FROM unwithheld WHERE noted_at = now()) AS noted;

-- name: noted
-- What the index has yet to be told to withhold. Grain: entry.
SELECT kind, key, noted_at FROM unwithheld ORDER BY kind, key;

-- name: distrust!
-- After a restore, nobody knows what the index holds: make all entries incomplete, and note that the index has yet to be told of their
-- documents. Grain: document.
WITH doubted AS (UPDATE index_entries SET content = '', payload = NULL RETURNING doc_id)

INSERT INTO unwithheld (kind, key)
SELECT DISTINCT 'document', d.doc_id::text FROM doubted AS d
ON CONFLICT (kind, key) DO UPDATE SET noted_at = now();

-- name: told!
-- Forget what the index was told, unless it was noted again meanwhile. Parameters: rows jsonb ([[kind, key, noted_at], …]). Grain: entry.
DELETE FROM unwithheld AS u USING jsonb_array_elements(:rows::jsonb) AS r
WHERE u.kind = r.value ->> 0 AND u.key = r.value ->> 1 AND u.noted_at = (r.value ->> 2)::timestamptz;
