-- The company's own question set. Grain: question.

-- name: put^
-- Add a question as accepted, or update an existing one with these documents and groups.
-- Parameters: question, doc_ids, email, groups, never, added_by.
INSERT INTO questions (question, doc_ids, email, groups, never, state, origin, added_by)
VALUES (:question, :doc_ids::uuid [], :email, :groups, :never, 'accepted', 'command', :added_by)
ON CONFLICT (md5(question), email, never) DO UPDATE SET
    doc_ids = excluded.doc_ids, groups = excluded.groups, state = excluded.state
RETURNING question_id;

-- name: accept
-- Accept proposed questions. Parameters: ids bigint[].
UPDATE questions SET state = 'accepted' WHERE question_id = ANY(:ids::bigint []) AND state = 'proposed'
RETURNING question_id;

-- name: remove
-- Parameters: ids bigint[]. Results of runs for these questions are deleted; the runs' own figures stay.
DELETE FROM questions WHERE question_id = ANY(:ids::bigint [])
RETURNING question_id;

-- name: counted^
-- Number of questions, including proposed ones. Grain: one row.
SELECT count(*) AS questions FROM questions;

-- name: stored
-- Every question with the registry entries of its documents (state null: no source has shown it). Parameters: state or null.
SELECT
    q.question_id AS id, q.question, q.email, q.groups, q.never, q.state, q.origin, q.added_by, q.added_at,
    (
        SELECT
            jsonb_agg(
                jsonb_build_object(
                    'doc_id', n.doc_id, 'source', d.source, 'source_id', d.source_id, 'title', d.title, 'state', d.state
                )
                ORDER BY n.place
            )
        FROM unnest(q.doc_ids) WITH ORDINALITY AS n (doc_id, place)
        LEFT JOIN documents AS d ON d.doc_id = n.doc_id
    ) AS documents
FROM questions AS q
WHERE :state::text IS NULL OR q.state = :state::text
ORDER BY q.question_id;

-- name: unreadable
-- Those of these documents that are deleted or that these principals may not read. Parameters: doc_ids, principals. Grain: document.
SELECT n.doc_id::text AS doc_id
FROM unnest(:doc_ids::uuid []) AS n (doc_id)
WHERE
    NOT EXISTS (
        SELECT FROM documents AS d
        WHERE d.doc_id = n.doc_id AND d.state = 'live' AND d.permissions && :principals::text []
    );

-- name: names
-- Display names of these documents. Parameters: doc_ids. Grain: document.
SELECT coalesce(d.source_id, n.doc_id::text) AS name
FROM unnest(:doc_ids::uuid []) AS n (doc_id)
LEFT JOIN documents AS d ON d.doc_id = n.doc_id
ORDER BY name;

-- name: last_run^
-- The figures of the latest evaluation. Grain: one row.
SELECT at, model, questions, recall_5, recall_10, ndcg_10, mrr, never, leaks FROM evaluations ORDER BY at DESC LIMIT 1;

-- name: save_run^
-- Parameters: collection, model, questions, recall_5, recall_10, ndcg_10, mrr, never, leaks. Grain: run.
INSERT INTO evaluations (collection, model, questions, recall_5, recall_10, ndcg_10, mrr, never, leaks)
VALUES (:collection, :model, :questions, :recall_5, :recall_10, :ndcg_10, :mrr, :never, :leaks)
RETURNING evaluation_id, at;

-- name: save_results!
-- Parameters: evaluation_id, rows jsonb. Grain: (run, question). A question removed meanwhile is left out.
INSERT INTO evaluation_results (evaluation_id, question_id, rank, recall_10, leaked)
SELECT :evaluation_id, r.question_id, r.rank, r.recall_10, r.leaked
FROM jsonb_to_recordset(:rows::jsonb) AS r (question_id bigint, rank integer, recall_10 double precision, leaked uuid [])
INNER JOIN questions AS q ON q.question_id = r.question_id;
