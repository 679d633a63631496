-- One's own questions are listed page by page, newest first, however many share a moment.
DROP INDEX answers_email;
CREATE INDEX answers_email ON answers (email, created_at DESC, answer_id DESC);
