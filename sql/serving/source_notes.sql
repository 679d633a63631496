-- Purpose: documents with notes of the parser by kind, most frequent first; notes themselves may quote a document. Parameters: none.
-- Grain: (partition, kind of a note). Index: documents_noted.
SELECT
    d.source,
    d.partition,
    n.kind,
    count(*) AS count
FROM documents AS d
CROSS JOIN LATERAL (SELECT DISTINCT o.note ->> 'kind' AS kind FROM jsonb_array_elements(d.notes) AS o (note)) AS n
WHERE d.notes <> '[]' AND d.state = 'live'
GROUP BY d.source, d.partition, n.kind
ORDER BY d.source ASC, d.partition ASC, count DESC, n.kind ASC
