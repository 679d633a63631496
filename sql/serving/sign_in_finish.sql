-- Purpose: consume a sign-in: if two requests finish it at once, only one gets the row. Parameters: sign_in_id, claim (of this request),
-- now. Grain: sign-in. Index: primary key.
UPDATE sign_ins SET claim = %(claim)s::uuid, expires_at = %(now)s
WHERE sign_in_id = %(sign_in_id)s::uuid AND expires_at >= %(now)s AND (claim IS NULL OR claim = %(claim)s::uuid)
RETURNING requested_by
