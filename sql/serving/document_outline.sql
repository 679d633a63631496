-- Purpose: where the sections of a document that the caller may read begin. Parameters: doc_id, most, principals, fresh_since.
-- Grain: place at which the headings differ from those of the place before. Index: chunks (doc_id, collection, chunk_index).
WITH starts AS (
    SELECT
        c.chunk_index,
        (p.place ->> 'start_char')::integer AS start_char,
        p.place -> 'section_path' AS section_path
    FROM active_chunks AS c
    INNER JOIN checked_documents AS d ON c.doc_id = d.doc_id
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE
            WHEN c.places <> '[]' THEN c.places
            ELSE jsonb_build_array(jsonb_build_object('start_char', c.start_char, 'section_path', c.section_path))
        END
    ) AS p (place)
    WHERE
        c.doc_id = %(doc_id)s::uuid
        AND d.state = 'live'
        AND d.permissions && %(principals)s::text [] AND NOT d.departed && %(principals)s::text []
        AND d.acl_checked_at >= %(fresh_since)s
),

compared AS (
    SELECT
        s.start_char,
        s.section_path,
        lag(s.section_path) OVER (ORDER BY s.chunk_index, s.start_char) AS path_before
    FROM starts AS s
)

SELECT
    m.start_char,
    ARRAY(SELECT jsonb_array_elements_text(m.section_path)) AS section_path
FROM compared AS m
WHERE m.section_path IS DISTINCT FROM m.path_before
ORDER BY m.start_char
LIMIT %(most)s
