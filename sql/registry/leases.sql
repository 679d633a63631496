-- Leases of partitions: who may write to them, until when. Grain: (source, partition). Index: primary key.

-- name: claim
-- Claim partitions and return the number of the claim; null if another has one of them. held: the claim to which they are added, or null.
SELECT claim_leases(:source, :partitions::text [], :owner, :held::bigint, :seconds) AS fence;

-- name: renew!
UPDATE partition_leases SET until = now() + make_interval(secs => :seconds)
WHERE source = :source AND owner = :owner AND fence = :fence;

-- name: cap!
-- Shorten leases that last longer than any claim makes them: the clock has been set back since. Their owners renew them, if they live.
-- Grain: lease.
UPDATE partition_leases SET until = now() + make_interval(secs => :seconds)
WHERE until > now() + make_interval(secs => :seconds) + interval '1 minute';

-- name: narrow!
-- Give up all leases of a claim but those of these partitions. A lease of the whole source becomes leases of them.
WITH own AS (
    SELECT max(until) AS until FROM partition_leases
    WHERE source = :source AND owner = :owner AND fence = :fence
    HAVING count(*) > 0
),

kept AS (
    INSERT INTO partition_leases (source, partition, owner, fence, until)
    SELECT :source, p.partition, :owner, :fence, o.until
    FROM own AS o CROSS JOIN unnest(:partitions::text []) AS p (partition)
    ON CONFLICT (source, partition) DO NOTHING
)

DELETE FROM partition_leases
WHERE source = :source AND owner = :owner AND fence = :fence AND partition <> ALL(:partitions::text []);

-- name: release!
DELETE FROM partition_leases WHERE source = :source AND owner = :owner AND fence = :fence;

-- name: keep
-- Number of leases that a claim still has. Until the transaction ends they can be renewed, but not claimed by others: a claim deletes the
-- row, for which it must lock its key. So the transaction ends if its process does nothing for so many seconds (idle): one that is paused,
-- or whose machine is gone, would keep others out for ever. Grain: claim.
SELECT CASE WHEN set_config('idle_in_transaction_session_timeout', cast(:idle AS int) || 's', TRUE) IS NOT NULL THEN count(*) END AS leases
FROM (
    SELECT FROM partition_leases WHERE source = :source AND owner = :owner AND fence = :fence FOR KEY SHARE
) AS kept;

-- name: taken
-- Whether a lease of one of these partitions has not lapsed. Partition '' of a source: the whole source.
SELECT EXISTS (
    SELECT FROM partition_leases
    WHERE
        source = :source AND until > now()
        AND (partition = ANY(:partitions::text []) OR (:source <> '' AND (partition = '' OR '' = ANY(:partitions::text []))))
) AS taken;
