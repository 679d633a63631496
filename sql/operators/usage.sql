-- Purpose: how much the installation was used in each week. Parameters: since, people (the least number of people behind a figure that is
-- shown; a figure with fewer is null). Grain: week, beginning on Monday in UTC, of those in which somebody asked. Index: audit_log_at.
WITH asked AS (
    SELECT
        date_trunc('week', at AT TIME ZONE 'UTC')::date AS week,
        count(DISTINCT email) AS people,
        count(*) FILTER (WHERE action = 'search') AS searches,
        count(DISTINCT email) FILTER (WHERE action = 'search') AS searchers,
        count(*) FILTER (WHERE action = 'ask') AS questions,
        count(DISTINCT email) FILTER (WHERE action = 'ask') AS askers,
        count(*) FILTER (WHERE doc_ids = '{}') AS without_results,
        count(DISTINCT email) FILTER (WHERE doc_ids = '{}') AS without_results_people
    FROM audit_log
    WHERE at >= %(since)s::timestamptz AND action IN ('search', 'ask')
    GROUP BY date_trunc('week', at AT TIME ZONE 'UTC')::date
),

rated AS (
    SELECT
        date_trunc('week', created_at AT TIME ZONE 'UTC')::date AS week,
        count(*) AS not_useful,
        count(DISTINCT email) AS people
    FROM feedback
    WHERE created_at >= %(since)s::timestamptz AND verdict = 'bad'
    GROUP BY date_trunc('week', created_at AT TIME ZONE 'UTC')::date
),

answered AS (
    SELECT
        date_trunc('week', created_at AT TIME ZONE 'UTC')::date AS week,
        count(DISTINCT email) AS people,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) AS median_ms,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_ms) AS p95_ms
    FROM answers
    WHERE created_at >= %(since)s::timestamptz AND completed
    GROUP BY date_trunc('week', created_at AT TIME ZONE 'UTC')::date
)

SELECT
    asked.week,
    CASE WHEN asked.people >= %(people)s::bigint THEN asked.people END AS people,
    CASE WHEN asked.searchers >= %(people)s::bigint THEN asked.searches END AS searches,
    CASE WHEN asked.askers >= %(people)s::bigint THEN asked.questions END AS questions,
    CASE WHEN asked.without_results_people >= %(people)s::bigint THEN asked.without_results END AS without_results,
    CASE WHEN rated.people >= %(people)s::bigint THEN rated.not_useful END AS not_useful,
    CASE WHEN answered.people >= %(people)s::bigint THEN answered.median_ms END AS median_ms,
    CASE WHEN answered.people >= %(people)s::bigint THEN answered.p95_ms END AS p95_ms
FROM asked
LEFT JOIN rated ON asked.week = rated.week
LEFT JOIN answered ON asked.week = answered.week
ORDER BY asked.week;
