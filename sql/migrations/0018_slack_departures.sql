-- People who left a channel: they lose what they could find in it with the event, before a sync has read who is in the channel.

-- Email addresses of a source's accounts, as the last sync read them: an event names an account alone. Grain: account.
CREATE TABLE source_accounts (
    source text NOT NULL,
    account text NOT NULL,
    email text NOT NULL,
    PRIMARY KEY (source, account)
);

-- Who left which partition, until a sync that began after the event has read its members. Grain: (partition, person, event).
CREATE TABLE departures (
    source text NOT NULL,
    partition text NOT NULL,
    email text NOT NULL,
    event_id text NOT NULL,
    left_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, partition, email, event_id)
);

DROP VIEW checked_documents;

-- Documents with when their permissions were last checked (uploads: now, since their permissions are our own; a document whose
-- deletion waits for a person: when it began to wait; null: not known), and who has left their partition since. Hidden documents
-- are not in it. Every read for a person goes through it. Grain: document.
CREATE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source = 'upload' THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at,
    ARRAY(SELECT g.email FROM departures AS g WHERE g.source = d.source AND g.partition = d.partition) AS departed
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE NOT EXISTS (SELECT 1 FROM hidden_documents AS e WHERE e.doc_id = d.doc_id);
