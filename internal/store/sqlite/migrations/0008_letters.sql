-- creates: letter
-- cost: mark heavy: reads all of mark
-- Dead letters about which nothing has been done: neither discarded nor repeated with success. A list of them has no others to go past,
-- however many there are. Rows come and go with those of finished (place.go, purge.go), and with what is noted:
CREATE TABLE letter (
    target INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (target, seq)
) WITHOUT ROWID;
INSERT INTO letter SELECT target, seq FROM finished WHERE status = 4 AND status <> 3
    AND NOT EXISTS (SELECT 1 FROM mark WHERE delivery = seq AND (discarded_at IS NOT NULL OR replay_result = 3));

CREATE TRIGGER letter_noted AFTER INSERT ON mark WHEN NEW.discarded_at IS NOT NULL OR NEW.replay_result IS 3 BEGIN
    DELETE FROM letter WHERE target = (SELECT target FROM finished WHERE seq = NEW.delivery) AND seq = NEW.delivery;
END;

-- One that was repeated with success, and is once more without, is a dead letter again.
CREATE TRIGGER letter_changed AFTER UPDATE ON mark BEGIN
    DELETE FROM letter WHERE (NEW.discarded_at IS NOT NULL OR NEW.replay_result IS 3)
        AND target = (SELECT target FROM finished WHERE seq = NEW.delivery) AND seq = NEW.delivery;
    INSERT INTO letter SELECT target, seq FROM finished f WHERE seq = NEW.delivery AND status = 4
        AND NEW.discarded_at IS NULL AND NEW.replay_result IS NOT 3
        AND NOT EXISTS (SELECT 1 FROM letter l WHERE l.target = f.target AND l.seq = f.seq); -- not OR IGNORE, which an upsert overrules
END;
