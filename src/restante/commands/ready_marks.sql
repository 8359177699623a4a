-- name: raise_mark
-- Below this rank nothing of the type can be handed out in the zone. If nothing at all can be, the mark is where it was
-- at its highest: what comes next is likely to come behind that.
INSERT INTO ready_marks (zone_id, command_type, rank, frontier) VALUES (:zone_id, :command_type, :rank, :rank)
ON CONFLICT (zone_id, command_type) DO UPDATE
SET rank = CASE WHEN :is_empty = 1 AND ready_marks.frontier > excluded.rank THEN ready_marks.frontier
                ELSE excluded.rank END,
    frontier = CASE WHEN ready_marks.frontier > excluded.rank THEN ready_marks.frontier ELSE excluded.rank END
