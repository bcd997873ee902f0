-- What a call left a file as: a rollback sees by it whether somebody changed the file since.
ALTER TABLE file_versions ADD COLUMN left_sha256 TEXT; -- absent: the call removed the file
CREATE INDEX file_versions_by_age ON file_versions (made_at) WHERE content IS NOT NULL;
