-- Uploads that users add, change or remove, and documents that programs push. Grain: document of an owner. The sources `upload` and `push`
-- read them by partition (the day of the first upload; the pushed source), ordered by `change`, which follows the order of commits:
-- every write takes the same lock before it draws a number.

-- name: lock_changes(key)!
-- Purpose: make change numbers follow the order of commits. Held until the end of the transaction, which ends if its process does nothing
-- for 90 s: one that is paused, or whose machine is gone, would keep all others from uploading for ever.
SELECT pg_advisory_xact_lock(:key) WHERE set_config('idle_in_transaction_session_timeout', '90s', TRUE) IS NOT NULL;

-- name: put_upload(source, source_id, doc_id, owner, partition, content_hash, file_name, title, description, mime_type, size, permissions, tags, url, modified_at, origin, origin_via, origin_readers)^
-- Purpose: record an upload; the same content by the same owner updates its metadata, is restored if it was deleted,
-- and keeps its partition and created_at. A document with a name may get another content. Without a partition, it is the day; without `modified_at`, it is now.
-- The same bytes stay bound to the document that they were copied from. Returns whether the row is new, and the number of
-- this change; no row for an upload that an administrator has taken down, or whose content was taken down under another name, unless it was
-- there before. Indexes: primary key, uploads_taken_down.
INSERT INTO uploads (
    source, source_id, doc_id, owner, partition, content_hash, file_name, title, description, mime_type, size, permissions, tags,
    url, modified_at, stated_at, origin, origin_via, origin_readers, change
)
SELECT
    :source,
    :source_id,
    :doc_id,
    :owner,
    coalesce(:partition::text, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')),
    :content_hash,
    :file_name,
    :title,
    :description,
    :mime_type,
    :size,
    :permissions,
    :tags,
    :url,
    coalesce(:modified_at::timestamptz, now()),
    :modified_at,
    :origin,
    :origin_via,
    :origin_readers,
    nextval('uploads_change')
WHERE
    NOT EXISTS (
        SELECT 1 FROM uploads AS t
        WHERE t.owner = :owner AND t.content_hash = :content_hash AND t.taken_down_at IS NOT NULL
    )
    OR EXISTS (
        SELECT 1 FROM uploads AS u
        WHERE u.source = :source AND u.source_id = :source_id AND u.content_hash = :content_hash AND u.deleted_at IS NULL
    )
ON CONFLICT (source, source_id) DO UPDATE SET
    content_hash = excluded.content_hash,
    size = excluded.size,
    file_name = excluded.file_name,
    title = excluded.title,
    description = excluded.description,
    mime_type = excluded.mime_type,
    permissions = excluded.permissions,
    tags = excluded.tags,
    url = excluded.url,
    origin = CASE
        WHEN excluded.origin IS NULL AND uploads.content_hash = excluded.content_hash THEN uploads.origin
        ELSE excluded.origin
    END,
    origin_via = CASE
        WHEN excluded.origin IS NULL AND uploads.content_hash = excluded.content_hash THEN uploads.origin_via
        ELSE excluded.origin_via
    END,
    origin_readers = CASE
        WHEN excluded.origin IS NULL AND uploads.content_hash = excluded.content_hash THEN uploads.origin_readers
        ELSE excluded.origin_readers
    END,
    modified_at = excluded.modified_at,
    stated_at = CASE WHEN uploads.deleted_at IS NULL THEN coalesce(excluded.stated_at, uploads.stated_at) ELSE excluded.stated_at END,
    deleted_at = NULL,
    change = excluded.change
WHERE uploads.taken_down_at IS NULL
RETURNING (xmax = 0) AS created, change, origin, origin_via, origin_readers;

-- name: put_ingest_job(job_id, doc_id, owner, change)!
-- Purpose: record who requested an ingest, so that its progress can be reported. Grain: request to ingest.
INSERT INTO ingest_jobs (job_id, doc_id, owner, change) VALUES (:job_id, :doc_id, :owner, :change);

-- name: pushed(doc_id)^
-- Purpose: a pushed document as it was last pushed or changed, to compare a new push with. Index: unique doc_id. At most one row.
SELECT
    content_hash, file_name, title, description, mime_type, permissions, tags, url, modified_at, stated_at, deleted_at IS NOT NULL AS deleted
FROM uploads
WHERE doc_id = :doc_id AND taken_down_at IS NULL;

-- name: withdraw(source, partition)!
-- Purpose: mark everything in a partition as removed, by an operator. Index: uploads_partition_change. Returns how many rows changed.
UPDATE uploads SET
    deleted_at = now(),
    change = nextval('uploads_change')
WHERE source = :source AND partition = :partition AND deleted_at IS NULL;

-- name: delete_upload(doc_id, owner)^
-- Purpose: mark an upload as removed by its owner. Index: unique doc_id. Returns its source, or no row.
UPDATE uploads SET
    deleted_at = now(),
    change = nextval('uploads_change')
WHERE doc_id = :doc_id AND owner = :owner AND deleted_at IS NULL
RETURNING source;

-- name: take_down(doc_id)^
-- Purpose: remove a user's upload for good, by an administrator. Index: unique doc_id. Returns its source and owner, or no row.
UPDATE uploads SET
    deleted_at = now(),
    taken_down_at = now(),
    change = nextval('uploads_change')
WHERE doc_id = :doc_id AND deleted_at IS NULL
RETURNING source, owner;

-- name: removed_upload(doc_id, owner, curator)^
-- Purpose: recognise a deletion that is sent again: of the owner's, or of a curator's that took the upload down. Index: unique doc_id.
-- Returns its source, or no row.
SELECT source
FROM uploads
WHERE
    doc_id = :doc_id
    AND deleted_at IS NOT NULL
    AND CASE WHEN taken_down_at IS NULL THEN owner = :owner ELSE :curator END;

-- name: has_copies(origins)^
-- Purpose: check whether any of these documents has a copy. Index: uploads_origin.
SELECT EXISTS (
    SELECT 1 FROM uploads WHERE uploads.origin = ANY(:origins::uuid []) AND uploads.deleted_at IS NULL
) AS found;

-- name: follow_origins(origins)
-- Purpose: copy the current readers of originals (null: of all) to their copies; a deleted, hidden or erased original has no readers, and
-- one that the registry does not know otherwise changes nothing. Indexes: uploads_origin, primary keys of documents and receipts.
-- Returns the copies whose originals' readers have changed.
UPDATE uploads SET
    origin_readers = originals.readers,
    change = nextval('uploads_change')
FROM (
    SELECT
        o.origin,
        CASE WHEN d.doc_id IS NULL OR d.state IN ('deleted', 'lost_access') THEN '{}' ELSE d.permissions END AS readers
    FROM (
        SELECT DISTINCT u.origin
        FROM uploads AS u
        WHERE
            u.origin IS NOT NULL AND u.deleted_at IS NULL
            AND (:origins::uuid [] IS NULL OR u.origin = ANY(:origins::uuid []))
    ) AS o
    LEFT JOIN documents AS d ON o.origin = d.doc_id
    WHERE
        d.doc_id IS NOT NULL
        OR EXISTS (SELECT 1 FROM deletion_receipts AS r WHERE r.doc_id = o.origin AND r.erased_at IS NOT NULL)
) AS originals
WHERE
    uploads.origin = originals.origin
    AND uploads.deleted_at IS NULL
    AND uploads.origin_readers IS DISTINCT FROM originals.readers
RETURNING
    uploads.doc_id,
    uploads.owner,
    uploads.permissions,
    uploads.tags,
    uploads.origin,
    uploads.origin_via,
    uploads.origin_readers;

-- name: hide_document(doc_id)!
-- Purpose: make the document invisible at once and decrease its partition's count; the next sync deletes its points.
-- Index: primary keys.
WITH hidden AS (
    UPDATE documents SET
        state = 'deleted',
        reason = NULL,
        stage = NULL,
        permissions = '{}',
        next_permissions = NULL,
        deleted_at = now(),
        gone_at_source = now(),
        gone_is_exact = TRUE,
        changed_at = now()
    WHERE doc_id = :doc_id AND state <> 'deleted'
    RETURNING source, partition
)

UPDATE partitions AS p SET source_count = p.source_count - 1
FROM hidden AS h
WHERE p.source = h.source AND p.partition = h.partition;

-- name: own_upload(doc_id, owner)^
-- Purpose: what its owner may change of an upload, and what decides who may read it. Index: unique doc_id. At most one row.
SELECT source, title, description, file_name, owner, permissions, tags, origin, origin_via, origin_readers
FROM uploads
WHERE doc_id = :doc_id AND owner = :owner AND deleted_at IS NULL;

-- name: revise_upload(doc_id, title, description, tags, permissions)!
-- Purpose: change what people see of an upload and who may read it, its content unchanged. Index: unique doc_id. The time of a pushed
-- document is that of its source, by which the next push is compared.
UPDATE uploads SET
    title = :title,
    description = :description,
    tags = :tags,
    permissions = :permissions,
    modified_at = CASE WHEN source = 'push' THEN modified_at ELSE now() END,
    change = nextval('uploads_change')
WHERE doc_id = :doc_id;

-- name: narrow_document(doc_id, permissions)!
-- Purpose: narrow the document's permissions at once; wider ones come with the next sync. Clearing payload_hash makes
-- that sync write the document again even if the permissions are restored meanwhile. Index: primary key.
UPDATE documents SET
    payload_hash = '',
    permissions = ARRAY(
        SELECT held.principal FROM unnest(documents.permissions) AS held (principal)
        WHERE held.principal = ANY(:permissions::text [])
    ),
    next_permissions = CASE WHEN next_permissions IS NOT NULL THEN ARRAY(
        SELECT waiting.principal FROM unnest(documents.next_permissions) AS waiting (principal)
        WHERE waiting.principal = ANY(:permissions::text [])
    ) END
WHERE doc_id = :doc_id AND NOT (permissions <@ :permissions::text [] AND coalesce(next_permissions <@ :permissions::text [], TRUE));

-- name: partitions(source)
-- Purpose: the partitions of a source, each found from the one before. Grain: partition. Index: uploads_partition_change.
WITH RECURSIVE present AS (
    SELECT min(u.partition) AS partition FROM uploads AS u WHERE u.source = :source
    UNION ALL
    SELECT (SELECT min(u.partition) FROM uploads AS u WHERE u.source = :source AND u.partition > p.partition)
    FROM present AS p
    WHERE p.partition IS NOT NULL
)

SELECT partition FROM present WHERE partition IS NOT NULL ORDER BY partition;

-- name: changes(source, partition, after, most)
-- Purpose: a page of a partition's uploads in their current state, oldest change first. Index: uploads_partition_change.
SELECT
    source_id, doc_id, owner, partition, content_hash, file_name, title, description, mime_type, size, permissions, tags, url,
    created_at, modified_at, deleted_at, origin, origin_via, origin_readers, change
FROM uploads
WHERE source = :source AND partition = :partition AND change > :after
ORDER BY change
LIMIT :most;

-- name: changed_since(doc_ids, change)
-- Purpose: uploads that have changed since, who may read them, and whether they were removed. Index: unique doc_id.
SELECT doc_id, owner, permissions, tags, origin, origin_via, origin_readers, deleted_at IS NOT NULL AS deleted
FROM uploads
WHERE doc_id = ANY(:doc_ids::uuid []) AND change > :change;

-- name: change_after(source, partition, after)^
-- Purpose: what names the next change of a partition, without the columns that may be unreadable. Index: uploads_partition_change.
SELECT source_id, owner, file_name, change
FROM uploads
WHERE source = :source AND partition = :partition AND change > :after
ORDER BY change
LIMIT 1;

-- name: any_pending(source)^
-- Purpose: check whether a partition has a change newer than its saved cursor. Each partition is found from the one before: sensors ask
-- every few seconds, and there may be millions of uploads. Indexes: uploads_partition_change, partitions' key.
WITH RECURSIVE present AS (
    SELECT min(u.partition) AS partition FROM uploads AS u WHERE u.source = :source
    UNION ALL
    SELECT (SELECT min(u.partition) FROM uploads AS u WHERE u.source = :source AND u.partition > p.partition)
    FROM present AS p
    WHERE p.partition IS NOT NULL
)

SELECT EXISTS (
    SELECT 1
    FROM present AS p
    LEFT JOIN partitions AS s ON s.source = :source AND p.partition = s.partition
    WHERE
        (SELECT max(u.change) FROM uploads AS u WHERE u.source = :source AND u.partition = p.partition)
        > coalesce(s.cursor, '0')::bigint
) AS pending;

-- name: usage(owner, source_id)^
-- Purpose: one user's usage, for quotas, without the upload that is about to be written. Deleted uploads count until they are
-- erased, since their bytes are still stored. Pushed documents have no quota. `waiting` counts uploads that no sync has read yet, requests to ingest that such an
-- upload has replaced, and documents that are not indexed yet.
-- Indexes: uploads_owner, partitions' key, ingest_jobs_document, documents_waiting. Grain: one row.
WITH held AS MATERIALIZED (
    SELECT
        u.source_id = :source_id AS own,
        u.doc_id,
        u.size,
        u.deleted_at,
        u.change,
        coalesce(p.cursor, '0')::bigint AS synced
    FROM uploads AS u
    LEFT JOIN partitions AS p ON u.source = p.source AND u.partition = p.partition
    WHERE u.source = 'upload' AND u.owner = :owner AND u.taken_down_at IS NULL
)

SELECT
    count(*) FILTER (WHERE NOT h.own) AS files,
    coalesce(sum(h.size) FILTER (WHERE NOT h.own), 0)::bigint AS bytes,
    count(*) FILTER (WHERE NOT h.own AND h.deleted_at IS NULL AND h.change > h.synced)
    + (
        SELECT count(*)
        FROM held AS w
        INNER JOIN ingest_jobs AS j ON w.doc_id = j.doc_id AND j.change > w.synced
        WHERE w.change > w.synced AND (w.own OR j.change < w.change)
    )
    + (
        SELECT count(*)
        FROM documents AS d
        WHERE
            d.source = 'upload' AND d.owner = :owner AND d.state = 'live' AND d.source_id <> :source_id
            AND NOT EXISTS (SELECT FROM active_entries AS e WHERE e.doc_id = d.doc_id)
    ) AS waiting
FROM held AS h;
