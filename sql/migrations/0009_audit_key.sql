-- An event is kept on the disk before it is written here; its key makes writing it twice harmless. Null: from before this was kept.
ALTER TABLE audit_log ADD COLUMN event_key uuid;
CREATE UNIQUE INDEX audit_log_event_key ON audit_log (event_key);
