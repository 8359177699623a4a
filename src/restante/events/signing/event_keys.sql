-- name: insert_key
-- Adds a key: published at once, signing from `signs_from`.
INSERT INTO event_signing_keys (kid, alg, public_jwk, sealed_key, created_at, signs_from)
VALUES (:kid, :alg, :public_jwk, :sealed_key, :now_ms, :signs_from)

-- name: signing_key
-- The newest key of an algorithm whose signing time has started.
SELECT kid, alg, sealed_key FROM event_signing_keys
WHERE alg = :alg AND withdrawn_at IS NULL AND signs_from <= :now_ms
ORDER BY signs_from DESC, id DESC LIMIT 1

-- name: algorithms_of_clients
-- The algorithms that clients have registered for their events.
SELECT DISTINCT set_signing_alg AS alg FROM event_clients ORDER BY alg

-- name: retire
-- Ends the publication of all older keys of the algorithm at the given time.
UPDATE event_signing_keys SET published_until = :published_until
WHERE alg = :alg AND withdrawn_at IS NULL AND (published_until IS NULL OR published_until > :published_until)

-- name: due_algorithms
-- Algorithms in use whose newest key is older than `before`.
SELECT alg FROM event_signing_keys WHERE withdrawn_at IS NULL
GROUP BY alg HAVING max(created_at) <= :before ORDER BY alg

-- name: key
-- One key.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid

-- name: key_for_update
-- A key that is about to be withdrawn.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid

-- name: key_for_update@postgres
-- Locks the row: of two concurrent withdrawals, the second waits and finds the key withdrawn.
SELECT alg, withdrawn_at FROM event_signing_keys WHERE kid = :kid FOR UPDATE

-- name: withdraw
-- Withdraws a key.
UPDATE event_signing_keys SET withdrawn_at = :now_ms WHERE kid = :kid

-- name: end_lead
-- Ends the lead of a key that does not sign yet.
UPDATE event_signing_keys SET signs_from = :now_ms
WHERE alg = :alg AND withdrawn_at IS NULL AND signs_from > :now_ms

-- name: sign_again
-- Unsigns the tokens of a withdrawn key that were neither delivered nor pushed. The token text stays until it is
-- replaced, because it holds the claims. All events up to the client's newest hand-out are delivered.
UPDATE event_inbox SET status = 'unsigned', push_at = NULL
WHERE kid = :kid AND status = 'ready' AND push_attempts = 0
  AND NOT EXISTS (SELECT 1 FROM event_hand_outs h
                  WHERE h.client = event_inbox.client AND h.profile = event_inbox.profile AND h.through >= event_inbox.id)

-- name: published_keys
-- The public keys for the JWKS.
SELECT public_jwk FROM event_signing_keys WHERE withdrawn_at IS NULL ORDER BY id DESC

-- name: all_keys
-- All keys, without private parts, for operators.
SELECT kid, alg, created_at, signs_from, published_until, withdrawn_at FROM event_signing_keys ORDER BY id DESC

-- name: retired_keys
-- Keys whose publication has ended, withdrawn ones too.
SELECT kid FROM event_signing_keys
WHERE published_until <= :now_ms ORDER BY id LIMIT :limit

-- name: open_token_of
-- Finds a token of the key that is not acknowledged.
SELECT 1 AS found FROM event_inbox WHERE kid = :kid AND status IN ('ready', 'errored', 'unsigned') LIMIT 1

-- name: delete_key
-- Deletes a key that no token needs.
DELETE FROM event_signing_keys WHERE kid = :kid
