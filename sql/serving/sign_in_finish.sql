-- Purpose: consume a sign-in: if two requests finish it at once, only one gets the row. Parameters: sign_in_id, now. Grain: sign-in.
-- Index: primary key.
DELETE FROM sign_ins
WHERE sign_in_id = %(sign_in_id)s::uuid AND expires_at >= %(now)s
RETURNING requested_by
