-- Whom a document is shared with, for the operator. Parameters: doc_id. Grain: at most one document. Index: primary key of documents.
SELECT d.permissions
FROM documents AS d
WHERE d.doc_id = %(doc_id)s::uuid;
