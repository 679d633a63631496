-- The company's own question set. Grain: question.

-- name: put^
-- Add a question as accepted, or update an existing one with these documents and groups.
-- Parameters: question, doc_ids, email, groups, never, added_by.
INSERT INTO questions (question, doc_ids, email, groups, never, state, origin, added_by)
VALUES (:question, :doc_ids::uuid [], :email, :groups, :never, 'accepted', 'command', :added_by)
ON CONFLICT (md5(question), email, never) DO UPDATE SET
    doc_ids = excluded.doc_ids, groups = excluded.groups, state = excluded.state
RETURNING question_id;

-- name: propose^
-- Propose the question of an answer that was marked not useful, with a document that the asker could read by the principals of then.
-- Questions of conversations are left out: what they were searched as may repeat earlier answers. An accepted question stays as it is.
-- Parameters: feedback_id, doc_id, added_by.
INSERT INTO questions (question, doc_ids, email, groups, state, origin, added_by)
SELECT
    a.question,
    ARRAY[d.doc_id] AS doc_ids,
    a.email,
    ARRAY(
        SELECT p.name
        FROM unnest(a.principals) AS p (name)
        WHERE
            starts_with(p.name, 'group:')
            -- groups from the directory are looked up at each evaluation
            AND NOT EXISTS (SELECT 1 FROM directory AS k WHERE k.email = a.email AND k.principal = p.name)
        ORDER BY p.name
    ) AS groups,
    'proposed' AS state,
    'feedback' AS origin,
    :added_by AS added_by
FROM feedback AS f
INNER JOIN answers AS a ON f.answer_id = a.answer_id
INNER JOIN checked_documents AS d ON d.doc_id = :doc_id
WHERE
    f.feedback_id = :feedback_id AND f.verdict = 'bad'
    AND d.state = 'live' AND d.permissions && a.principals AND NOT d.departed && a.principals
    AND a.standalone IS NULL AND length(a.question) BETWEEN 1 AND 1000
ON CONFLICT (md5(question), email, never) DO UPDATE SET doc_ids = excluded.doc_ids WHERE questions.state = 'proposed'
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
