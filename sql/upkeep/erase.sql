-- Erasure of deleted documents: which are due, what still refers to their content, and what quotes them. Grain: document, unless
-- a statement says otherwise. The caller holds the locks of all sources, so that no sync changes anything meanwhile.

-- name: due
-- Deleted documents past their grace period that the index no longer holds. Parameters: cutoff, document (doc_id or source id) or null.
SELECT
    d.doc_id::text AS doc_id, d.source, d.source_id, d.title, d.path, d.url, d.description, d.content_hash, d.content_key, d.deleted_at,
    d.first_seen_at
FROM documents AS d
WHERE
    d.state = 'deleted' AND d.deleted_at <= :cutoff
    AND (:document::text IS NULL OR d.doc_id::text = lower(:document::text) OR d.source_id = :document::text)
    AND NOT EXISTS (SELECT 1 FROM index_entries AS e WHERE e.doc_id = d.doc_id)
ORDER BY d.doc_id;

-- name: named
-- Documents by doc_id or source id, whatever their state. Parameters: document. Index: primary key or unique (source, source_id).
SELECT doc_id::text AS doc_id, source, source_id, title, state FROM documents WHERE doc_id::text = lower(:document) OR source_id = :document;

-- name: contents_in_use
-- Contents referenced by anything other than these documents. Parameters: doc_ids, cutoff. Grain: reference.
SELECT content_hash, content_key FROM documents WHERE content_hash IS NOT NULL AND NOT doc_id = ANY(:doc_ids::uuid [])
UNION ALL
SELECT content_hash, NULL FROM uploads
WHERE NOT doc_id = ANY(:doc_ids::uuid []) AND (deleted_at IS NULL OR deleted_at > :cutoff)
UNION ALL
SELECT content_hash, NULL FROM fetched_contents;

-- name: indexed_versions
-- What the indexes hold: contents with the versions of the parser and of chunking (`1|2`) that their passages are of; of an entry that is
-- incomplete, nothing. A scan of the table. Grain: (collection, document).
SELECT
    substring(content FROM '^(.*)\|[^|]*\|[^|]*\|[^|]*$') AS content_key,
    substring(content FROM '([^|]*\|[^|]*)\|[^|]*$') AS version
FROM index_entries
WHERE content LIKE '%|%|%|%';

-- name: uploads_using
-- Those of these contents that an undeleted upload refers to. The caller holds the uploads' lock. Parameters: content_hashes.
SELECT DISTINCT content_hash FROM uploads WHERE content_hash = ANY(:content_hashes::text []) AND deleted_at IS NULL;

-- name: lock_uploads!
-- Block the recording of uploads until the transaction ends. Parameters: key.
SELECT pg_advisory_xact_lock(:key);

-- name: forget_versions!
-- Forget which version the content of these documents is, before it is erased: one that returns is fetched, though it has not changed.
-- Parameters: doc_ids. Index: primary key.
UPDATE documents SET version = '' WHERE doc_id = ANY(:doc_ids::uuid []) AND state = 'deleted';

-- name: distinctive
-- Those of these words that no indexed passage contains. Grain: word. Parameters: words. Index: chunks_tsv.
SELECT w.word
FROM unnest(:words::text []) AS w (word)
WHERE
    numnode(plainto_tsquery('english', w.word)) > 0
    AND NOT EXISTS (SELECT 1 FROM active_chunks AS c WHERE c.tsv @@ plainto_tsquery('english', w.word));

-- name: redact_answers!
-- Reduce answers made from these documents, or containing one of these words, to who asked and when. Grain: answer.
-- Parameters: doc_ids text[], words, since. A scan of the table since then. Index: answers_at.
UPDATE answers SET
    question = '[erased]', standalone = NULL, answer = '', sources = '[]', sentences = '[]', erased_at = now()
WHERE
    erased_at IS NULL AND created_at >= :since
    AND (
        EXISTS (SELECT 1 FROM jsonb_array_elements(sources) AS s (source) WHERE s.source ->> 'doc_id' = ANY(:doc_ids::text []))
        OR EXISTS (
            SELECT 1
            FROM regexp_split_to_table(lower(concat_ws(' ', question, standalone, answer, sentences::text)), '\W+') AS t (word)
            WHERE t.word = ANY(:words::text [])
        )
    );

-- name: redact_audit!
-- Remove the query from searches that found these documents, or that contain one of these words; keep who, when and which. Grain: event.
-- Parameters: doc_ids text[], words, since. Index: audit_log_at.
UPDATE audit_log SET
    query = CASE WHEN query IS NOT NULL THEN '[erased]' END, detail = '{}'
WHERE
    at >= :since AND query IS DISTINCT FROM '[erased]'
    AND (
        doc_ids && :doc_ids::uuid []
        OR EXISTS (
            SELECT 1 FROM regexp_split_to_table(lower(concat_ws(' ', query, detail::text)), '\W+') AS t (word)
            WHERE t.word = ANY(:words::text [])
        )
    );

-- name: redact_conversations!
-- Conversations of other pages that name these documents or contain one of these words. Grain: conversation.
-- Parameters: names (ids and addresses), words, since. Index: conversations_at.
UPDATE conversations SET query = '[erased]', answer = '', sources = '[]', erased_at = now()
WHERE
    erased_at IS NULL AND created_at >= :since
    AND (
        EXISTS (SELECT 1 FROM unnest(:names::text []) AS n (name) WHERE position(n.name IN sources::text) > 0)
        OR EXISTS (
            SELECT 1 FROM regexp_split_to_table(lower(concat_ws(' ', query, answer, sources::text)), '\W+') AS t (word)
            WHERE t.word = ANY(:words::text [])
        )
    );

-- name: redact_feedback!
-- Comments that contain one of these words. Grain: feedback. Parameters: words, since. Index: feedback_at.
UPDATE feedback SET comment = '[erased]'
WHERE
    created_at >= :since AND comment IS NOT NULL
    AND EXISTS (SELECT 1 FROM regexp_split_to_table(lower(comment), '\W+') AS t (word) WHERE t.word = ANY(:words::text []));

-- name: drop_questions!
-- Questions of the question set only about these documents, or with one of these words. Grain: question. Parameters: doc_ids text[], words.
DELETE FROM questions
WHERE
    doc_ids <@ :doc_ids::uuid []
    OR EXISTS (SELECT 1 FROM regexp_split_to_table(lower(question), '\W+') AS t (word) WHERE t.word = ANY(:words::text []));

-- name: drop_answer_cache!
-- All entries, since they do not record what they were made from. Grain: cache entry.
DELETE FROM answer_cache;

-- name: drop_sync_errors!
-- Sync errors of these documents. Parameters: source_ids, sources (of equal length). Grain: error.
DELETE FROM sync_errors AS e
USING sync_jobs AS j, unnest(:sources::text [], :source_ids::text []) AS d (source, source_id)
WHERE j.job_id = e.job_id AND j.source = d.source AND e.source_id = d.source_id;

-- name: drop_uploads!
-- Parameters: doc_ids, cutoff, document or null. Includes uploads that were removed before any sync processed them, and not those that
-- were handed in again since. Grain: upload.
DELETE FROM uploads AS u
WHERE
    (u.doc_id = ANY(:doc_ids::uuid []) AND u.deleted_at IS NOT NULL)
    OR (
        :document::text IS NULL AND u.deleted_at <= :cutoff AND NOT EXISTS (SELECT 1 FROM documents AS d WHERE d.doc_id = u.doc_id)
    );

-- name: drop_ingest_jobs!
-- Requests for documents of which no upload is left. Parameters: doc_ids. Grain: request.
DELETE FROM ingest_jobs AS j
WHERE j.doc_id = ANY(:doc_ids::uuid []) AND NOT EXISTS (SELECT FROM uploads AS u WHERE u.doc_id = j.doc_id);

-- name: drop_documents!
-- Delete these documents from the registry; their receipts stay, without the document's source id. Parameters: doc_ids.
WITH receipts AS (
    UPDATE deletion_receipts SET source_id = NULL WHERE doc_id = ANY(:doc_ids::uuid [])
)

DELETE FROM documents WHERE doc_id = ANY(:doc_ids::uuid []) AND state = 'deleted';

-- name: note_erased!
-- Record in the receipts of these documents what was erased and checked. Parameters: doc_ids, stores jsonb. Grain: (document, deletion).
UPDATE deletion_receipts SET erased_at = coalesce(erased_at, now()), stores = stores || :stores::jsonb
WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: files_due
-- Those of these stores for whose rewritten files a receipt waits, unless they are left to the store's own server. Parameters: stores
-- text[]. Grain: store.
SELECT s.store
FROM unnest(:stores::text []) AS s (store)
WHERE EXISTS (
    SELECT 1 FROM deletion_receipts AS r
    WHERE
        r.erased_at IS NOT NULL
        AND r.stores -> s.store ->> 'checked_at' IS NULL
        AND r.stores -> s.store ->> 'external' IS DISTINCT FROM 'true'
);

-- name: note_files!
-- Record in receipts that waited for files that these were rewritten. Parameters: stores jsonb. Grain: (document, deletion).
UPDATE deletion_receipts AS r SET
    stores = r.stores || (
        SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}')
        FROM jsonb_each(:stores::jsonb) AS s (key, value)
        WHERE r.stores -> s.key ->> 'checked_at' IS NULL
    )
WHERE
    r.erased_at IS NOT NULL
    AND EXISTS (SELECT 1 FROM jsonb_object_keys(:stores::jsonb) AS s (store) WHERE r.stores -> s.store ->> 'checked_at' IS NULL);

-- name: table_bytes
-- Size of each table with its indexes. Parameters: names. Grain: table.
SELECT n.name, pg_total_relation_size(to_regclass(n.name)) AS bytes FROM unnest(:names::text []) AS n (name);
