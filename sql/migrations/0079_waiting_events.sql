-- Events of sources that wait for a sync, of all partitions: each sync looks for those that no partition waits for (`drop_unread`).

CREATE INDEX source_memory_events ON source_memory (source, partition, key) WHERE key >= 'e:' AND key < 'e;';
