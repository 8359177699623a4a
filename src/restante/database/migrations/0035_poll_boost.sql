-- What was called a rollout is a poll boost: faster polling of the whole fleet for a limited time.

ALTER TABLE rollout RENAME TO poll_boost;
