-- Purpose: let what is made for people's accounts up to a limit, their sign-ins and their ends follow one another. Held until the end of the
-- transaction. Parameters: emails. One lock for each 256th of all people, so that a transaction that ends many accounts holds few. Taken in
-- ascending order: transactions that take theirs in one statement never wait for each other in a circle. Grain: lock.
SELECT pg_advisory_xact_lock(hashtext('concordance.account'), part) FROM (
    SELECT DISTINCT hashtext(email) & 255 AS part
    FROM unnest(%(emails)s::text []) AS email
    ORDER BY part
) AS parts;
