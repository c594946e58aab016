CREATE TABLE IF NOT EXISTS contributions (
    id INTEGER PRIMARY KEY, lineage TEXT NOT NULL, agent TEXT NOT NULL, source TEXT NOT NULL,
    digest TEXT NOT NULL, body BLOB NOT NULL, at REAL NOT NULL, UNIQUE (lineage, agent, source)
);
CREATE TABLE IF NOT EXISTS counts (
    id INTEGER PRIMARY KEY, lineage TEXT NOT NULL, agent TEXT NOT NULL, total TEXT NOT NULL,
    digest TEXT NOT NULL, body BLOB NOT NULL, at REAL NOT NULL, UNIQUE (lineage, agent)
);
CREATE TABLE IF NOT EXISTS versions (
    version INTEGER PRIMARY KEY, lineage TEXT NOT NULL, total TEXT NOT NULL, samples INTEGER NOT NULL,
    changes INTEGER NOT NULL, sha256 TEXT NOT NULL, at REAL NOT NULL
);
DELETE FROM meta WHERE key = 'summaries';
