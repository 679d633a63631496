-- Purpose: cache an answer of the language model. Parameters: cache_key, body, seconds. Grain: cache key.
INSERT INTO answer_cache (cache_key, body, expires_at)
VALUES (%(cache_key)s, %(body)s, now() + make_interval(secs => %(seconds)s))
ON CONFLICT (cache_key) DO UPDATE
    SET body = excluded.body, created_at = now(), expires_at = excluded.expires_at
