-- Purpose: texts of passages that no content that stays contains.
-- Relations: passages (content_key, text_hash), unused_keys, vectors (text_hash): older than the cutoff. Grain: text.
WITH candidates AS (
    SELECT p.text_hash FROM passages AS p SEMI JOIN unused_keys AS k ON p.content_key = k.content_key
    UNION
    SELECT text_hash FROM vectors
),

staying AS (
    SELECT p.text_hash FROM passages AS p ANTI JOIN unused_keys AS k ON p.content_key = k.content_key
)

SELECT c.text_hash
FROM candidates AS c ANTI JOIN staying AS s ON c.text_hash = s.text_hash
ORDER BY c.text_hash
