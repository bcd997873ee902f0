-- The record of every session. One job per table; a session's rows all carry its key `session`.
-- JSON columns hold the protocol's own shapes, words are kept as on the wire, times are Unix
-- milliseconds, deadlines of leases milliseconds of boot time.

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    -- The client's key, unique daemon-wide, and the digest of what was asked under it.
    creation_key TEXT UNIQUE,
    creation_digest TEXT NOT NULL,
    title TEXT NOT NULL,
    title_folded TEXT NOT NULL, -- lower case, for searching
    cwd TEXT NOT NULL,
    roots TEXT NOT NULL,
    model TEXT,
    model_options TEXT,
    permission_mode TEXT NOT NULL,
    limits TEXT NOT NULL,
    labels TEXT NOT NULL,
    parent_id TEXT,
    archived INTEGER NOT NULL,
    env TEXT NOT NULL,
    env_mode TEXT NOT NULL,
    state TEXT NOT NULL,
    queue_held INTEGER NOT NULL,
    active_turn_id TEXT,
    usage TEXT NOT NULL,
    item_count INTEGER NOT NULL,
    head INTEGER NOT NULL, -- the number of the last event
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0 -- 1: gone for everybody, its rows go when there is time
) STRICT;
CREATE INDEX sessions_by_change ON sessions (updated_at, id) WHERE deleted = 0;
CREATE INDEX sessions_deleted ON sessions (id) WHERE deleted = 1;

CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    item_id TEXT NOT NULL,
    item_index INTEGER NOT NULL,
    -- reset: booked, its text taken back or left unfinished
    status TEXT NOT NULL CHECK (status IN ('streaming', 'reset', 'complete')),
    attempt INTEGER NOT NULL,
    hidden_by TEXT,
    json TEXT NOT NULL,
    UNIQUE (session, item_index),
    UNIQUE (session, item_id)
) STRICT;
CREATE INDEX items_streaming ON items (session, item_index) WHERE status = 'streaming';

-- Pieces of the item that streams; emptied when it completes or starts again.
CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    item_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    start INTEGER NOT NULL, -- bytes before this piece
    text TEXT NOT NULL,
    UNIQUE (session, item_id, kind, start)
) STRICT;

-- An event that shows an item complete has `"item":null` in its body and the item's key beside it.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    turn_id TEXT,
    item INTEGER, -- of `items`; events go before their items, so nothing has to check it
    body TEXT NOT NULL,
    UNIQUE (session, seq)
) STRICT;

CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    turn_id TEXT NOT NULL,
    submission_id TEXT NOT NULL,
    model TEXT NOT NULL,
    limits TEXT NOT NULL,
    iterations INTEGER NOT NULL DEFAULT 0,
    started_seq INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_seq INTEGER,
    ended_at INTEGER,
    outcome TEXT, -- the type of the terminal event
    UNIQUE (session, turn_id)
) STRICT;
CREATE UNIQUE INDEX turns_open ON turns (session) WHERE ended_seq IS NULL;

-- What makes a submission run at most once. `params` are kept while something may start from them.
CREATE TABLE submissions (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    submission_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    result TEXT NOT NULL,
    params TEXT,
    turn_id TEXT, -- the turn it will start
    place TEXT CHECK (place IN ('queued', 'steered')),
    position INTEGER, -- in the queue, from 1
    UNIQUE (session, submission_id)
) STRICT;
CREATE INDEX submissions_waiting ON submissions (session, place, position) WHERE place IS NOT NULL;

CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    call_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    item_id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('called', 'started', 'completed', 'discarded')),
    summary TEXT,
    risk TEXT,
    status TEXT,
    called_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    UNIQUE (session, call_id)
) STRICT;
CREATE INDEX calls_running ON calls (session) WHERE state = 'started';

CREATE TABLE prompts (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    prompt_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('permission', 'question')),
    json TEXT NOT NULL,
    resolution TEXT, -- the event's own fields
    resolved_at INTEGER
) STRICT;
CREATE INDEX prompts_by_session ON prompts (session);
CREATE INDEX prompts_open ON prompts (session, id) WHERE resolution IS NULL;

-- The row stays when the lease is given back, so that the epoch never falls.
CREATE TABLE leases (
    session INTEGER PRIMARY KEY REFERENCES sessions (id),
    owner TEXT,
    pid INTEGER NOT NULL,
    process_started INTEGER NOT NULL, -- ticks since boot, as the system counts them
    host TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- Answers that are remembered. Scope `session` has a session, `project` a directory.
CREATE TABLE rules (
    id INTEGER PRIMARY KEY,
    rule_id TEXT NOT NULL UNIQUE,
    session INTEGER REFERENCES sessions (id),
    cwd TEXT,
    scope TEXT NOT NULL CHECK (scope IN ('session', 'project', 'always')),
    rule TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rules_by_session ON rules (session);

CREATE TABLE memories (
    id INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL UNIQUE,
    session INTEGER REFERENCES sessions (id),
    state TEXT NOT NULL CHECK (state IN ('candidate', 'accepted', 'rejected')),
    text TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;
CREATE INDEX memories_by_session ON memories (session);

CREATE TABLE skills (
    id INTEGER PRIMARY KEY,
    skill_id TEXT NOT NULL UNIQUE,
    session INTEGER REFERENCES sessions (id),
    state TEXT NOT NULL CHECK (state IN ('candidate', 'accepted', 'rejected')),
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    steps TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT;
CREATE INDEX skills_by_session ON skills (session);

-- Former contents of files that tools changed.
CREATE TABLE file_versions (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    call_id TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT, -- absent: the file was not there
    content BLOB,
    made_at INTEGER NOT NULL
) STRICT;
CREATE INDEX file_versions_by_session ON file_versions (session);

CREATE TABLE files_seen (
    session INTEGER NOT NULL REFERENCES sessions (id),
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (session, path)
) STRICT;

-- What each turn used so far.
CREATE TABLE usage (
    session INTEGER NOT NULL REFERENCES sessions (id),
    turn_id TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost_usd REAL,
    PRIMARY KEY (session, turn_id)
) STRICT;

-- The full-text index holds no text of its own: it reads it from the items. It is filled when
-- there is nothing else to do, up to the event `indexed_event`.
CREATE VIEW item_texts AS
SELECT items.id AS id, (
    SELECT group_concat(part.value ->> '$.text', char(10))
    FROM json_each(items.json, '$.content') AS part
    WHERE part.value ->> '$.type' = 'text'
) AS text
FROM items;
CREATE VIRTUAL TABLE text_index USING fts5 (
    text, content = 'item_texts', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE index_state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    indexed_event INTEGER NOT NULL
) STRICT;
INSERT INTO index_state VALUES (1, 0);
