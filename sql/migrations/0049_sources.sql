-- What statements must know of a source: its connector's declaration, `Capabilities` in `resources/sources/spec.py`, recorded whenever an
-- installation starts and a sync begins. A source that is not recorded shows least. Grain: source.
-- private_folders: folders have readers of their own. named_by_path: source ids and addresses contain the path.
-- own_permissions: permissions are kept here, and are never too old. stored_size: the reported size is that of the stored bytes.
CREATE TABLE sources (
    source text PRIMARY KEY,
    private_folders boolean NOT NULL,
    named_by_path boolean NOT NULL,
    own_permissions boolean NOT NULL,
    stored_size boolean NOT NULL
);

-- As in 0045, for the sources that declare it. The subselect is hashed once for each statement.
CREATE OR REPLACE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source IN (SELECT s.source FROM sources AS s WHERE s.own_permissions) THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at,
    ARRAY(SELECT g.email FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition) AS departed
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE NOT EXISTS (SELECT 1 FROM hidden_documents AS e WHERE e.doc_id = d.doc_id);

-- As in 0034, for the sources that declare it.
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
    CASE WHEN f.whole OR f.addressed THEN $3 ELSE $1::text END,
    CASE WHEN f.whole OR f.addressed THEN $5 END,
    CASE WHEN f.whole OR $6 [1] = ANY(f.ids) THEN $6 [1] END,
    CASE WHEN f.whole THEN $6 ELSE coalesce(f.ids, '{}') END,
    f.whole
FROM (
    SELECT
        $2 IN (SELECT s.source FROM sources AS s WHERE NOT s.private_folders)
        OR $8 && $9
        OR (count(*) = cardinality($6) AND coalesce(bool_and(k.known), TRUE)) AS whole,
        $2 IN (SELECT s.source FROM sources AS s WHERE NOT s.named_by_path) AS addressed,
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
