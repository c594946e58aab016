CREATE TABLE IF NOT EXISTS meetings (
    session BLOB PRIMARY KEY, round INTEGER NOT NULL, reason TEXT NOT NULL, agreement BLOB NOT NULL,
    shapes TEXT NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS meetings_of_rounds ON meetings (round) WHERE round > 0;
CREATE TABLE IF NOT EXISTS minutes (
    id INTEGER PRIMARY KEY, session BLOB NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL, blob INTEGER
);
CREATE INDEX IF NOT EXISTS minutes_of ON minutes (session, id);
