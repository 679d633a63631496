-- How full what can fill up was, at most once in half an hour, so that its growth can be told. Grain: (what, place, sampled_at).
-- what: `disk` or `index`. place: of a disk, the machine and the folder. used and most: bytes, or passages; most: where syncs stop.
-- Bound: `KEPT_DAYS` of each.
CREATE TABLE capacity_samples (
    what text NOT NULL,
    place text NOT NULL,
    sampled_at timestamptz NOT NULL DEFAULT now(),
    used double precision NOT NULL,
    most double precision NOT NULL,
    PRIMARY KEY (what, place, sampled_at)
);

-- When it will be full if it grows on as in the last seven days, by a line through the samples. No row before there is a day of samples, or
-- if it does not grow, or if its latest sample is older than a day. Grain: (what, place). days: 0 if it is full.
CREATE VIEW capacity_forecasts AS
SELECT
    g.what,
    g.place,
    l.used,
    l.most,
    greatest(l.most - l.used, 0) / g.a_day AS days
FROM (
    SELECT
        what,
        place,
        max(sampled_at) AS latest,
        regr_slope(used, extract(EPOCH FROM sampled_at - now())::double precision) * 86400 AS a_day
    FROM capacity_samples
    WHERE sampled_at > now() - interval '7 days'
    GROUP BY what, place
    HAVING max(sampled_at) - min(sampled_at) >= interval '1 day' AND max(sampled_at) > now() - interval '1 day'
) AS g
INNER JOIN capacity_samples AS l ON g.what = l.what AND g.place = l.place AND g.latest = l.sampled_at
WHERE g.a_day > 0;
