BEGIN TRANSACTION;
CREATE TABLE dptune_local (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, cap REAL NOT NULL, identity TEXT NOT NULL);
INSERT INTO "dptune_local" VALUES(1,2,2.0,'76ec236bb96d1a4165ec0ad10792c2b0');
CREATE TABLE dptune_replies (
    user TEXT NOT NULL, key TEXT NOT NULL, epsilon REAL NOT NULL, private INTEGER NOT NULL, mechanism TEXT NOT NULL,
    PRIMARY KEY (user, key));
INSERT INTO "dptune_replies" VALUES('ann','1',0.5,1,'{"epsilon": 0.5, "high": 1.0, "invalid": -1.0, "low": -1.0, "mechanism": "CTL", "private": true}');
INSERT INTO "dptune_replies" VALUES('ann','2',0.5,1,'{"epsilon": 0.5, "high": 1.0, "invalid": -1.0, "low": -1.0, "mechanism": "CTL", "private": true}');
INSERT INTO "dptune_replies" VALUES('bob','1',0.5,1,'{"epsilon": 0.5, "high": 1.0, "invalid": -1.0, "low": -1.0, "mechanism": "CTL", "private": true}');
CREATE TABLE dptune_values (
    user TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (user, key));
INSERT INTO "dptune_values" VALUES('ann','1',-2.1507998605078610943e+00);
INSERT INTO "dptune_values" VALUES('ann','2',-6.8113885502526);
INSERT INTO "dptune_values" VALUES('bob','1',-6.64734221228722255148e+00);
CREATE TRIGGER dptune_local_no_UPDATE BEFORE UPDATE ON dptune_local
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_local_no_DELETE BEFORE DELETE ON dptune_local
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_local_no_REPLACE BEFORE INSERT ON dptune_local
WHEN EXISTS (SELECT 1 FROM dptune_local WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_replies_no_UPDATE BEFORE UPDATE ON dptune_replies
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_replies_no_DELETE BEFORE DELETE ON dptune_replies
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_replies_no_REPLACE BEFORE INSERT ON dptune_replies
WHEN EXISTS (SELECT 1 FROM dptune_replies WHERE user = NEW.user AND key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_values_no_UPDATE BEFORE UPDATE ON dptune_values
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_values_no_DELETE BEFORE DELETE ON dptune_values
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER dptune_values_no_REPLACE BEFORE INSERT ON dptune_values
WHEN EXISTS (SELECT 1 FROM dptune_values WHERE user = NEW.user AND key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
