-- Purpose: the latest runs of the question set, newest first. Parameters: most. Grain: run. Index: evaluations_at.
SELECT
    at,
    model,
    questions,
    recall_10,
    ndcg_10,
    leaks
FROM evaluations
ORDER BY at DESC
LIMIT %(most)s
