-- name: raise_watermark
-- No command of the type in the zone is ready below this rank. If none is ready at all, the watermark returns to the highest
-- rank it ever had: the next command most likely comes after that.
INSERT INTO ready_marks (zone_id, command_type, rank, frontier) VALUES (:zone_id, :command_type, :rank, :rank)
ON CONFLICT (zone_id, command_type) DO UPDATE
SET rank = CASE WHEN :is_empty = 1 AND ready_marks.frontier > excluded.rank THEN ready_marks.frontier
                ELSE excluded.rank END,
    frontier = CASE WHEN ready_marks.frontier > excluded.rank THEN ready_marks.frontier ELSE excluded.rank END
