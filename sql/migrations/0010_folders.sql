-- The folders of a document's path, outermost first, each with those who may know its name: a JSON array of {id, name, readers}.
-- Empty until the next sync of the source has read them: until then a path is shown without its folders.
ALTER TABLE documents ADD COLUMN folders jsonb NOT NULL DEFAULT '[]';

-- Those who may know every folder of a document, so that a search need not read most documents' folders one by one.
CREATE FUNCTION readers_of_all(folders jsonb) RETURNS text []
LANGUAGE sql IMMUTABLE
AS $$
SELECT coalesce(array_agg(c.reader ORDER BY c.reader), '{}')
FROM (
    SELECT r.reader
    FROM jsonb_array_elements($1) WITH ORDINALITY AS e (folder, place)
    CROSS JOIN jsonb_array_elements_text(e.folder -> 'readers') AS r (reader)
    GROUP BY r.reader
    HAVING count(DISTINCT e.place) = jsonb_array_length($1)
) AS c
$$;
ALTER TABLE documents ADD COLUMN place_readers text [] NOT NULL GENERATED ALWAYS AS (
    CASE WHEN jsonb_array_length(folders) = cardinality(collection_ids) THEN readers_of_all(folders) ELSE '{}'::text [] END
) STORED;

-- As in 0002, with the new column.
DROP VIEW checked_documents;
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

-- What a caller is shown of the place of a document: the folders that the caller holds a right on, and the file's name. `whole`: all of
-- it. Of `files`, the source id and the address are made of the path, so the document's own id and nothing stand in for them.
-- Slack and uploads have no folders of their own. A caller named in `place_readers` is shown all; for others the folders are read one by
-- one. Every read that shows a place goes through it; it is inlined. Grain: one row.
CREATE FUNCTION shown_place(
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
        $2 IN ('slack', 'upload')
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
