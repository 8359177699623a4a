-- Event polling: clients and their access tokens, the keys event tokens are signed with, the inbox of each client.
-- All times are milliseconds since the epoch. Secrets are kept hashed (what callers show us) or sealed (what we use).

-- Who polls: third parties of a bank, receivers of shared signals. A suspended client is refused everywhere and its
-- events are kept.
CREATE TABLE event_clients (
    id                         INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id                  TEXT NOT NULL UNIQUE,
    name                       TEXT NOT NULL,
    token_endpoint_auth_method TEXT NOT NULL CHECK (token_endpoint_auth_method IN
                                   ('tls_client_auth', 'private_key_jwt', 'client_secret_basic')),
    secret_hash                BLOB,
    jwks                       TEXT,
    tls_subject_dn             TEXT,
    scope                      TEXT NOT NULL,
    set_signing_alg            TEXT NOT NULL CHECK (set_signing_alg IN ('PS256', 'ES256', 'EdDSA', 'RS256')),
    created_at                 INTEGER NOT NULL,
    suspended_at               INTEGER,
    last_poll_at               INTEGER
);

-- Access tokens we gave out. A token bound to a certificate is good only together with it.
CREATE TABLE client_access_tokens (
    token_hash BLOB PRIMARY KEY,
    client     INTEGER NOT NULL REFERENCES event_clients (id),
    scope      TEXT NOT NULL,
    thumbprint TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX ix_client_access_tokens_client ON client_access_tokens (client);
CREATE INDEX ix_client_access_tokens_expires ON client_access_tokens (expires_at);

-- The keys event tokens are signed with. Of each algorithm the newest whose time has come (signs_from) signs: a key is
-- published before it signs. One that was followed by another is published until published_until, and longer if
-- tokens it signed are still to be fetched; a withdrawn one no more.
CREATE TABLE event_signing_keys (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    kid             TEXT NOT NULL UNIQUE,
    alg             TEXT NOT NULL CHECK (alg IN ('PS256', 'ES256', 'EdDSA', 'RS256')),
    public_jwk      TEXT NOT NULL,
    sealed_key      BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    signs_from      INTEGER NOT NULL,
    published_until INTEGER,
    withdrawn_at    INTEGER
);
CREATE INDEX ix_event_signing_keys_alg ON event_signing_keys (alg, id);

-- Which rows of the inbox somebody is going to sign, so that several nodes share the work. Says nothing about who may.
CREATE TABLE event_signing_claims (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    first_id      INTEGER NOT NULL,
    last_id       INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL
);

-- One row an event and client, in the order of publishing: how it stands, and nothing large, because what is delivered
-- and acknowledged most is changed most. A jti is never used again.
--   unsigned ─▶ ready ─▶ acknowledged ─▶ evicted
--                 └────▶ errored ─▶ ready (released) | acknowledged | dropped ─▶ evicted
CREATE TABLE event_inbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    client          INTEGER NOT NULL REFERENCES event_clients (id),
    jti             TEXT NOT NULL UNIQUE,
    txn             TEXT NOT NULL,
    event_types     TEXT NOT NULL,
    -- By OR: of a list of more than two SQLite makes a table, anew at every write.
    status          TEXT NOT NULL CHECK (status = 'unsigned' OR status = 'ready' OR status = 'acknowledged'
                                         OR status = 'errored' OR status = 'dropped'),
    profile         TEXT NOT NULL CHECK (profile IN ('open-banking', 'shared-signals')),
    stream          INTEGER,
    kid             TEXT,
    created_at      INTEGER NOT NULL,
    -- With a delivery window, not handed out again before then.
    visible_at      INTEGER NOT NULL DEFAULT 0,
    -- When it was acknowledged or dropped: from then on its retention counts.
    finished_at     INTEGER,
    errored_at      INTEGER,
    err             TEXT,
    err_description TEXT,
    -- Real Time Notification: when to try next (NULL: not to be pushed, or no more), how often it was tried, and
    -- what came of the last time.
    push_at         INTEGER,
    push_attempts   INTEGER NOT NULL DEFAULT 0,
    push_problem    TEXT
);
-- All that choosing looks at is in the index, so that a poll reads neighbours, however many other clients there are.
CREATE INDEX ix_event_inbox_open ON event_inbox (client, profile, id, status, visible_at)
    WHERE status IN ('unsigned', 'ready');
CREATE INDEX ix_event_inbox_unsigned ON event_inbox (id) WHERE status = 'unsigned';
CREATE INDEX ix_event_inbox_errored ON event_inbox (client, profile, id, status) WHERE status = 'errored';
CREATE INDEX ix_event_inbox_finished ON event_inbox (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_event_inbox_push ON event_inbox (client, profile, id) WHERE status = 'ready' AND push_at IS NOT NULL;
CREATE INDEX ix_event_inbox_push_at ON event_inbox (push_at) WHERE status = 'ready' AND push_at IS NOT NULL;

-- The claims while an event is unsigned, then its token, whose bytes never change. The place is client * 2^40 + id of
-- the inbox: a client's texts lie side by side, and a change of state does not move a thousand bytes about.
CREATE TABLE event_texts (
    place INTEGER PRIMARY KEY,
    jti   TEXT NOT NULL,
    text  TEXT NOT NULL
);

-- Each poll that handed out something for the first time, with the last of it. Events are handed out oldest first, so
-- everything up to there has been sent: when first, says the earliest row that reaches it.
CREATE TABLE event_hand_outs (
    client  INTEGER NOT NULL REFERENCES event_clients (id),
    profile TEXT NOT NULL,
    through INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (client, profile, through)
) WITHOUT ROWID;
CREATE INDEX ix_event_hand_outs_sent ON event_hand_outs (sent_at);

-- What a client asked for itself. Without a row it is sent events of all types, by polling.
CREATE TABLE event_subscriptions (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    public_id    TEXT NOT NULL UNIQUE,
    client       INTEGER NOT NULL UNIQUE REFERENCES event_clients (id),
    callback_url TEXT,
    version      TEXT NOT NULL,
    event_types  TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL
);

-- Where a client has its events pushed to, one receiver for each of the two profiles. A process that pushes claims the
-- receiver for as long as its lease: its events go one at a time, oldest first, whichever process it is. After failures
-- in a row the receiver as a whole waits until retry_at. A receiver that is held is sent events up to open_through and
-- nothing beyond.
CREATE TABLE event_receivers (
    client               INTEGER NOT NULL REFERENCES event_clients (id),
    profile              TEXT NOT NULL CHECK (profile IN ('open-banking', 'shared-signals')),
    url                  TEXT NOT NULL,
    sealed_authorization BLOB,
    open_through         INTEGER,
    failures             INTEGER NOT NULL DEFAULT 0,
    retry_at             INTEGER NOT NULL DEFAULT 0,
    claimed_by           TEXT,
    claimed_until        INTEGER,
    problem              TEXT,
    last_tried_at        INTEGER,
    last_delivered_at    INTEGER,
    PRIMARY KEY (client, profile)
) WITHOUT ROWID;

-- A receiver's stream of shared signals. A paused one keeps what is published, a disabled one is sent nothing. Where we
-- stopped it ourselves, what was left until then is still handed out, and the event that says so: up to open_through.
CREATE TABLE event_streams (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    public_id        TEXT NOT NULL UNIQUE,
    client           INTEGER NOT NULL UNIQUE REFERENCES event_clients (id),
    status           TEXT NOT NULL CHECK (status IN ('enabled', 'paused', 'disabled')),
    status_reason    TEXT,
    events_requested TEXT,
    events_delivered TEXT NOT NULL,
    open_through     INTEGER,
    description      TEXT,
    all_subjects     INTEGER NOT NULL DEFAULT 1,
    verified_at      INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
);
CREATE TABLE event_stream_subjects (
    stream       INTEGER NOT NULL REFERENCES event_streams (id) ON DELETE CASCADE,
    subject_hash BLOB NOT NULL,
    subject      TEXT NOT NULL,
    is_added     INTEGER NOT NULL,
    verified     INTEGER NOT NULL DEFAULT 1,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (stream, subject_hash)
) WITHOUT ROWID;
CREATE INDEX ix_event_stream_subjects_hash ON event_stream_subjects (subject_hash);
