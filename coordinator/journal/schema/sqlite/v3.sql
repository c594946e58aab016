DROP INDEX IF EXISTS uploads_by_status;
CREATE INDEX IF NOT EXISTS uploads_held ON uploads (round, agent) WHERE status = 'held';
