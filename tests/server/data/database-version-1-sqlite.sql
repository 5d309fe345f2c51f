-- A database of schema_version 1 with rows in every table, as the last version before Alembic made it (SQLite).
CREATE TABLE ended_glidein (
	site VARCHAR(64) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	batch_id VARCHAR(128) NOT NULL, 
	started BIGINT NOT NULL, 
	registered BIGINT, 
	ended BIGINT NOT NULL, 
	exit_status INTEGER, 
	good BIGINT NOT NULL, 
	received BIGINT NOT NULL, 
	PRIMARY KEY (site, name)
);
INSERT INTO "ended_glidein" VALUES('PSC','g1','99',1795204073,1795204083,1795211213,0,39,1795211273);
CREATE TABLE entry_history (
	site VARCHAR(64) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	shape VARCHAR(64) NOT NULL, 
	received BIGINT NOT NULL, 
	told BIGINT, 
	plans TEXT NOT NULL, 
	PRIMARY KEY (site, entry, shape)
);
INSERT INTO "entry_history" VALUES('PSC','RM','node',1795211273,1795211273,'[{"as_of": 1795211273, "present": 3, "wanted": null, "queued": 1, "running": 2, "registered": 2, "launched": 4, "cancelled": 0}]');
CREATE TABLE glidein (
	site VARCHAR(64) NOT NULL, 
	batch_id VARCHAR(128) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	shape VARCHAR(64) NOT NULL, 
	first BIGINT NOT NULL, 
	running BIGINT, 
	wait_s BIGINT, 
	looked BIGINT, 
	"left" BIGINT, 
	registered BIGINT, 
	started BIGINT, 
	heard BIGINT, 
	gone BIGINT, 
	PRIMARY KEY (site, batch_id)
);
INSERT INTO "glidein" VALUES('PSC','101','RM','node',1795211273,1795211273,30,NULL,NULL,1795211273,1795211213,1795211273,NULL);
INSERT INTO "glidein" VALUES('PSC','102','RM','node',1795211273,1795211273,NULL,1795211273,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE history_last_record (
	id INTEGER NOT NULL, 
	time FLOAT NOT NULL, 
	glidein_cores FLOAT, 
	other_cores FLOAT, 
	PRIMARY KEY (id)
);
INSERT INTO "history_last_record" VALUES(1,1795211273.0,50.0,4.0);
CREATE TABLE history_pool (
	level INTEGER NOT NULL, 
	time BIGINT NOT NULL, 
	samples INTEGER NOT NULL, 
	idle_jobs FLOAT, 
	idle_cores FLOAT, 
	glidein_cores FLOAT, 
	glidein_cores_claimed FLOAT, 
	other_cores FLOAT, 
	other_cores_claimed FLOAT, 
	PRIMARY KEY (level, time)
)
 WITHOUT ROWID

;
INSERT INTO "history_pool" VALUES(0,1794951900,1,120.0,120.0,56.0,50.0,8.0,4.0);
INSERT INTO "history_pool" VALUES(0,1795210500,1,120.0,120.0,56.0,50.0,8.0,4.0);
INSERT INTO "history_pool" VALUES(0,1795210800,1,120.0,120.0,56.0,50.0,8.0,4.0);
INSERT INTO "history_pool" VALUES(0,1795211100,1,120.0,120.0,56.0,50.0,8.0,4.0);
INSERT INTO "history_pool" VALUES(2,1760637600,1,120.0,120.0,56.0,50.0,8.0,4.0);
INSERT INTO "history_pool" VALUES(2,1791741600,1,120.0,120.0,56.0,50.0,8.0,4.0);
CREATE TABLE history_site (
	level INTEGER NOT NULL, 
	site INTEGER NOT NULL, 
	time BIGINT NOT NULL, 
	samples INTEGER NOT NULL, 
	queued FLOAT, 
	running FLOAT, 
	registered FLOAT, 
	launched FLOAT, 
	cpus FLOAT, 
	cpus_claimed FLOAT, 
	PRIMARY KEY (level, site, time)
)
 WITHOUT ROWID

;
INSERT INTO "history_site" VALUES(0,0,1794951900,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,0,1795210500,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,0,1795210800,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,0,1795211100,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,1,1794951900,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,1,1795210500,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,1,1795210800,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(0,1,1795211100,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(2,0,1760637600,1,1.0,2.0,2.0,4.0,56.0,50.0);
INSERT INTO "history_site" VALUES(2,0,1791741600,1,1.0,2.0,2.0,0.0,56.0,50.0);
INSERT INTO "history_site" VALUES(2,1,1760637600,1,1.0,2.0,2.0,4.0,56.0,50.0);
INSERT INTO "history_site" VALUES(2,1,1791741600,1,1.0,2.0,2.0,0.0,56.0,50.0);
CREATE TABLE history_site_name (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	launched BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "history_site_name" VALUES(1,'PSC',4);
CREATE TABLE history_wait (
	day BIGINT NOT NULL, 
	bucket INTEGER NOT NULL, 
	jobs BIGINT NOT NULL, 
	PRIMARY KEY (day, bucket)
);
INSERT INTO "history_wait" VALUES(1795132800,12,7);
INSERT INTO "history_wait" VALUES(1795132800,15,2);
CREATE TABLE history_wait_marker (
	schedd TEXT NOT NULL, 
	marker TEXT NOT NULL, 
	PRIMARY KEY (schedd)
);
INSERT INTO "history_wait_marker" VALUES('cm','"17.0"');
CREATE TABLE history_work (
	week BIGINT NOT NULL, 
	glidein_core_s FLOAT NOT NULL, 
	other_core_s FLOAT NOT NULL, 
	PRIMARY KEY (week)
);
INSERT INTO "history_work" VALUES(1794787200,30000.0,2400.0);
CREATE TABLE lease (
	site VARCHAR(64) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	"group" VARCHAR(64) NOT NULL, 
	jobs BIGINT NOT NULL, 
	expires BIGINT NOT NULL, 
	PRIMARY KEY (site, entry, "group")
);
INSERT INTO "lease" VALUES('PSC','GPU','9b1c',2,1795214873);
INSERT INTO "lease" VALUES('PSC','RM','3f2a',5,1795214873);
CREATE TABLE lease_limit (
	site VARCHAR(64) NOT NULL, 
	jobs BIGINT NOT NULL, 
	PRIMARY KEY (site)
);
INSERT INTO "lease_limit" VALUES('PSC',100);
CREATE TABLE lease_version (
	id INTEGER NOT NULL, 
	version BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "lease_version" VALUES(1,1);
CREATE TABLE machine_sample (
	site VARCHAR(64) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	as_of BIGINT NOT NULL, 
	by_token BOOLEAN NOT NULL, 
	ad TEXT NOT NULL, 
	PRIMARY KEY (site, entry)
);
INSERT INTO "machine_sample" VALUES('PSC','RM',1795211273,1,'{"Cpus": 28, "Memory": 128000}');
CREATE TABLE monitoring (
	uuid VARCHAR(200) NOT NULL, 
	site VARCHAR(64), 
	received BIGINT NOT NULL, 
	metrics TEXT NOT NULL, 
	PRIMARY KEY (uuid)
);
INSERT INTO "monitoring" VALUES('5c1e','PSC',1795211273,'{"glideins": {"total": 3}}');
INSERT INTO "monitoring" VALUES('anonymous',NULL,1795211273,'{}');
CREATE TABLE passed_over (
	site VARCHAR(64) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	shape VARCHAR(64) NOT NULL, 
	"group" VARCHAR(64) NOT NULL, 
	times INTEGER NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (site, entry, shape, "group")
);
INSERT INTO "passed_over" VALUES('PSC','RM','node','9b1c',1,1795211873);
CREATE TABLE report (
	site VARCHAR(64) NOT NULL, 
	received BIGINT NOT NULL, 
	body TEXT NOT NULL, 
	launched BIGINT NOT NULL, 
	PRIMARY KEY (site)
);
INSERT INTO "report" VALUES('PSC',1795211273,'{"site": "PSC", "as_of": 1795211273, "error": null, "entries": [{"entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2, "launched": 4, "cancelled": 0, "reason": "28 idle jobs", "error": null, "running_glideins": [{"id": "101", "wait_s": 30}, {"id": "102", "wait_s": null}]}], "orphans": 0, "received": 1795211273}',4);
CREATE TABLE schema_version (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE site_owner (
	site VARCHAR(64) NOT NULL, 
	deployment VARCHAR(64) NOT NULL, 
	since BIGINT NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (site)
);
INSERT INTO "site_owner" VALUES('PSC','bridges',1795211273,1795215773);
CREATE TABLE summaries_until (
	site VARCHAR(64) NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY (site)
);
INSERT INTO "summaries_until" VALUES('PSC',1795211273.0);
CREATE TABLE switch (
	id INTEGER NOT NULL, 
	paused BOOLEAN NOT NULL, 
	since BIGINT, 
	reason TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "switch" VALUES(1,1,1795211273,'disks full','ada');
CREATE TABLE token (
	name VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	origin VARCHAR(16) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	created BIGINT NOT NULL, 
	last_used BIGINT, 
	PRIMARY KEY (name), 
	UNIQUE (digest)
);
INSERT INTO "token" VALUES('NERSC','site','role','a6aa3284ba04462c6b5fa950eebb836235c2c46b9bfdcb672dfe1026bb2d1e18',1795211273,NULL);
INSERT INTO "token" VALUES('PSC','site','role','87cbebfeebc05f7c54ac9336c4b4bbec831227a641951a4bde7edd56020f8590',1795211273,1795208400);
INSERT INTO "token" VALUES('grafana','reader','command','34f122b1c38b8ef0a257e50904de913c1902de0c3b2428e7b1ef1e6aa1b62151',1795211273,NULL);
CREATE TABLE work (
	level INTEGER NOT NULL, 
	time BIGINT NOT NULL, 
	site VARCHAR(64) NOT NULL, 
	entry VARCHAR(64) NOT NULL, 
	shape VARCHAR(64) NOT NULL, 
	glideins BIGINT NOT NULL, 
	granted_core_s BIGINT NOT NULL, 
	busy_core_s BIGINT NOT NULL, 
	jobs BIGINT NOT NULL, 
	jobs_failed BIGINT NOT NULL, 
	PRIMARY KEY (level, time, site, entry, shape)
)
 WITHOUT ROWID

;
INSERT INTO "work" VALUES(0,1795208400,'PSC','RM','node',1,199920,150000,40,1);
INSERT INTO "work" VALUES(1,1795132800,'PSC','RM','node',1,199920,150000,40,1);
INSERT INTO "work" VALUES(2,0,'PSC','RM','node',1,199920,150000,40,1);
CREATE INDEX glidein_first ON glidein (first);
CREATE INDEX ended_glidein_received ON ended_glidein (received);
