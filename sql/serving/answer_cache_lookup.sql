-- Purpose: a cached answer that has not expired. Parameters: cache_key. Grain: cache key. Index: primary key of answer_cache.
SELECT body FROM answer_cache
WHERE cache_key = %(cache_key)s AND expires_at > now()
