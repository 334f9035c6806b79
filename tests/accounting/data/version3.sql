BEGIN TRANSACTION;
CREATE TABLE dptune_charges (
	seq INTEGER NOT NULL, 
	scope TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	nth INTEGER NOT NULL, 
	mu DOUBLE, 
	mechanism TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	digest TEXT NOT NULL, 
	description JSON NOT NULL, 
	mu_squared_so_far TEXT NOT NULL, 
	seeded_so_far INTEGER NOT NULL, 
	hash TEXT NOT NULL, 
	charged_at TEXT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (scope, "key"), 
	UNIQUE (scope, kind, nth), 
	UNIQUE (scope, seq)
);
INSERT INTO "dptune_charges" VALUES(1,'study','value/1','value',1,0.25,'Gaussian mechanism on the mean',1,'d','{"mu": 0.25, "sensitivity": 0.1, "sigma": 0.4, "dimension": 1, "statistic": "mean", "note": {"parameters": {"C": 1.5}}}','0.0625',0,'5262de396179c4c22645ab7ed6d69055c5f5c0158ddc263d7a49257eb0506211','2026-11-24T09:15:03+00:00');
INSERT INTO "dptune_charges" VALUES(2,'study','value/2','value',2,0.25,'Gaussian mechanism on the mean',1,'d','{"mu": 0.25, "sensitivity": 0.1, "sigma": 0.4, "dimension": 1, "statistic": "mean", "note": {"parameters": {"C": 1.5}}}','0.1250',0,'a037e83dc0383597bc56aa0fc7fca94cc2c3568330406415225909b835a8b74e','2026-11-24T09:15:03+00:00');
CREATE TABLE dptune_facts (
	scope TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value JSON NOT NULL, 
	PRIMARY KEY (scope, name)
);
INSERT INTO "dptune_facts" VALUES('','n','{"is": 500}');
INSERT INTO "dptune_facts" VALUES('study','plan','{"is": {"mu": 0.5, "method": "old"}}');
CREATE TABLE dptune_ledger (
	id INTEGER NOT NULL, 
	identity TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	mu DOUBLE, 
	"plan" JSON, 
	stated_epsilon DOUBLE, 
	stated_delta DOUBLE, 
	dataset TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	adjacency TEXT NOT NULL, 
	trust_model TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	versions JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "dptune_ledger" VALUES(1,'d2c38639e9268c4df251b34d087bd937',3,0.837858757089998,NULL,4.0,1.0e-06,'old patients','one person','replace all records of one unit, with n public','trusted curator: one process reads the losses; everybody else sees noisy releases only','2026-11-24T09:15:03+00:00','{"python": "3.11.7", "dptune": "0.2.0", "opendp": "0.16.0", "sqlalchemy": "2.1.9", "numpy": "2.4.6", "scipy": "1.17.1", "dp-accounting": "0.6.0"}');
CREATE TABLE dptune_releases (
	charge INTEGER NOT NULL, 
	value JSON NOT NULL, 
	released_at TEXT NOT NULL, 
	PRIMARY KEY (charge), 
	FOREIGN KEY(charge) REFERENCES dptune_charges (seq)
);
INSERT INTO "dptune_releases" VALUES(1,'[0.5]','2026-11-24T09:15:03+00:00');
INSERT INTO "dptune_releases" VALUES(2,'[0.5]','2026-11-24T09:15:03+00:00');
CREATE VIEW dptune_spending AS
SELECT c.seq, c.scope, c.key, c.mu, CAST(c.mu_squared_so_far AS DOUBLE PRECISION) AS mu_squared_so_far,
       c.mechanism, c.private, c.charged_at, r.released_at
FROM dptune_charges c LEFT JOIN dptune_releases r ON r.charge = c.seq;
CREATE TRIGGER dptune_ledger_no_UPDATE BEFORE UPDATE ON dptune_ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_ledger_no_DELETE BEFORE DELETE ON dptune_ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_ledger_no_REPLACE BEFORE INSERT ON dptune_ledger
WHEN EXISTS (SELECT 1 FROM dptune_ledger WHERE (id = NEW.id))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_facts_no_UPDATE BEFORE UPDATE ON dptune_facts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_facts_no_DELETE BEFORE DELETE ON dptune_facts
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_facts_no_REPLACE BEFORE INSERT ON dptune_facts
WHEN EXISTS (SELECT 1 FROM dptune_facts WHERE (scope = NEW.scope AND name = NEW.name))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_charges_no_UPDATE BEFORE UPDATE ON dptune_charges
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_charges_no_DELETE BEFORE DELETE ON dptune_charges
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_charges_no_REPLACE BEFORE INSERT ON dptune_charges
WHEN EXISTS (SELECT 1 FROM dptune_charges WHERE (scope = NEW.scope AND kind = NEW.kind AND nth = NEW.nth) OR (seq = NEW.seq) OR (scope = NEW.scope AND seq = NEW.seq) OR (scope = NEW.scope AND key = NEW.key))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_UPDATE BEFORE UPDATE ON dptune_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_DELETE BEFORE DELETE ON dptune_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_REPLACE BEFORE INSERT ON dptune_releases
WHEN EXISTS (SELECT 1 FROM dptune_releases WHERE (charge = NEW.charge))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
