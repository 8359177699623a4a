-- name: insert_key
-- A new key: published at once, signing when its time has come.
INSERT INTO event_signing_keys (kid, alg, public_jwk, sealed_key, created_at, signs_from)
VALUES (:kid, :alg, :public_jwk, :sealed_key, :now_ms, :signs_from)

-- name: signing_key
-- The newest of an algorithm whose time has come.
SELECT kid, alg, sealed_key FROM event_signing_keys
WHERE alg = :alg AND withdrawn_at IS NULL AND signs_from <= :now_ms
ORDER BY signs_from DESC, id DESC LIMIT 1

-- name: retire
-- Those before a new key: published until it has taken over and the overlap is past.
UPDATE event_signing_keys SET published_until = :published_until
WHERE alg = :alg AND withdrawn_at IS NULL AND (published_until IS NULL OR published_until > :published_until)

-- name: due_algorithms
-- Algorithms in use whose newest key was made before then.
SELECT alg FROM event_signing_keys WHERE withdrawn_at IS NULL
GROUP BY alg HAVING max(created_at) <= :before ORDER BY alg

-- name: key
-- One key.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid

-- name: key_for_update
-- One key that is to be withdrawn.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid

-- name: key_for_update@postgres
-- Two who withdraw it at once: the second waits, and finds it withdrawn.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid FOR UPDATE

-- name: withdraw
-- A key that has leaked.
UPDATE event_signing_keys SET withdrawn_at = :now_ms WHERE kid = :kid

-- name: end_lead
-- A key that was to sign soon takes over now.
UPDATE event_signing_keys SET signs_from = :now_ms
WHERE alg = :alg AND withdrawn_at IS NULL AND signs_from > :now_ms

-- name: sign_again
-- Tokens of a withdrawn key that nobody was handed or pushed. The token stays until it is replaced: its claims are in
-- it. Everything up to the mark of the client's last poll was handed out.
UPDATE event_inbox SET status = 'unsigned', push_at = NULL
WHERE kid = :kid AND status = 'ready' AND push_attempts = 0
  AND NOT EXISTS (SELECT 1 FROM event_hand_outs h
                  WHERE h.client = event_inbox.client AND h.profile = event_inbox.profile AND h.through >= event_inbox.id)

-- name: published_keys
-- What who verifies may know.
SELECT public_jwk FROM event_signing_keys WHERE withdrawn_at IS NULL ORDER BY id DESC

-- name: all_keys
-- What operators may know.
SELECT kid, alg, created_at, signs_from, published_until, withdrawn_at FROM event_signing_keys ORDER BY id DESC

-- name: retired_keys
-- Keys that need not be published any longer, and those that were withdrawn a while ago.
SELECT kid FROM event_signing_keys
WHERE published_until <= :now_ms ORDER BY id LIMIT :limit

-- name: open_token_of
-- A row if a token of the key is still to be fetched.
SELECT 1 AS found FROM event_inbox WHERE kid = :kid AND status IN ('ready', 'errored', 'unsigned') LIMIT 1

-- name: delete_key
-- A key that verifies nothing any more is no use to anybody but a thief.
DELETE FROM event_signing_keys WHERE kid = :kid
