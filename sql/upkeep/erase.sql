-- Erasure of deleted documents: what is due, what still refers to a content, and what quotes an erased document. Grain: document, unless
-- a statement says otherwise. The caller holds the locks of all sources, so that no sync changes anything meanwhile.

-- name: due
-- Deleted documents whose grace time is over and of which the index holds nothing. Parameters: cutoff, document (doc_id or source id) or null.
SELECT
    d.doc_id::text AS doc_id, d.source, d.source_id, d.title, d.path, d.url, d.description, d.content_hash, d.content_key, d.deleted_at,
    d.first_seen_at
FROM documents AS d
WHERE
    d.state = 'deleted' AND d.deleted_at <= :cutoff AND d.indexed_content IS NULL
    AND (:document::text IS NULL OR d.doc_id::text = lower(:document::text) OR d.source_id = :document::text)
    AND NOT EXISTS (SELECT 1 FROM chunks AS c WHERE c.doc_id = d.doc_id)
    AND NOT EXISTS (SELECT 1 FROM index_entries AS e WHERE e.doc_id = d.doc_id)
ORDER BY d.doc_id;

-- name: named
-- Documents by doc_id or source id, whatever their state. Parameters: document. Index: primary key or unique (source, source_id).
SELECT doc_id::text AS doc_id, source, source_id, title, state FROM documents WHERE doc_id::text = lower(:document) OR source_id = :document;

-- name: contents_in_use
-- Contents that something other than these documents refers to. Parameters: doc_ids, cutoff. Grain: content.
SELECT content_hash, content_key FROM documents WHERE content_hash IS NOT NULL AND NOT doc_id = ANY(:doc_ids::uuid [])
UNION
SELECT content_hash, NULL FROM uploads
WHERE NOT doc_id = ANY(:doc_ids::uuid []) AND (deleted_at IS NULL OR deleted_at > :cutoff)
UNION
SELECT content_hash, NULL FROM fetched_contents;

-- name: uploads_using
-- Of these contents, those that an upload refers to which is not deleted. The caller holds the uploads' lock. Parameters: content_hashes.
SELECT DISTINCT content_hash FROM uploads WHERE content_hash = ANY(:content_hashes::text []) AND deleted_at IS NULL;

-- name: lock_uploads!
-- No upload is recorded until the transaction ends. Parameters: key.
SELECT pg_advisory_xact_lock(:key);

-- name: distinctive
-- Of these words, those that no indexed passage holds. Grain: word. Parameters: words. Index: chunks_tsv.
SELECT w.word
FROM unnest(:words::text []) AS w (word)
WHERE
    numnode(plainto_tsquery('english', w.word)) > 0
    AND NOT EXISTS (SELECT 1 FROM chunks AS c WHERE c.tsv @@ plainto_tsquery('english', w.word));

-- name: redact_answers!
-- Answers made from these documents, or with one of these words, keep who asked and when, and nothing else. Grain: answer.
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
-- Searches that found these documents, or asked for one of these words, keep who, when and which, without the query. Grain: event.
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
-- Conversations of other pages that name these documents or hold one of these words. Grain: conversation.
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
-- Comments with one of these words. Grain: feedback. Parameters: words, since. Index: feedback_at.
UPDATE feedback SET comment = '[erased]'
WHERE
    created_at >= :since AND comment IS NOT NULL
    AND EXISTS (SELECT 1 FROM regexp_split_to_table(lower(comment), '\W+') AS t (word) WHERE t.word = ANY(:words::text []));

-- name: drop_questions!
-- Questions of the question set about these documents alone, or with one of these words. Grain: question. Parameters: doc_ids text[], words.
DELETE FROM questions
WHERE
    doc_ids <@ :doc_ids::uuid []
    OR EXISTS (SELECT 1 FROM regexp_split_to_table(lower(question), '\W+') AS t (word) WHERE t.word = ANY(:words::text []));

-- name: drop_answer_cache!
-- Its entries do not say what they were made from. Grain: cache entry.
DELETE FROM answer_cache;

-- name: drop_search_cache!
-- Grain: cache entry.
DELETE FROM search_cache;

-- name: drop_sync_errors!
-- What went wrong with these documents. Parameters: source_ids, sources (the same length). Grain: error.
DELETE FROM sync_errors AS e
USING sync_jobs AS j, unnest(:sources::text [], :source_ids::text []) AS d (source, source_id)
WHERE j.job_id = e.job_id AND j.source = d.source AND e.source_id = d.source_id;

-- name: drop_uploads!
-- Parameters: doc_ids, cutoff, document or null. Also uploads that were taken back before any sync saw them. Grain: upload.
DELETE FROM uploads AS u
WHERE
    u.doc_id = ANY(:doc_ids::uuid [])
    OR (
        :document::text IS NULL AND u.deleted_at <= :cutoff AND NOT EXISTS (SELECT 1 FROM documents AS d WHERE d.doc_id = u.doc_id)
    );

-- name: drop_ingest_jobs!
-- Parameters: doc_ids. Grain: request.
DELETE FROM ingest_jobs WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: drop_documents!
-- The registry forgets these documents; their receipts stay, without the source's name of the document. Parameters: doc_ids.
WITH receipts AS (
    UPDATE deletion_receipts SET source_id = NULL WHERE doc_id = ANY(:doc_ids::uuid [])
)

DELETE FROM documents WHERE doc_id = ANY(:doc_ids::uuid []) AND state = 'deleted';

-- name: note_erased!
-- Receipts of these documents say what was erased and looked at. Parameters: doc_ids, stores jsonb. Grain: (document, deletion).
UPDATE deletion_receipts SET erased_at = coalesce(erased_at, now()), stores = stores || :stores::jsonb
WHERE doc_id = ANY(:doc_ids::uuid []);

-- name: files_due^
-- Whether a receipt waits for files that only a rewrite clears. Parameters: stores text[]. Grain: one row.
SELECT EXISTS (
    SELECT 1
    FROM deletion_receipts AS r CROSS JOIN unnest(:stores::text []) AS s (store)
    WHERE r.erased_at IS NOT NULL AND r.stores -> s.store ->> 'checked_at' IS NULL
) AS due;

-- name: note_files!
-- Receipts that waited for files say that they were rewritten. Parameters: stores jsonb. Grain: (document, deletion).
UPDATE deletion_receipts AS r SET
    stores = r.stores || (
        SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}')
        FROM jsonb_each(:stores::jsonb) AS s (key, value)
        WHERE r.stores -> s.key ->> 'checked_at' IS NULL
    )
WHERE r.erased_at IS NOT NULL;

-- name: table_bytes
-- Size of each table with its indexes. Parameters: names. Grain: table.
SELECT n.name, pg_total_relation_size(to_regclass(n.name)) AS bytes FROM unnest(:names::text []) AS n (name);
