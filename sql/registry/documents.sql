-- Ledger of documents. Grain of every statement: document, unless it says otherwise. Rows are passed as one JSON array.
-- Statements that change several documents lock them in the order of their ids, so that two of them never wait for each other.

-- name: known
-- Registry rows of some documents of a source. Parameters: source_ids, attempts (to read a document's bytes, one in each sync, after which
-- they are made after pauses that double from an hour to a day). A negative number of attempts is one of failures that may pass. Index:
-- unique (source, source_id).
SELECT
    doc_id::text AS doc_id, source_id, partition, mime_type, version, content_hash, content_key, payload_hash,
    state, stage, reason, attempts, collection_ids, permissions,
    coalesce(
        state = 'failed' AND stage = 'raw'
        AND (
            abs(attempts) < :attempts
            OR changed_at < now() - least(interval '1 day', interval '1 hour' * 2 ^ least(abs(attempts) - :attempts, 5))
        ),
        FALSE
    ) AS due
FROM documents
WHERE source = :source AND source_id = ANY(:source_ids);

-- name: unread
-- Documents of a partition whose bytes could not be read and are due to be read again, as in `known`: those that failed, and those that are
-- shown with their former content. Index: documents_unread.
SELECT
    doc_id::text AS doc_id, source_id, partition, collection_ids, source_title, path, mime_type, url, owner, author, description,
    size, created_at, modified_at, tags, profile, locator, version, content_hash, content_key, payload_hash, state, stage, reason,
    attempts, permissions, TRUE AS due
FROM documents
WHERE
    source = :source AND partition = :partition AND stage = 'raw' AND state IN ('live', 'failed')
    AND (
        abs(attempts) < :attempts
        OR changed_at < now() - least(interval '1 day', interval '1 hour' * 2 ^ least(abs(attempts) - :attempts, 5))
    )
ORDER BY source_id;

-- name: save_documents!
-- Write the desired state of documents. The earliest created_at is kept. While the index has other content of a document, only its former
-- readers may read that: others wait in next_permissions.
INSERT INTO documents AS d (
    doc_id, source, source_id, partition, collection_ids, folders, source_title, path, mime_type, url, owner, author, description, size,
    created_at, modified_at, permissions, next_permissions, tags, profile, locator, version, content_hash, content_key, payload_hash,
    state, reason, stage, attempts
)
SELECT
    r.doc_id, :source, r.source_id, r.partition, r.collection_ids, r.folders, r.title, r.path, r.mime_type, r.url, r.owner, r.author,
    r.description, r.size, r.created_at, r.modified_at, r.permissions,
    CASE WHEN EXISTS (
        SELECT FROM active_entries AS a
        WHERE a.doc_id = r.doc_id AND NOT coalesce(starts_with(a.content, r.content_key || '|'), FALSE)
    ) THEN r.permissions END,
    r.tags, r.profile, r.locator, r.version,
    r.content_hash, r.content_key, r.payload_hash, r.state, r.reason, r.stage, r.attempts
FROM jsonb_to_recordset(:rows::jsonb) AS r (
    doc_id uuid, source_id text, partition text, collection_ids text [], folders jsonb, title text, path text, mime_type text, url text,
    owner text, author text, description text, size bigint, created_at timestamptz, modified_at timestamptz,
    permissions text [], tags jsonb, profile text, locator text, version text, content_hash text, content_key text,
    payload_hash text, state text, reason text, stage text, attempts integer
)
-- an upload that its owner removed while it was being read stays deleted
WHERE NOT EXISTS (SELECT 1 FROM uploads AS u WHERE u.doc_id = r.doc_id AND u.deleted_at IS NOT NULL)
ON CONFLICT (doc_id) DO UPDATE SET
    partition = excluded.partition, collection_ids = excluded.collection_ids, folders = excluded.folders, source_title = excluded.source_title,
    path = excluded.path, mime_type = excluded.mime_type, url = excluded.url, owner = excluded.owner,
    author = excluded.author, description = excluded.description, size = excluded.size,
    created_at = least(d.created_at, excluded.created_at), modified_at = excluded.modified_at,
    permissions = CASE WHEN excluded.next_permissions <@ d.permissions IS FALSE THEN ARRAY(
        SELECT p.principal FROM unnest(d.permissions) AS p (principal) WHERE p.principal = ANY(excluded.permissions)
    ) ELSE excluded.permissions END,
    next_permissions = CASE WHEN excluded.next_permissions <@ d.permissions IS FALSE THEN excluded.next_permissions END,
    payload_hash = CASE WHEN excluded.next_permissions <@ d.permissions IS FALSE THEN '' ELSE excluded.payload_hash END,
    tags = excluded.tags, profile = excluded.profile, locator = excluded.locator,
    version = excluded.version, content_hash = excluded.content_hash, content_key = excluded.content_key, state = excluded.state,
    reason = excluded.reason, stage = excluded.stage,
    attempts = excluded.attempts, changed_at = now(), deleted_at = NULL, gone_at_source = NULL, gone_is_exact = FALSE;

-- name: unlisted
-- Documents of a partition that are not on the saved pages of its listing. Index: documents_counted.
SELECT d.source_id
FROM documents AS d
WHERE
    d.source = :source AND d.partition = :partition AND d.state <> 'deleted'
    AND NOT EXISTS (
        SELECT 1 FROM listed_documents AS l
        WHERE l.source = d.source AND l.partition = d.partition AND l.source_id = d.source_id
    );

-- name: listing_keys
-- Keys of a partition's documents, eight bytes each in ascending order, how many have each in four, and the number of its documents with
-- a key or without. Grain: one row. Index: listing_keys_partition, documents_counted.
SELECT
    coalesce(string_agg(int8send(k.key), ''::bytea ORDER BY k.key), ''::bytea) AS keys,
    coalesce(string_agg(int4send(k.count), ''::bytea ORDER BY k.key), ''::bytea) AS counts,
    (
        SELECT count(*) FROM documents AS d WHERE d.source = :source AND d.partition = :partition AND d.state <> 'deleted'
    ) AS documents
FROM (
    SELECT
        key,
        count(*)::int AS count
    FROM listing_keys
    WHERE source = :source AND partition = :partition
    GROUP BY key
) AS k;

-- name: keep_keys!
-- Keep the keys of documents that are as they were listed. Parameters: partition, source_ids, keys in their order.
INSERT INTO listing_keys AS l (doc_id, source, partition, key)
SELECT d.doc_id, d.source, d.partition, k.key
FROM unnest(:source_ids::text [], :keys::bigint []) AS k (source_id, key)
INNER JOIN documents AS d ON d.source = :source AND d.source_id = k.source_id
WHERE d.partition = :partition
ON CONFLICT (doc_id) DO UPDATE SET key = excluded.key WHERE l.key <> excluded.key;

-- name: unlisted_besides
-- Documents of a partition without a key, or with one of these. Index: documents_counted.
SELECT d.source_id
FROM documents AS d
LEFT JOIN listing_keys AS k ON k.doc_id = d.doc_id
WHERE
    d.source = :source AND d.partition = :partition AND d.state <> 'deleted'
    AND (k.key IS NULL OR k.key = ANY(:keys::bigint []));

-- name: below
-- Documents below any of these collections. Index: documents_collections.
SELECT source_id FROM documents WHERE source = :source AND collection_ids && :collections::text [] AND state <> 'deleted';

-- name: roots_of
-- The partition that holds most documents below each of these collections. Grain: collection. Index: documents_collections.
SELECT DISTINCT ON (c.collection)
    c.collection,
    d.partition
FROM unnest(:collections::text []) AS c (collection)
INNER JOIN documents AS d ON d.collection_ids @> ARRAY[c.collection]
WHERE d.source = :source AND d.state <> 'deleted'
GROUP BY c.collection, d.partition
ORDER BY c.collection ASC, count(*) DESC, d.partition ASC;

-- name: otherwise_permitted
-- Documents of a partition with other permissions than these, or with others that wait.
SELECT
    doc_id::text AS doc_id, source_id, partition, collection_ids, source_title, path, mime_type, url, owner, author, description,
    size, created_at, modified_at, tags, profile, locator, version, content_hash, content_key, payload_hash, state, stage, reason,
    attempts, permissions, FALSE AS due
FROM documents
WHERE
    source = :source AND partition = :partition AND state IN ('live', 'skipped', 'failed')
    AND (permissions <> :permissions::text [] OR next_permissions <> :permissions::text []) AND source_id <> ALL(:seen::text [])
ORDER BY source_id;

-- name: tombstone
-- Make documents invisible at once. Parameters: source, source_ids text[], times jsonb (source id -> time of the deletion, if the
-- source reports it; otherwise the time of the last sync is used). Returns those that were not deleted before.
WITH locked AS MATERIALIZED (
    SELECT o.doc_id FROM documents AS o
    WHERE o.source = :source AND o.source_id = ANY(:source_ids) AND o.state <> 'deleted'
    ORDER BY o.doc_id
    FOR NO KEY UPDATE
)

UPDATE documents AS d SET
    state = 'deleted', reason = NULL, stage = NULL, deleted_at = now(), changed_at = now(), permissions = '{}', next_permissions = NULL,
    gone_is_exact = (:times::jsonb ? d.source_id),
    gone_at_source = coalesce(
        (:times::jsonb ->> d.source_id)::timestamptz,
        (SELECT p.last_sync_at FROM partitions AS p WHERE p.source = d.source AND p.partition = d.partition)
    )
FROM locked AS l
WHERE d.doc_id = l.doc_id
RETURNING d.doc_id::text AS doc_id, d.partition, EXISTS (SELECT FROM index_entries AS e WHERE e.doc_id = d.doc_id) AS indexed;

-- name: widen!
-- Let those read documents who waited until the index has no other content of them. Their points get the permissions because the hash of
-- what these should say differs. Parameters: partitions or null. Grain: document. Index: documents_widening.
WITH locked AS MATERIALIZED (
    SELECT o.doc_id FROM documents AS o
    WHERE
        o.source = :source AND o.next_permissions IS NOT NULL AND (:partitions::text [] IS NULL OR o.partition = ANY(:partitions::text []))
        AND NOT EXISTS (
            SELECT FROM active_entries AS a
            WHERE a.doc_id = o.doc_id AND NOT coalesce(starts_with(a.content, o.content_key || '|'), FALSE)
        )
    ORDER BY o.doc_id
    FOR NO KEY UPDATE
)

UPDATE documents AS d SET permissions = d.next_permissions, next_permissions = NULL, payload_hash = 'widened'
FROM locked AS l
WHERE d.doc_id = l.doc_id;

-- name: readdress
-- Take documents from the readers with these addresses at once. Clearing the hash makes the next listing write them again. Parameters: source,
-- emails text[]. Returns ids and partitions. Grain: document. Index: documents_permissions, documents_widening.
WITH locked AS MATERIALIZED (
    SELECT o.doc_id FROM documents AS o
    WHERE
        o.source = :source AND o.state <> 'deleted'
        AND (o.permissions && :emails::text [] OR (o.next_permissions IS NOT NULL AND o.next_permissions && :emails::text []))
    ORDER BY o.doc_id
    FOR NO KEY UPDATE
)

UPDATE documents AS d SET
    payload_hash = '', changed_at = now(),
    permissions = ARRAY(SELECT p.principal FROM unnest(d.permissions) AS p (principal) WHERE p.principal <> ALL(:emails::text [])),
    next_permissions = CASE
        WHEN d.next_permissions IS NOT NULL
            THEN ARRAY(SELECT n.principal FROM unnest(d.next_permissions) AS n (principal) WHERE n.principal <> ALL(:emails::text []))
    END
FROM locked AS l
WHERE d.doc_id = l.doc_id
RETURNING d.doc_id::text AS doc_id, d.partition;

-- name: chosen
-- Documents by source id or id. Grain: document. Parameters: source, ids. Index: unique (source, source_id).
SELECT doc_id::text AS doc_id, source_id
FROM documents
WHERE source = :source AND state <> 'deleted' AND (source_id = ANY(:ids) OR doc_id::text = ANY(:ids))
ORDER BY source_id;

-- name: hide_partition
-- Hide the documents of a partition that can no longer be read. Returns those not hidden before.
WITH locked AS MATERIALIZED (
    SELECT o.doc_id FROM documents AS o
    WHERE o.source = :source AND o.partition = :partition AND o.state NOT IN ('deleted', 'lost_access')
    ORDER BY o.doc_id
    FOR NO KEY UPDATE
)

UPDATE documents AS d SET
    state = 'lost_access', reason = 'The source no longer lets us read it.', stage = NULL, changed_at = now()
FROM locked AS l
WHERE d.doc_id = l.doc_id
RETURNING d.doc_id::text AS doc_id, d.partition, EXISTS (SELECT FROM index_entries AS e WHERE e.doc_id = d.doc_id) AS indexed;

-- name: set_outcomes!
-- Record the results of parsing or embedding: live again, skipped or failed. Parameters: rows jsonb (doc_id, state, reason, stage, attempts).
WITH locked AS MATERIALIZED (
    SELECT r.doc_id, r.state, r.reason, r.stage, r.attempts
    FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, state text, reason text, stage text, attempts integer)
    INNER JOIN documents AS o ON o.doc_id = r.doc_id
    WHERE
        (o.state = 'live' OR (o.state IN ('skipped', 'failed') AND o.stage IN ('parsed', 'embedded')))
        AND (o.state, o.reason, o.attempts) IS DISTINCT FROM (r.state, r.reason, r.attempts)
    ORDER BY o.doc_id
    FOR NO KEY UPDATE OF o
)

UPDATE documents AS d SET
    state = l.state, reason = l.reason, stage = l.stage, attempts = l.attempts, changed_at = now()
FROM locked AS l
WHERE d.doc_id = l.doc_id;

-- name: pending
-- Documents whose entry in a collection is missing or out of date, or is to be written again (`index_work.rewrite`). again: it has an entry
-- of this content, or parsing rejected it. Parameters: source, partitions or null, doc_ids or null, collection, signatures jsonb (profile ->
-- signature) of it, everything bool (all documents with content), rejected bool (also those that parsing or embedding rejected: an unchanged parser
-- finds its earlier result in the lake, a newer one tries again), active jsonb or null (signatures of the active collection: leave out documents
-- that it holds as wanted and that this collection has never held), after (the source id before the first), most (rows; null: all).
SELECT
    d.doc_id::text AS doc_id, d.source_id, d.partition, d.content_hash, d.content_key, d.mime_type, d.source_title AS title,
    d.description, d.profile, d.owner, d.tags, d.state, d.stage, d.attempts, e.doc_id IS NOT NULL AS was_indexed,
    coalesce(d.size, 0) AS size, extract(EPOCH FROM d.changed_at)::double precision AS changed,
    d.state <> 'live' OR coalesce(starts_with(e.content, d.content_key || '|'), FALSE) AS again
FROM documents AS d
LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = :collection
LEFT JOIN index_work AS w
    ON
        w.doc_id = d.doc_id AND w.rewrite
        AND (SELECT c.active FROM index_collections AS c WHERE c.name = :collection)
WHERE
    d.source = :source AND d.content_key IS NOT NULL AND d.source_id > :after
    AND (:partitions::text [] IS NULL OR d.partition = ANY(:partitions))
    AND (:doc_ids::uuid [] IS NULL OR d.doc_id = ANY(:doc_ids))
    AND (
        (
            d.state = 'live'
            AND (
                :everything OR w.doc_id IS NOT NULL
                OR e.content IS DISTINCT FROM d.content_key || '|' || (:signatures::jsonb ->> d.profile)
            )
        )
        OR (:rejected AND d.state IN ('skipped', 'failed') AND d.stage IN ('parsed', 'embedded'))
    )
    AND (
        :active::jsonb IS NULL OR e.doc_id IS NOT NULL
        OR NOT EXISTS (
            SELECT FROM active_entries AS a
            WHERE a.doc_id = d.doc_id AND a.content = d.content_key || '|' || (:active::jsonb ->> d.profile)
        )
    )
ORDER BY d.source_id
LIMIT :most;

-- name: raise_version!
-- Invalidate the candidates cached so far that may be of the source. Grain: source. Index: primary key.
INSERT INTO source_versions AS v (source, version)
VALUES (:source, 1)
ON CONFLICT (source) DO UPDATE SET version = v.version + 1;
