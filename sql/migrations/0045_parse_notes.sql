-- What the parser left out of a document's text, decoded with doubt or removed from it. A note belongs to the text: whoever may not read the
-- one may not read the other, and only its kind is counted elsewhere. [{"kind", "text"}], of the version that is indexed. Grain: document.
ALTER TABLE documents ADD COLUMN notes jsonb NOT NULL DEFAULT '[]';
CREATE INDEX documents_noted ON documents (source, partition) WHERE notes <> '[]';

-- As in 0034, with the new column.
DROP VIEW checked_documents;
CREATE VIEW checked_documents AS
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
