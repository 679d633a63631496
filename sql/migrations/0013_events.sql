-- What sources report as it happens: Slack's events, and Google's notifications of changes in Drive. An event hides what it
-- concerns at once; the next sync reads exactly that again and shows it as it is then.

-- Events that were received, so that a repeated one does nothing. `partition` null: the whole source is to be synced.
-- `asked_at`: when a sync was asked for; null: one is still to be asked for. Grain: event.
CREATE TABLE source_events (
    event_id text PRIMARY KEY,
    source text NOT NULL,
    partition text,
    kind text NOT NULL,
    urgent boolean NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    asked_at timestamptz
);
CREATE INDEX source_events_waiting ON source_events (source, received_at) WHERE asked_at IS NULL;
CREATE INDEX source_events_received ON source_events (received_at);

-- Documents that nobody is shown until what an event said of them has been read from the source and indexed.
-- Grain: (document, event).
CREATE TABLE hidden_documents (
    doc_id uuid NOT NULL REFERENCES documents (doc_id) ON DELETE CASCADE,
    event_id text NOT NULL,
    hidden_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (doc_id, event_id)
);

DROP VIEW checked_documents;

-- Documents with when their permissions were last checked: of uploads now, since their permissions are our own; of one whose
-- deletion waits for a person when it began to wait; null when that is not known. Hidden documents are not in it. Every read for
-- a person goes through it. Grain: document.
CREATE VIEW checked_documents AS
SELECT
    d.*,
    CASE
        WHEN d.source = 'upload' THEN now()
        WHEN p.acl_checked_at IS NOT NULL THEN least(p.acl_checked_at, h.held_at)
    END AS acl_checked_at
FROM documents AS d
LEFT JOIN partitions AS p ON d.source = p.source AND d.partition = p.partition
LEFT JOIN held_deletions AS h ON d.source = h.source AND d.source_id = h.source_id
WHERE NOT EXISTS (SELECT 1 FROM hidden_documents AS e WHERE e.doc_id = d.doc_id);

-- Hide the documents of a channel that its waiting events concern. An event waits as `e:EVENT_ID` in the channel's memory:
-- {hide, team, all, file, at, low, ts, thread}, `at` in microseconds; what does not apply is null. Windows
-- and threads are found in the connector's ledger, which is in the same table. Takes a lock of the channel to the end of the transaction, so that a sync which saves what it read before the event, and the
-- event itself, cannot miss each other. Returns the documents that were not hidden for that event before.
CREATE FUNCTION hide_touched(channel text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('concordance.events.' || channel));
    RETURN QUERY
    WITH touched AS MATERIALIZED (
        SELECT
            substr(m.key, 3) AS event_id,
            m.value ->> 'team' || '/' || channel || '/' AS prefix,
            (m.value ->> 'all')::boolean AS whole,
            m.value ->> 'file' AS file,
            (m.value ->> 'at')::bigint AS at,
            m.value ->> 'low' AS low,
            m.value ->> 'ts' AS ts,
            m.value ->> 'thread' AS thread
        FROM source_memory AS m
        WHERE m.source = 'slack' AND m.partition = channel AND m.key >= 'e:' AND m.key < 'e;' AND (m.value ->> 'hide')::boolean
    ),

    named AS MATERIALIZED (
        SELECT t.event_id, t.prefix || t.file AS source_id FROM touched AS t WHERE t.file IS NOT NULL
        UNION ALL
        SELECT t.event_id, t.prefix || substr(w.key, 3)
        FROM touched AS t
        INNER JOIN source_memory AS w
            ON w.source = 'slack' AND w.partition = channel AND w.key >= 'm:' || t.low AND w.key <= 'm:' || t.ts
        WHERE (w.value ->> 'last')::bigint >= t.at
        UNION ALL
        SELECT
            t.event_id,
            t.prefix || lpad(((p ->> 'anchor')::bigint / 1000000)::text, 10, '0')
            || '.' || lpad(((p ->> 'anchor')::bigint % 1000000)::text, 6, '0')
        FROM touched AS t
        INNER JOIN source_memory AS r
            ON r.source = 'slack' AND r.partition = channel AND r.key IN ('t:' || t.thread, 't:' || t.ts)
        CROSS JOIN LATERAL jsonb_array_elements(r.value -> 'parts') AS p
        WHERE t.at BETWEEN (p ->> 'anchor')::bigint AND (p ->> 'last')::bigint
    )

    INSERT INTO hidden_documents AS h (doc_id, event_id)
    SELECT d.doc_id, n.event_id FROM named AS n INNER JOIN documents AS d ON d.source = 'slack' AND d.source_id = n.source_id
    UNION
    SELECT d.doc_id, t.event_id
    FROM touched AS t
    INNER JOIN documents AS d ON d.source = 'slack' AND d.partition = channel
    WHERE t.whole AND d.state = 'live'
    ON CONFLICT DO NOTHING
    RETURNING h.doc_id;
END
$$;
