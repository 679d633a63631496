-- Purpose: texts and passages of versions that no index needs: those of contents that have later ones, of which each index has its own.
-- Parameters: cutoff (the later ones are no newer), most (versions of contents). Grain: (table, content key, version, time).
-- A content that no index has, since the parser rejected it, needs the rows of that attempt.
-- Relations: readings (name: the table, content_key, version, rejected, written_at), indexed (content_key, version: of the passages).
WITH versions AS (
    SELECT name, content_key, version, arg_max(rejected, written_at) AS rejected, max(written_at) AS written_at
    FROM readings
    GROUP BY name, content_key, version
),

needed AS (
    SELECT 'chunked' AS name, content_key, version FROM indexed
    UNION ALL
    SELECT 'parsed' AS name, content_key, split_part(version, '|', 1) AS version FROM indexed
),

rejections AS (
    SELECT v.content_key, max(v.written_at) AS written_at
    FROM versions AS v ANTI JOIN indexed AS i ON v.content_key = i.content_key
    WHERE v.name = 'parsed'
    GROUP BY v.content_key
    HAVING arg_max(v.rejected, v.written_at)
),

settled AS (
    SELECT v.name, v.content_key, min(v.written_at) AS since, max(v.written_at) AS until
    FROM versions AS v SEMI JOIN needed AS n ON v.name = n.name AND v.content_key = n.content_key AND v.version = n.version
    GROUP BY v.name, v.content_key
    UNION ALL
    SELECT t.name, r.content_key, r.written_at AS since, r.written_at AS until
    FROM rejections AS r CROSS JOIN (VALUES ('parsed'), ('chunked')) AS t (name)
),

outdated_versions AS (
    SELECT v.name, v.content_key, v.version
    FROM versions AS v INNER JOIN settled AS s ON v.name = s.name AND v.content_key = s.content_key
    WHERE v.written_at < s.since AND s.until <= $cutoff
    ORDER BY v.written_at
    LIMIT $most
)

SELECT DISTINCT r.name, r.content_key, r.version, r.written_at
FROM readings AS r SEMI JOIN outdated_versions AS o ON r.name = o.name AND r.content_key = o.content_key AND r.version = o.version
ORDER BY r.name, r.written_at
