-- Secret parameters of commands and rules, sealed under the master key. params and action_parameters have a mask in their
-- place. NULL: the row has no secret parameter.
ALTER TABLE miner_commands ADD COLUMN sealed_params BLOB;
ALTER TABLE automation_rules ADD COLUMN sealed_params BLOB;

-- 0: rows of an older version may hold secret parameters in plain text. The server seals them when it starts.
INSERT INTO revisions (name, value) VALUES ('sealed_params', 0);
