-- Documents whose entries may differ from what is wanted, and the counts that triggers keep. Grain: document, unless a statement says
-- otherwise.

-- name: marked
-- Documents of a source that may differ. Parameters: partitions or null (of all). Indexes: index_work_source, primary key of documents.
SELECT w.doc_id::text AS doc_id FROM index_work AS w
WHERE
    w.source = :source
    AND (
        :partitions::text [] IS NULL
        OR EXISTS (SELECT FROM documents AS d WHERE d.doc_id = w.doc_id AND d.partition = ANY(:partitions::text []))
    )
ORDER BY w.doc_id;

-- name: by_urgency
-- The same, the most urgent first: what a collection does not have in an earlier version (as `pending` says of `again`), small before large
-- (sizes within a factor of four count as equal), then new before old. Indexes: index_work_source, primary keys.
SELECT w.doc_id::text AS doc_id
FROM index_work AS w
INNER JOIN documents AS d ON d.doc_id = w.doc_id
LEFT JOIN index_entries AS e ON e.doc_id = w.doc_id AND e.collection = :collection
WHERE w.source = :source AND (:partitions::text [] IS NULL OR d.partition = ANY(:partitions::text []))
ORDER BY
    d.state <> 'live' OR coalesce(starts_with(e.content, d.content_key || '|'), FALSE) ASC,
    width_bucket(coalesce(d.size, 0), '{8192,32768,131072,524288,2097152,8388608,33554432,134217728}'::bigint []) ASC,
    d.changed_at DESC, w.doc_id ASC;

-- name: wanted
-- The pass over a source's documents for a collection. Grain: one row. Index: primary key.
SELECT wanted, after FROM index_passes WHERE source = :source AND collection = :collection;

-- name: begin_pass!
-- Begin a pass, or continue one that was interrupted. Parameters: collection, wanted, parser. Grain: (source, collection).
INSERT INTO index_passes AS p (source, collection, wanted, parser, after)
VALUES (:source, :collection, :wanted, :parser, '')
ON CONFLICT (source, collection) DO UPDATE SET
    wanted = excluded.wanted, parser = excluded.parser,
    after = CASE WHEN p.wanted = excluded.wanted THEN p.after ELSE '' END;

-- name: mark_page
-- Mark those of the next documents, in order of their source ids, that differ from a collection, and those that parsing rejected; save how
-- far the pass is. Returns how many were compared. Parameters: collection, signatures jsonb or null, version, most.
-- Index: unique (source, source_id), primary key of index_entries.
WITH page AS MATERIALIZED (
    SELECT d
    FROM documents AS d
    WHERE
        d.source = :source
        AND d.source_id > (SELECT p.after FROM index_passes AS p WHERE p.source = :source AND p.collection = :collection)
    ORDER BY d.source_id
    LIMIT :most
),

differing AS (
    INSERT INTO index_work (doc_id, source)
    SELECT (p.d).doc_id, (p.d).source
    FROM page AS p
    LEFT JOIN LATERAL (
        SELECT o AS entry FROM index_entries AS o
        WHERE o.doc_id = (p.d).doc_id AND o.collection = :collection
        ORDER BY o.doc_id
        LIMIT 1
    ) AS e ON TRUE
    WHERE
        index_differs(
            (p.d).state, (p.d).content_key, (p.d).profile, (p.d).payload_hash,
            keyword_names((p.d).title, (p.d).source_title, (p.d).path),
            (e.entry).doc_id IS NOT NULL, (e.entry).content, (e.entry).payload, (e.entry).keywords, :signatures::jsonb, :version
        )
        OR ((p.d).state IN ('skipped', 'failed') AND (p.d).stage IN ('parsed', 'embedded') AND (p.d).content_key IS NOT NULL)
    ORDER BY (p.d).doc_id
    ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked
),

saved AS (
    UPDATE index_passes AS p SET after = (SELECT max((g.d).source_id) FROM page AS g)
    WHERE p.source = :source AND p.collection = :collection
)

SELECT count(*) AS documents FROM page;

-- name: rewrite!
-- Mark the documents of partitions (null: all of the source), so that their entries are written again. Grain: document.
-- Index: documents_partition.
INSERT INTO index_work (doc_id, source, rewrite)
SELECT d.doc_id, d.source, TRUE
FROM documents AS d
WHERE
    d.source = :source AND d.state = 'live' AND d.content_key IS NOT NULL
    AND (:partitions::text [] IS NULL OR d.partition = ANY(:partitions))
ORDER BY d.doc_id
ON CONFLICT (doc_id) DO UPDATE SET marked = excluded.marked, rewrite = TRUE;

-- name: unmark!
-- Remove the marks of documents that do not differ in any of these collections and are not to be written again. Parameters: doc_ids, collections jsonb ([{name,
-- signatures, version}]), attempts (of parsing, after which it gives up), parsed bool (the sync has parsed what it had to: those that
-- parsing rejected are done with), deferred text[] (contents that it left to the next sync), partitions or null (the only ones that the
-- sync had to process). A document that is changing meanwhile keeps its mark, because its row has another number by then, and one whose mark
-- another run is removing is left to it.
DELETE FROM index_work AS w
USING (
    SELECT k.doc_id, k.marked
    FROM index_work AS k
    INNER JOIN documents AS d ON d.doc_id = k.doc_id
    WHERE
        k.doc_id = ANY(:doc_ids::uuid []) AND d.source = :source
        AND NOT EXISTS (
            SELECT
            FROM jsonb_to_recordset(:collections::jsonb) AS c (name text, signatures jsonb, version text)
            LEFT JOIN index_entries AS e ON e.doc_id = d.doc_id AND e.collection = c.name
            WHERE index_differs(
                d.state, d.content_key, d.profile, d.payload_hash, keyword_names(d.title, d.source_title, d.path),
                e.doc_id IS NOT NULL, e.content, e.payload, e.keywords, c.signatures, c.version
            )
        )
        AND NOT (k.rewrite AND d.state = 'live')
        AND NOT (d.state <> 'live' AND EXISTS (SELECT FROM index_entries AS o WHERE o.doc_id = d.doc_id))
        AND NOT (
            d.state IN ('skipped', 'failed') AND coalesce(d.stage IN ('parsed', 'embedded'), FALSE) AND d.content_key IS NOT NULL
            AND (
                NOT :parsed::boolean OR d.content_key = ANY(:deferred::text [])
                OR (:partitions::text [] IS NOT NULL AND d.partition <> ALL(:partitions::text []))
                OR (d.state = 'failed' AND d.attempts < :attempts)
            )
        )
    ORDER BY k.doc_id
    FOR UPDATE OF k SKIP LOCKED
) AS done
WHERE w.doc_id = done.doc_id AND w.marked = done.marked;

-- name: merge_documents!
-- Merge the counts of a source's documents that several statements have changed. Rows that another run is merging are left to it.
-- Grain: (partition, state).
WITH several AS (
    SELECT n.partition, n.state FROM document_counts AS n WHERE n.source = :source
    GROUP BY n.partition, n.state HAVING count(*) > 1 OR sum(n.documents) = 0
),

free AS MATERIALIZED (
    SELECT f.ctid AS row_id FROM document_counts AS f
    INNER JOIN several AS s ON s.partition = f.partition AND s.state = f.state
    WHERE f.source = :source
    FOR UPDATE OF f SKIP LOCKED
),

merged AS (
    DELETE FROM document_counts AS c USING free
    WHERE c.ctid = free.row_id
    RETURNING c.source, c.partition, c.state, c.documents
)

INSERT INTO document_counts (source, partition, state, documents)
SELECT m.source, m.partition, m.state, sum(m.documents) FROM merged AS m
GROUP BY m.source, m.partition, m.state
HAVING sum(m.documents) <> 0;

-- name: merge_passages!
-- The same of its passages. Grain: (collection, partition).
WITH several AS (
    SELECT n.collection, n.partition FROM passage_counts AS n WHERE n.source = :source
    GROUP BY n.collection, n.partition HAVING count(*) > 1 OR sum(n.passages) = 0
),

free AS MATERIALIZED (
    SELECT f.ctid AS row_id FROM passage_counts AS f
    INNER JOIN several AS s ON s.collection = f.collection AND s.partition = f.partition
    WHERE f.source = :source
    FOR UPDATE OF f SKIP LOCKED
),

merged AS (
    DELETE FROM passage_counts AS c USING free
    WHERE c.ctid = free.row_id
    RETURNING c.collection, c.source, c.partition, c.passages
)

INSERT INTO passage_counts (collection, source, partition, passages)
SELECT m.collection, m.source, m.partition, sum(m.passages) FROM merged AS m
GROUP BY m.collection, m.source, m.partition
HAVING sum(m.passages) <> 0;
