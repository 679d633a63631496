-- Purpose: a source's current content according to the lake, for comparison with the registry after a sync.
-- Relation: changes (seq, op, doc_id, partition, content_hash): all rows of raw_<source>.
-- Grain: partition. A document counts in the partition of its newest change (highest seq), so a moved one counts once.
-- fingerprint: md5 over "doc_id:content_hash" of the documents ordered by doc_id, joined by commas. Postgres computes the
-- same by md5(string_agg(doc_id || ':' || coalesce(content_hash, ''), ',' ORDER BY doc_id::text COLLATE "C")).
WITH newest AS (
    SELECT
        doc_id,
        arg_max(op, seq) AS op,
        arg_max(partition, seq) AS partition,
        -- arg_max ignores nulls; a struct is never null
        arg_max(struct_pack(hash := content_hash), seq).hash AS content_hash
    FROM changes
    GROUP BY doc_id
)

SELECT
    partition,
    count(*) FILTER (WHERE op = 'upsert') AS documents,
    count(*) FILTER (WHERE op = 'delete') AS deleted,
    count(DISTINCT content_hash) FILTER (WHERE op = 'upsert') AS contents,
    md5(
        coalesce(
            string_agg(doc_id || ':' || coalesce(content_hash, ''), ',' ORDER BY doc_id)
            FILTER (WHERE op = 'upsert'), ''
        )
    ) AS fingerprint
FROM newest
GROUP BY partition
ORDER BY partition
