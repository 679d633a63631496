-- The documents that one event concerns are hidden without looking at the others that wait: hiding them all again with each took as much
-- time as there were, so that some thousand of a channel took longer than Slack waits. See 0013 for the form of an event. `OFFSET 0` keeps
-- plans from reading the whole memory of a channel.

-- Hide the documents of a channel that an event concerns, null: all that wait; otherwise as before.
CREATE FUNCTION hide_touched(channel text, event text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
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
        WHERE
            m.source = 'slack' AND m.partition = channel
            AND m.key >= 'e:' || coalesce(event, '') AND m.key <= coalesce('e:' || event, 'e;') AND (m.value ->> 'hide')::boolean
    ),

    named AS MATERIALIZED (
        SELECT t.event_id, t.prefix || t.file AS source_id FROM touched AS t WHERE t.file IS NOT NULL
        UNION ALL
        SELECT t.event_id, t.prefix || substr(w.key, 3)
        FROM touched AS t
        CROSS JOIN LATERAL (
            SELECT m.key, m.value FROM source_memory AS m
            WHERE m.source = 'slack' AND m.partition = channel AND m.key >= 'm:' || t.low AND m.key <= 'm:' || t.ts
            OFFSET 0
        ) AS w
        WHERE (w.value ->> 'last')::bigint >= t.at
        UNION ALL
        SELECT
            t.event_id,
            t.prefix || lpad(((p ->> 'anchor')::bigint / 1000000)::text, 10, '0')
            || '.' || lpad(((p ->> 'anchor')::bigint % 1000000)::text, 6, '0')
        FROM touched AS t
        CROSS JOIN unnest(ARRAY[t.thread, t.ts]) AS k (name)
        CROSS JOIN LATERAL (
            SELECT m.value FROM source_memory AS m WHERE m.source = 'slack' AND m.partition = channel AND m.key = 't:' || k.name OFFSET 0
        ) AS r
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

-- For a sync, which saves what it read before the events.
CREATE OR REPLACE FUNCTION hide_touched(channel text) RETURNS SETOF uuid LANGUAGE sql AS $$
SELECT hide_touched(channel, NULL)
$$;
