BEGIN TRANSACTION;
CREATE TABLE dptune_charges (
	seq INTEGER NOT NULL, 
	scope TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	mu DOUBLE, 
	mechanism TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	digest TEXT NOT NULL, 
	description JSON NOT NULL, 
	charged_at TEXT NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (scope, "key")
);
INSERT INTO "dptune_charges" VALUES(1,'study','value/0',0.5,'Gaussian mechanism on the mean clipped loss of one evaluated point',1,'dfa74804ae0b167654327925d917b7d70bc16568fd002eeebb320612a7cad7c3/0.2/0.40000040000072756','{"mu": 0.5, "sensitivity": 0.2, "sigma": 0.40000040000072756, "dimension": 1, "statistic": "mean clipped loss of one evaluated point", "note": {"parameters": {"C": 0.5}}}','2026-11-22T03:12:09+00:00');
INSERT INTO "dptune_charges" VALUES(2,'study','value/1',0.5,'Gaussian mechanism on the mean clipped loss of one evaluated point',1,'feb239d389e4b8970fb835476bde5315d1462f16e4f3454f85c471f48ce631cc/0.2/0.40000040000072756','{"mu": 0.5, "sensitivity": 0.2, "sigma": 0.40000040000072756, "dimension": 1, "statistic": "mean clipped loss of one evaluated point", "note": {"parameters": {"C": 1.5}}}','2026-11-22T03:12:09+00:00');
INSERT INTO "dptune_charges" VALUES(3,'study','value/2',0.5,'Gaussian mechanism on the mean clipped loss of one evaluated point',1,'8eca88633b7e1a6bf3ca1dc11c831bbbee078044907af1585ddf0e409b47f471/0.2/0.40000040000072756','{"mu": 0.5, "sensitivity": 0.2, "sigma": 0.40000040000072756, "dimension": 1, "statistic": "mean clipped loss of one evaluated point", "note": {"parameters": {"C": 2.5}}}','2026-11-22T03:12:09+00:00');
CREATE TABLE dptune_facts (
	scope TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value JSON NOT NULL, 
	PRIMARY KEY (scope, name)
);
INSERT INTO "dptune_facts" VALUES('','n','{"is": 5}');
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
INSERT INTO "dptune_ledger" VALUES(1,'f54c50c589f4cefee30fedf7ebd732d3',2,2.0,NULL,NULL,NULL,'old patients','one patient','replace all records of one unit, with n public','trusted curator: one process reads the losses; everybody else sees noisy releases only','2026-11-22T03:12:09+00:00','{"python": "3.11.7", "dptune": "0.1.0", "opendp": "0.16.0", "sqlalchemy": "2.1.9", "numpy": "2.4.6", "scipy": "1.17.1", "dp-accounting": "0.6.0"}');
CREATE TABLE dptune_releases (
	charge INTEGER NOT NULL, 
	value JSON NOT NULL, 
	released_at TEXT NOT NULL, 
	PRIMARY KEY (charge), 
	FOREIGN KEY(charge) REFERENCES dptune_charges (seq)
);
INSERT INTO "dptune_releases" VALUES(1,'[0.6849555616373957]','2026-11-22T03:12:09+00:00');
INSERT INTO "dptune_releases" VALUES(2,'[0.5260100923322374]','2026-11-22T03:12:09+00:00');
INSERT INTO "dptune_releases" VALUES(3,'[-0.18518580524030492]','2026-11-22T03:12:09+00:00');
CREATE INDEX dptune_charges_mu ON dptune_charges (mu, private);
CREATE VIEW dptune_spending AS
SELECT c.seq, c.scope, c.key, c.mu, SUM(c.mu * c.mu) OVER (ORDER BY c.seq) AS mu_squared_so_far,
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
WHEN EXISTS (SELECT 1 FROM dptune_charges WHERE (scope = NEW.scope AND key = NEW.key) OR (seq = NEW.seq))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_UPDATE BEFORE UPDATE ON dptune_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_DELETE BEFORE DELETE ON dptune_releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_releases_no_REPLACE BEFORE INSERT ON dptune_releases
WHEN EXISTS (SELECT 1 FROM dptune_releases WHERE (charge = NEW.charge))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
