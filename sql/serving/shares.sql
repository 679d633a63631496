-- Purpose: whom a document is shared with, for its owner; no row for anyone else. Parameters: doc_id, email (null: for the operator, of any
-- document). Grain: at most one document. Index: primary key of documents.
SELECT d.permissions
FROM documents AS d
WHERE d.doc_id = %(doc_id)s::uuid AND (%(email)s::text IS NULL OR d.owner = %(email)s::text)
