-- Purpose: let the changes of a person's account follow one another until the end of the transaction: what is made for it up to a limit.
-- Parameters: email. One lock for each 256th of all people, so that a transaction that ends many accounts holds few.
SELECT pg_advisory_xact_lock(hashtext('concordance.account'), hashtext(%(email)s) & 255);
