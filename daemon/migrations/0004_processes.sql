-- Background commands: those that run, and those that ended and of which no iteration has told the
-- model yet.
CREATE TABLE processes (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    process_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    command TEXT NOT NULL,
    exit TEXT, -- the event's own fields; absent while it runs
    UNIQUE (session, process_id)
) STRICT;
CREATE INDEX processes_running ON processes (session, id) WHERE exit IS NULL;
