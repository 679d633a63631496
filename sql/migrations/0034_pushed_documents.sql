-- Documents that programs push are uploads of the source `push`: their partition is the name of a source that the program chose.
-- url: the document's address at its source. The change order is now that of a partition of a source.
ALTER TABLE uploads RENAME COLUMN day TO partition;
ALTER TABLE uploads
ADD COLUMN source text NOT NULL DEFAULT 'upload',
ADD COLUMN url text,
DROP CONSTRAINT uploads_pkey,
ADD PRIMARY KEY (source, source_id);
ALTER TABLE uploads ALTER COLUMN source DROP DEFAULT;
DROP INDEX uploads_day_change;
CREATE INDEX uploads_partition_change ON uploads (source, partition, change);

-- Documents with when their permissions were last checked: of uploads and pushed documents now, since their permissions are our own; of one
-- whose deletion waits, when it was first reported. `departed`: people who have left the partition since its last sync.
CREATE OR REPLACE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source IN ('upload', 'push') THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at,
    ARRAY(SELECT g.email FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition) AS departed
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE NOT EXISTS (SELECT 1 FROM hidden_documents AS e WHERE e.doc_id = d.doc_id);

-- As before; pushed documents have no folders either.
CREATE OR REPLACE FUNCTION shown_place(
    doc_id uuid, source text, source_id text, path text, url text, collection_ids text [], folders jsonb,
    place_readers text [], principals text []
)
RETURNS TABLE (
    shown_path text, shown_source_id text, shown_url text, shown_collection text, shown_collections text [], whole boolean
)
LANGUAGE sql STABLE
AS $$
SELECT
    CASE
        WHEN f.whole THEN $4
        WHEN starts_with($4, f.prefix) THEN concat_ws('/', f.names, substr($4, length(f.prefix) + 1))
        ELSE concat_ws('/', f.names, substring($4 FROM '[^/]*$'))
    END,
    CASE WHEN f.whole OR $2 <> 'files' THEN $3 ELSE $1::text END,
    CASE WHEN f.whole OR $2 <> 'files' THEN $5 END,
    CASE WHEN f.whole OR $6 [1] = ANY(f.ids) THEN $6 [1] END,
    CASE WHEN f.whole THEN $6 ELSE coalesce(f.ids, '{}') END,
    f.whole
FROM (
    SELECT
        $2 IN ('slack', 'upload', 'push')
        OR $8 && $9
        OR (count(*) = cardinality($6) AND coalesce(bool_and(k.known), TRUE)) AS whole,
        string_agg(nullif(k.folder ->> 'name', ''), '/' ORDER BY k.place) FILTER (WHERE k.known) AS names,
        string_agg(nullif(k.folder ->> 'name', ''), '/' ORDER BY k.place) || '/' AS prefix,
        array_agg(k.folder ->> 'id') FILTER (WHERE k.known) AS ids
    FROM (
        SELECT
            e.folder,
            e.place,
            (e.folder -> 'readers') ?| $9 AS known
        FROM jsonb_array_elements(CASE WHEN $8 && $9 THEN '[]'::jsonb ELSE $7 END) WITH ORDINALITY AS e (folder, place)
    ) AS k
) AS f
$$;
