-- What limits attempts to sign in, shared by all workers and nodes. No e-mail and no address is stored, only keyed hashes.

-- Token buckets, each stored as the time at which it is full again. A row whose time has passed is not needed.
CREATE TABLE sign_in_budgets (
    budget  BLOB PRIMARY KEY,
    full_at INTEGER NOT NULL
);
CREATE INDEX ix_sign_in_budgets_full ON sign_in_budgets (full_at);

-- The addresses from which a person has signed in lately. Attempts from there have a budget of their own.
CREATE TABLE known_addresses (
    user_id      INTEGER NOT NULL REFERENCES users (id),
    address_hash BLOB NOT NULL,
    last_at      INTEGER NOT NULL,
    PRIMARY KEY (user_id, address_hash)
);
CREATE INDEX ix_known_addresses_last ON known_addresses (last_at);
