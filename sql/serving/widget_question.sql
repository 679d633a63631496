-- Purpose: count a question of a widget's visitor, exactly, whichever process asks and however many at once: an update waits for the row's
-- lock and sees what others have counted. Drops the addresses that have asked nothing within the last minute. Parameters: widget,
-- a_day, visitor (digest of the address), a_minute. Returns whether the question is allowed, whether the day is used up, and the seconds
-- until the address may ask again. Grain: one row. Indexes: primary keys, widget_visitors_latest.
WITH expired AS (
    DELETE FROM widget_visitors
    WHERE visitor IN (
        SELECT v.visitor
        FROM widget_visitors AS v
        WHERE v.latest < now() - interval '1 minute' AND v.visitor <> %(visitor)s::bytea
        FOR UPDATE SKIP LOCKED
    )
),

today AS (
    SELECT
        (now() AT TIME ZONE 'UTC')::date AS day,
        EXISTS (
            SELECT 1 FROM widget_days AS d
            WHERE d.widget = %(widget)s AND d.day = (now() AT TIME ZONE 'UTC')::date AND d.questions >= %(a_day)s::integer
        ) AS used_up
),

address AS (
    INSERT INTO widget_visitors AS v (visitor, questions, latest)
    SELECT
        %(visitor)s::bytea,
        ARRAY[now()],
        now()
    FROM today AS t
    WHERE NOT t.used_up
    ON CONFLICT (visitor) DO UPDATE SET
        questions = ARRAY(
            SELECT q.at FROM unnest(v.questions) AS q (at)
            WHERE q.at > now() - interval '1 minute'
        ) || now(),
        latest = now()
        WHERE (
            SELECT count(*) FROM unnest(v.questions) AS q (at)
            WHERE q.at > now() - interval '1 minute'
        ) < %(a_minute)s::integer
    RETURNING v.visitor
),

everyone AS (
    INSERT INTO widget_days AS d (widget, day, questions)
    SELECT
        %(widget)s,
        t.day,
        1
    FROM today AS t
    WHERE EXISTS (SELECT 1 FROM address)
    ON CONFLICT (widget) DO UPDATE SET
        day = excluded.day,
        questions = CASE WHEN d.day = excluded.day THEN d.questions + 1 ELSE 1 END
        WHERE d.day <> excluded.day OR d.questions < %(a_day)s::integer
    RETURNING d.widget
)

SELECT
    EXISTS (SELECT 1 FROM everyone) AS allowed,
    t.used_up OR EXISTS (SELECT 1 FROM address) AS used_up,
    coalesce(
        (
            SELECT extract(EPOCH FROM min(q.at) + interval '1 minute' - now())::double precision
            FROM widget_visitors AS v
            CROSS JOIN LATERAL unnest(v.questions) AS q (at)
            WHERE v.visitor = %(visitor)s::bytea AND q.at > now() - interval '1 minute'
        ),
        60
    ) AS seconds
FROM today AS t
