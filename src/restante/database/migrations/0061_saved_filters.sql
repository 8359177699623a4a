-- Filters of the console's lists that a person has saved under a name. list: the name of the list; query: the parameters
-- of its address.
CREATE TABLE saved_filters (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    list       TEXT NOT NULL,
    name       TEXT NOT NULL,
    query      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (user_id, list, name)
);
