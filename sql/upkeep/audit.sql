-- Reads and repairs of the registry by the permission audit, and its audit trail. Grain: document, unless a statement
-- says otherwise. Triggers of the table `documents` write grant_audit. Documents are locked in the order of their ids.

-- name: granted
-- Permissions of live documents, with those that wait for their content. Parameters: source, source_ids text[].
-- Index: unique (source, source_id).
SELECT doc_id::text AS doc_id, source_id, partition, coalesce(next_permissions, permissions) AS permissions, owner, tags, version
FROM documents
WHERE source = :source AND source_id = ANY(:source_ids) AND state = 'live';

-- name: granted_in
-- A page of the permissions of a partition's live documents. Parameters: source, partition, after (source_id), most.
SELECT doc_id::text AS doc_id, source_id, partition, coalesce(next_permissions, permissions) AS permissions, owner, tags, version
FROM documents
WHERE source = :source AND partition = :partition AND state = 'live' AND source_id > :after
ORDER BY source_id
LIMIT :most;

-- name: narrow!
-- Remove excess permissions. Clearing the hash makes the next listing write the document again.
-- Parameters: rows jsonb (doc_id, permissions: all that the source grants).
WITH locked AS MATERIALIZED (
    SELECT r.doc_id, r.permissions
    FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, permissions text []) INNER JOIN documents AS o ON o.doc_id = r.doc_id
    WHERE o.state = 'live'
    ORDER BY o.doc_id
    FOR NO KEY UPDATE OF o
)

UPDATE documents AS d SET
    payload_hash = '', changed_at = now(),
    permissions = ARRAY(SELECT g.principal FROM unnest(d.permissions) AS g (principal) WHERE g.principal = ANY(l.permissions)),
    next_permissions = CASE WHEN d.next_permissions IS NOT NULL THEN l.permissions END
FROM locked AS l
WHERE d.doc_id = l.doc_id;

-- name: grant!
-- Add missing permissions. Parameters: rows jsonb (doc_id, permissions).
WITH locked AS MATERIALIZED (
    SELECT r.doc_id, r.permissions
    FROM jsonb_to_recordset(:rows::jsonb) AS r (doc_id uuid, permissions text []) INNER JOIN documents AS o ON o.doc_id = r.doc_id
    WHERE o.state = 'live'
    ORDER BY o.doc_id
    FOR NO KEY UPDATE OF o
),

outdated AS (
    UPDATE index_entries AS e SET payload = NULL FROM locked AS l WHERE e.doc_id = l.doc_id
)

UPDATE documents AS d SET
    payload_hash = '', changed_at = now(),
    permissions = CASE WHEN d.next_permissions IS NULL THEN l.permissions ELSE d.permissions END,
    next_permissions = CASE WHEN d.next_permissions IS NOT NULL THEN l.permissions END
FROM locked AS l
WHERE d.doc_id = l.doc_id;

-- name: mark_for_relisting!
-- Make the next sync list these partitions from the beginning. Grain: partition. Parameters: source, partitions text[].
UPDATE partitions SET cursor = NULL WHERE source = :source AND partition = ANY(:partitions::text []);

-- name: mark_changed!
-- Make the next listing write these documents again. Parameters: doc_ids.
WITH locked AS MATERIALIZED (
    SELECT o.doc_id FROM documents AS o WHERE o.doc_id = ANY(:doc_ids::uuid []) AND o.state = 'live' ORDER BY o.doc_id FOR NO KEY UPDATE
)

UPDATE documents AS d SET payload_hash = '' FROM locked AS l WHERE d.doc_id = l.doc_id;

-- name: trail
-- Permissions granted and revoked, oldest first. Grain: change of one principal on one document. Index: grant_audit_at.
-- Parameters: since, document (doc_id or source id) or null, principal or null.
SELECT a.at, a.source, a.doc_id::text AS doc_id, d.source_id, d.title, a.principal, a.change, a.effective_at
FROM grant_audit AS a
LEFT JOIN documents AS d ON d.doc_id = a.doc_id
WHERE
    a.at >= :since
    AND (:document::text IS NULL OR a.doc_id::text = lower(:document::text) OR d.source_id = :document::text)
    AND (:principal::text IS NULL OR a.principal = :principal::text)
ORDER BY a.at, a.id;
