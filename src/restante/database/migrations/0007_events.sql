-- Event polling: clients and their access tokens, the keys that sign event tokens, the inbox of each client. All
-- times are milliseconds since the epoch. Secrets are hashed (those that callers present) or sealed (those that the
-- server uses).

-- Clients: third parties of a bank, receivers of Shared Signals. A suspended client is refused everywhere; its events
-- are kept.
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

-- Issued access tokens. A token that is bound to a certificate is valid only together with it.
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

-- The keys that sign event tokens. For each algorithm the newest key whose signs_from has passed signs: a key is
-- published before it signs. A replaced key stays published until published_until, and longer while tokens signed
-- with it are undelivered; a withdrawn key is not published.
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

-- Leases on inbox rows to be signed, so that several nodes share the work. They are hints: they do not exclude
-- others.
CREATE TABLE event_signing_claims (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    first_id      INTEGER NOT NULL,
    last_id       INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL
);

-- One row per event and client, in the order of publishing. It holds the state and nothing large, because delivery
-- and acknowledgement update it. A jti is never used again.
--   unsigned ─▶ ready ─▶ acknowledged ─▶ evicted
--                 └────▶ errored ─▶ ready (released) | acknowledged | dropped ─▶ evicted
CREATE TABLE event_inbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    client          INTEGER NOT NULL REFERENCES event_clients (id),
    jti             TEXT NOT NULL UNIQUE,
    txn             TEXT NOT NULL,
    event_types     TEXT NOT NULL,
    -- OR instead of IN: for a list of more than two SQLite would build a table at every write.
    status          TEXT NOT NULL CHECK (status = 'unsigned' OR status = 'ready' OR status = 'acknowledged'
                                         OR status = 'errored' OR status = 'dropped'),
    profile         TEXT NOT NULL CHECK (profile IN ('open-banking', 'shared-signals')),
    stream          INTEGER,
    kid             TEXT,
    created_at      INTEGER NOT NULL,
    -- With a delivery window: not delivered again before this time.
    visible_at      INTEGER NOT NULL DEFAULT 0,
    -- When it was acknowledged or dropped: its retention begins then.
    finished_at     INTEGER,
    errored_at      INTEGER,
    err             TEXT,
    err_description TEXT,
    -- Real Time Notification: the time of the next attempt (NULL: none), the number of attempts, and the result of
    -- the last one.
    push_at         INTEGER,
    push_attempts   INTEGER NOT NULL DEFAULT 0,
    push_problem    TEXT
);
-- A covering index for polls: a poll reads adjacent entries, however many other clients there are.
CREATE INDEX ix_event_inbox_open ON event_inbox (client, profile, id, status, visible_at)
    WHERE status IN ('unsigned', 'ready');
CREATE INDEX ix_event_inbox_unsigned ON event_inbox (id) WHERE status = 'unsigned';
CREATE INDEX ix_event_inbox_errored ON event_inbox (client, profile, id, status) WHERE status = 'errored';
CREATE INDEX ix_event_inbox_finished ON event_inbox (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX ix_event_inbox_push ON event_inbox (client, profile, id) WHERE status = 'ready' AND push_at IS NOT NULL;
CREATE INDEX ix_event_inbox_push_at ON event_inbox (push_at) WHERE status = 'ready' AND push_at IS NOT NULL;

-- The token claims of an unsigned event, then its token, whose bytes never change. place is client * 2^40 + the inbox
-- id: the texts of a client are adjacent, and a change of state does not rewrite a thousand bytes.
CREATE TABLE event_texts (
    place INTEGER PRIMARY KEY,
    jti   TEXT NOT NULL,
    text  TEXT NOT NULL
);

-- Each poll that delivered events for the first time, with the last of them. Events are delivered oldest first, so
-- all events up to that one have been sent; the earliest row that reaches an event gives the time of its first
-- delivery.
CREATE TABLE event_hand_outs (
    client  INTEGER NOT NULL REFERENCES event_clients (id),
    profile TEXT NOT NULL,
    through INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (client, profile, through)
) WITHOUT ROWID;
CREATE INDEX ix_event_hand_outs_sent ON event_hand_outs (sent_at);

-- The subscription of a client. A client without a row gets events of all types, by polling.
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

-- The receivers to which the events of a client are pushed, one for each of the two profiles. A process acquires a
-- lease on a receiver to push to it: events are sent one at a time, oldest first, by one process. After consecutive
-- failures the whole receiver waits until retry_at. A held receiver gets events up to open_through only.
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

-- The Shared Signals stream of a receiver. A paused stream keeps new events; a disabled stream gets none. If the
-- server stopped the stream, the events until then and the event about the stop are still delivered: up to
-- open_through.
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
