-- Purpose: whether a provider's answer to a sign-in was used. Parameters: sign_in_id. Grain: one row. Index: primary key.
SELECT EXISTS (SELECT 1 FROM sign_ins WHERE sign_in_id = %(sign_in_id)s::uuid) AS used
