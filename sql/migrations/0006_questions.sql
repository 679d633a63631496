-- The company's own questions: what a person should find, or must never find. Documents are named by the id that follows from
-- source and source id, so that a question outlives a document that goes and comes back. Grain: (question, person, never).
CREATE TABLE questions (
    question_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    question text NOT NULL CHECK (length(question) BETWEEN 1 AND 1000),
    doc_ids uuid [] NOT NULL CHECK (cardinality(doc_ids) > 0),
    -- as whom it is asked; beside the email and its domain, these groups and what the directory says of that person
    email text NOT NULL,
    groups text [] NOT NULL DEFAULT '{}',
    never boolean NOT NULL DEFAULT FALSE,
    -- what comes from feedback counts once the operator has accepted it
    state text NOT NULL CHECK (state IN ('proposed', 'accepted')),
    origin text NOT NULL CHECK (origin IN ('command', 'feedback')),
    added_by text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX questions_once ON questions (md5(question), email, never);

-- Runs of the evaluation; the measures are null where no question names a document to find. Grain: run.
CREATE TABLE evaluations (
    evaluation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    collection text NOT NULL,
    model text NOT NULL,
    questions integer NOT NULL,
    recall_5 double precision,
    recall_10 double precision,
    ndcg_10 double precision,
    mrr double precision,
    never integer NOT NULL,
    leaks integer NOT NULL
);
CREATE INDEX evaluations_at ON evaluations (at);

-- What each question found in each run: the place of its first document among the first ten, the share of its documents there
-- (both null for what must never be found), and the documents that the person should not have seen. Grain: (run, question).
CREATE TABLE evaluation_results (
    evaluation_id bigint NOT NULL REFERENCES evaluations (evaluation_id) ON DELETE CASCADE,
    question_id bigint NOT NULL REFERENCES questions (question_id) ON DELETE CASCADE,
    rank integer,
    recall_10 double precision,
    leaked uuid [] NOT NULL DEFAULT '{}',
    PRIMARY KEY (evaluation_id, question_id)
);
CREATE INDEX evaluation_results_question ON evaluation_results (question_id);
