-- A document that gets other content and more readers at once keeps its former content in the index until the new one is there, and former
-- readers with it: who comes with the new content waits here (`save_documents`, `widen`).

ALTER TABLE documents ADD COLUMN next_permissions text [];
CREATE INDEX documents_widening ON documents (source) WHERE next_permissions IS NOT NULL;
