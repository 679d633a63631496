-- Purpose: delete a question of one's own with its answer. Parameters: answer_id, email. Grain: answer. Index: primary key of answers.
DELETE FROM answers WHERE answer_id = %(answer_id)s::uuid AND email = %(email)s
