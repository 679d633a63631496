-- Purpose: share an answer of one's own, or stop sharing it. Parameters: answer_id, email, shared. Grain: answer.
-- Index: primary key of answers. `shareable` is false for one that may rest on more than its sources.
UPDATE answers
SET shared_at = CASE WHEN %(shared)s AND shareable THEN coalesce(shared_at, now()) END
WHERE answer_id = %(answer_id)s::uuid AND email = %(email)s
RETURNING shareable, shared_at
