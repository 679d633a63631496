-- name: record!
-- Store how full things are, unless that was stored half an hour ago or later. Grain: (what, place).
-- Parameters: samples jsonb (what, place, used, most). Index: primary key.
INSERT INTO capacity_samples (what, place, used, most)
SELECT
    s.what,
    s.place,
    s.used,
    s.most
FROM jsonb_to_recordset(:samples::jsonb) AS s (what text, place text, used double precision, most double precision)
WHERE NOT EXISTS (
    SELECT 1 FROM capacity_samples AS c
    WHERE c.what = s.what AND c.place = s.place AND c.sampled_at > now() - interval '30 minutes' AND c.sampled_at <= now()
)
ON CONFLICT (what, place, sampled_at) DO NOTHING;

-- name: forget!
-- Remove samples older than :days, and those from before the clock was set back. Grain: sample. Index: none, there are at most some thousands.
DELETE FROM capacity_samples
WHERE sampled_at < now() - :days::integer * interval '1 day' OR sampled_at > now() + interval '30 minutes';

-- name: forecasts
-- When things will be full, the soonest first. Grain: (what, place). Index: none, as above.
SELECT
    what,
    place,
    used,
    most,
    days
FROM capacity_forecasts
ORDER BY days, what, place
LIMIT 100;
