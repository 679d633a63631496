-- Purpose: let what is made for a person's account up to a limit, its sign-ins and its end follow one another. Held until the end of the
-- transaction. Parameters: email. One lock for each 256th of all people, so that a transaction that ends many accounts holds few.
SELECT pg_advisory_xact_lock(hashtext('concordance.account'), hashtext(%(email)s) & 255);
