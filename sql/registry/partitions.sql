-- State kept per partition: cursor, memory, counts, pending work. Grain: partition, unless a statement says otherwise.

-- name: saved_cursor
-- Cursor of one partition, whether every document is fetched again until its listing ends, and the time. Grain: one row. Index: primary key.
SELECT p.cursor, coalesce(p.reread, FALSE) AS reread, t.now AS begun_at
FROM (SELECT now() AS now) AS t
LEFT JOIN partitions AS p ON p.source = :source AND p.partition = :partition;

-- name: begin_listing!
-- List partitions (null: all of the source) from the beginning; with `reread`, every document is fetched again until their listings end.
-- Grain: partition.
UPDATE partitions SET cursor = NULL, reread = reread OR :reread
WHERE source = :source AND (:partitions::text [] IS NULL OR partition = ANY(:partitions));

-- name: end_reread!
-- Fetch only what has changed from now on: the listing has ended. Grain: partition.
UPDATE partitions SET reread = FALSE WHERE source = :source AND partition = :partition AND reread;

-- name: save_cursor!
-- Save the cursor of a partition. Parameters: source, partition, cursor, title or null, whole (the source has reported everything),
-- by (change in the number of documents), count or null (their total number).
INSERT INTO partitions (source, partition, cursor, title, last_sync_at, source_count, counted_at)
VALUES (
    :source, :partition, :cursor, :title, now(), coalesce(:count::integer, CASE WHEN :whole THEN :by::integer END), CASE WHEN :whole THEN now() END
)
ON CONFLICT (source, partition) DO UPDATE SET
    cursor = excluded.cursor, last_sync_at = now(), lost_at = NULL,
    title = coalesce(excluded.title, partitions.title),
    source_count = coalesce(:count::integer, partitions.source_count + :by),
    counted_at = CASE WHEN :count::integer IS NOT NULL OR :by <> 0 THEN now() ELSE partitions.counted_at END;

-- name: save_check!
-- Save when the permissions of a partition were current. Parameters: source, partition, checked_at (when the source was asked).
UPDATE partitions SET acl_checked_at = :checked_at WHERE source = :source AND partition = :partition;

-- name: add_to_count!
-- Adjust the count of a partition when a document moves in or out through another partition.
UPDATE partitions SET source_count = source_count + :by, counted_at = now() WHERE source = :source AND partition = :partition;

-- name: uncount!
-- Clear the count, because the source did not report it.
UPDATE partitions SET source_count = NULL WHERE source = :source AND partition = :partition AND source_count IS NOT NULL;

-- name: reset_partition!
-- Reset a partition that can no longer be read, so that it is listed from the beginning when it becomes readable again.
UPDATE partitions SET cursor = NULL, source_count = NULL, acl_indexed_at = NULL, lost_at = now()
WHERE source = :source AND partition = :partition AND lost_at IS NULL;

-- name: drop_partition!
-- Forget a partition whose documents are removed.
DELETE FROM partitions WHERE source = :source AND partition = :partition;

-- name: drop_empty!
-- The same, if it has no documents but deleted ones. Index: documents_partition.
DELETE FROM partitions AS p
WHERE
    p.source = :source AND p.partition = :partition
    AND NOT EXISTS (
        SELECT FROM documents AS d WHERE d.source = p.source AND d.partition = p.partition AND d.state <> 'deleted'
    );

-- name: has_unheld
-- Whether documents of a partition are not held for approval. Index: documents_partition.
SELECT EXISTS (
    SELECT FROM documents AS d
    WHERE
        d.source = :source AND d.partition = :partition AND d.state <> 'deleted'
        AND NOT EXISTS (
            SELECT FROM held_deletions AS h
            WHERE h.source = d.source AND h.source_id = d.source_id AND h.partition = d.partition AND h.approved_at IS NULL
        )
) AS unheld;

-- name: shown_names
-- Partitions that are not gone, or have documents that are not deleted or hidden. Index: document_counts_partition.
SELECT partition FROM document_counts WHERE source = :source AND state IN ('live', 'skipped', 'failed')
GROUP BY partition
HAVING sum(documents) > 0
UNION
SELECT partition FROM partitions WHERE source = :source AND lost_at IS NULL
ORDER BY partition;

-- name: partition_names
-- Partitions with documents that are not deleted, and those that were synced. Index: document_counts_partition.
SELECT partition FROM document_counts WHERE source = :source AND state <> 'deleted'
GROUP BY partition
HAVING sum(documents) > 0
UNION
SELECT partition FROM partitions WHERE source = :source AND cursor IS NOT NULL
ORDER BY partition;

-- name: current_names
-- Partitions that were synced and are not gone. Grain: partition.
SELECT partition FROM partitions WHERE source = :source AND lost_at IS NULL ORDER BY partition;

-- name: never_listed
-- Those of these partitions that were never listed to the end, without those that a planned sync found that it cannot list, within a day.
-- Grain: partition. Index: primary key, sync_jobs_planned.
SELECT n.partition
FROM unnest(:partitions::text []) AS n (partition)
WHERE
    NOT EXISTS (
        SELECT FROM partitions AS p WHERE p.source = :source AND p.partition = n.partition AND p.acl_checked_at IS NOT NULL
    )
    AND NOT EXISTS (
        SELECT FROM sync_jobs AS j
        WHERE
            j.planned_by IS NOT NULL AND j.source = :source AND j.completed_at > now() - interval '1 day'
            AND n.partition = ANY(j.partitions)
            AND (
                j.status = 'success'
                OR EXISTS (SELECT FROM sync_errors AS e WHERE e.job_id = j.job_id AND e.source_id = n.partition AND e.stage = 'raw')
            )
    )
ORDER BY n.partition;

-- name: states
-- Partitions that were synced and are not gone, with their documents by state and their passages in the active collection, as triggers
-- count them; documents that are not as counted are marked. Grain: partition.
-- Index: document_counts_partition, passage_counts_partition, index_work_source.
WITH counted AS (
    SELECT
        c.partition, sum(c.documents) FILTER (WHERE c.state = 'live') AS live,
        sum(c.documents) FILTER (WHERE c.state = 'skipped') AS skipped,
        sum(c.documents) FILTER (WHERE c.state = 'failed') AS failed
    FROM document_counts AS c
    WHERE c.source = :source
    GROUP BY c.partition
),

passages AS (
    SELECT c.partition, sum(c.passages) AS passages
    FROM passage_counts AS c
    WHERE c.source = :source AND c.collection = (SELECT a.name FROM index_collections AS a WHERE a.active)
    GROUP BY c.partition
),

differing AS (
    SELECT
        d.partition,
        count(*) FILTER (WHERE d.state = 'live' AND coalesce(e.content, '') = '') AS unfinished,
        count(*) FILTER (WHERE d.state IN ('skipped', 'failed') AND e.content <> '') AS lingering,
        sum(e.chunk_count) FILTER (WHERE d.state NOT IN ('live', 'skipped', 'failed')) AS gone_passages
    FROM documents AS d
    LEFT JOIN active_entries AS e ON e.doc_id = d.doc_id
    WHERE d.doc_id = ANY(ARRAY(SELECT w.doc_id FROM index_work AS w WHERE w.source = :source))
    GROUP BY d.partition
)

SELECT
    p.partition, p.title, cast(coalesce(c.live, 0) AS bigint) AS live, cast(coalesce(c.skipped, 0) AS bigint) AS skipped,
    cast(coalesce(c.failed, 0) AS bigint) AS failed,
    cast(coalesce(c.live, 0) - coalesce(g.unfinished, 0) + coalesce(g.lingering, 0) AS bigint) AS indexed,
    cast(coalesce(n.passages, 0) - coalesce(g.gone_passages, 0) AS bigint) AS passages
FROM partitions AS p
LEFT JOIN counted AS c ON c.partition = p.partition
LEFT JOIN passages AS n ON n.partition = p.partition
LEFT JOIN differing AS g ON g.partition = p.partition
WHERE p.source = :source AND p.lost_at IS NULL
ORDER BY p.partition;

-- name: remembered
-- Grain: key. Index: primary key.
SELECT key, value FROM source_memory
WHERE source = :source AND partition = :partition AND key >= :low AND (:high::text IS NULL OR key < :high)
ORDER BY key;

-- name: remember!
-- Grain: key. Parameters: source, partition, entries jsonb (key -> value; null forgets).
WITH entries AS (SELECT key, value FROM jsonb_each(:entries::jsonb)),

forgotten AS (
    DELETE FROM source_memory AS m USING entries AS e
    WHERE m.source = :source AND m.partition = :partition AND m.key = e.key AND e.value = 'null'::jsonb
)

INSERT INTO source_memory (source, partition, key, value)
SELECT :source, :partition, e.key, e.value FROM entries AS e WHERE e.value <> 'null'::jsonb
ON CONFLICT (source, partition, key) DO UPDATE SET value = excluded.value;

-- name: with_value
-- Partitions that remember one of these texts under a key. Parameters: source, low and high (keys), texts text[]. Grain: partition.
SELECT DISTINCT partition FROM source_memory
WHERE source = :source AND key >= :low AND key < :high AND value #>> '{}' = ANY(:texts::text []);

-- name: forget!
-- Delete the memory of a partition. Grain: key.
DELETE FROM source_memory WHERE source = :source AND partition = :partition;

-- name: list_documents!
-- Record the documents on a page of a listing. Grain: document.
INSERT INTO listed_documents (source, partition, source_id)
SELECT :source, :partition, s.source_id FROM unnest(:source_ids::text []) AS s (source_id)
ON CONFLICT DO NOTHING;

-- name: listed_besides
-- Number of documents on the saved pages of a listing, without these.
SELECT count(*) AS documents FROM listed_documents
WHERE source = :source AND partition = :partition AND source_id <> ALL(:source_ids::text []);

-- name: end_listing!
-- Delete the recorded pages of a listing that is complete. Grain: document.
DELETE FROM listed_documents WHERE source = :source AND partition = :partition;

-- name: fetched
-- Contents already fetched for a batch that was interrupted. Grain: document.
SELECT source_id, version, content_hash, size FROM fetched_contents WHERE source = :source AND source_id = ANY(:source_ids);

-- name: note_fetched!
-- Grain: document.
INSERT INTO fetched_contents (source, source_id, version, content_hash, size)
VALUES (:source, :source_id, :version, :content_hash, :size)
ON CONFLICT (source, source_id, version) DO UPDATE SET content_hash = excluded.content_hash, size = excluded.size;

-- name: clear_fetched!
-- Grain: document.
DELETE FROM fetched_contents WHERE source = :source AND source_id = ANY(:source_ids);

-- name: partition_size
-- Documents of a partition that may be deleted. Index: documents_partition.
SELECT count(*) AS documents FROM documents WHERE source = :source AND partition = :partition AND state IN ('live', 'skipped', 'failed');

-- name: held
-- Deletions that wait for approval. Grain: document.
SELECT source_id FROM held_deletions WHERE source = :source AND partition = :partition AND approved_at IS NULL;

-- name: hold!
-- Hold deletions for approval. Documents that are listed again are released, so they are no longer known by a key. Grain: document.
WITH forgotten AS (
    DELETE FROM listing_keys AS k USING documents AS d
    WHERE k.doc_id = d.doc_id AND d.source = :source AND d.source_id = ANY(:source_ids)
)

INSERT INTO held_deletions (source, partition, source_id, source_time)
SELECT :source, :partition, s.source_id, (:times::jsonb ->> s.source_id)::timestamptz
FROM unnest(:source_ids::text []) AS s (source_id)
ON CONFLICT (source, source_id) DO NOTHING;

-- name: release!
-- Release documents that exist again or were deleted. Grain: document.
DELETE FROM held_deletions WHERE source = :source AND source_id = ANY(:source_ids);

-- name: reconsider!
-- Drop the pending deletions of a partition that returns to the settings or can be read again: its listing decides anew.
DELETE FROM held_deletions AS h USING partitions AS p
WHERE
    h.source = :source AND h.partition = :partition AND h.approved_at IS NULL
    AND p.source = h.source AND p.partition = h.partition AND p.lost_at IS NOT NULL;

-- name: approved
-- Approved deletions. Grain: document.
SELECT partition, source_id, source_time FROM held_deletions WHERE source = :source AND approved_at IS NOT NULL ORDER BY partition, source_id;

-- name: source_state
-- Grain: source.
SELECT paused_at, paused_reason, credentials, tried_at FROM source_states WHERE source = :source;

-- name: save_attempt!
-- Record that a sync begins with these credentials. Grain: source.
INSERT INTO source_states (source, credentials, tried_at) VALUES (:source, :credentials, now())
ON CONFLICT (source) DO UPDATE SET credentials = excluded.credentials, tried_at = now();

-- name: pause!
-- Parameters: source, reason or null (resume). Grain: source.
UPDATE source_states SET
    paused_at = CASE WHEN :reason::text IS NULL THEN NULL ELSE coalesce(paused_at, now()) END, paused_reason = :reason::text
WHERE source = :source AND paused_reason IS DISTINCT FROM :reason::text;

-- name: save_directory!
-- Replace a source's directory of people. Grain: (email, principal). Parameters: source, rows jsonb ([[email, principal], …]),
-- keep_groups: the groups were not read, so those of people who are still there stay, as old as they are.
WITH entries AS (
    SELECT DISTINCT e.value ->> 0 AS email, e.value ->> 1 AS principal FROM jsonb_array_elements(:rows::jsonb) AS e
),

gone AS (
    DELETE FROM directory AS d
    WHERE
        d.source = :source
        AND NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.email = d.email AND e.principal = d.principal)
        AND NOT (
            :keep_groups::boolean
            AND starts_with(d.principal, 'group:')
            AND EXISTS (SELECT 1 FROM entries AS e WHERE e.email = d.email)
        )
),

aged AS (
    UPDATE directory AS d SET read_at = s.directory_at
    FROM source_states AS s
    WHERE
        d.source = :source
        AND s.source = d.source
        AND d.read_at IS NULL
        AND :keep_groups::boolean
        AND starts_with(d.principal, 'group:')
        AND EXISTS (SELECT 1 FROM entries AS e WHERE e.email = d.email)
        AND NOT EXISTS (SELECT 1 FROM entries AS e WHERE e.email = d.email AND e.principal = d.principal)
),

dated AS (
    UPDATE source_states SET directory_at = now() WHERE source = :source
)

INSERT INTO directory (source, email, principal)
SELECT :source, e.email, e.principal FROM entries AS e
ON CONFLICT (source, email, principal) DO UPDATE SET read_at = NULL WHERE directory.read_at IS NOT NULL;
