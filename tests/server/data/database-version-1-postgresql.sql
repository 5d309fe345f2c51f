-- A database of schema_version 1 with rows in every table, as the last version before Alembic made it (pg_dump 15).
CREATE TABLE ended_glidein (
    site character varying(64) NOT NULL,
    name character varying(200) NOT NULL,
    batch_id character varying(128) NOT NULL,
    started bigint NOT NULL,
    registered bigint,
    ended bigint NOT NULL,
    exit_status integer,
    good bigint NOT NULL,
    received bigint NOT NULL
);
CREATE TABLE entry_history (
    site character varying(64) NOT NULL,
    entry character varying(64) NOT NULL,
    shape character varying(64) NOT NULL,
    received bigint NOT NULL,
    told bigint,
    plans text NOT NULL
);
CREATE TABLE glidein (
    site character varying(64) NOT NULL,
    batch_id character varying(128) NOT NULL,
    entry character varying(64) NOT NULL,
    shape character varying(64) NOT NULL,
    first bigint NOT NULL,
    running bigint,
    wait_s bigint,
    looked bigint,
    "left" bigint,
    registered bigint,
    started bigint,
    heard bigint,
    gone bigint
);
CREATE TABLE history_last_record (
    id integer NOT NULL,
    "time" double precision NOT NULL,
    glidein_cores double precision,
    other_cores double precision
);
CREATE TABLE history_pool (
    level integer NOT NULL,
    "time" bigint NOT NULL,
    samples integer NOT NULL,
    idle_jobs double precision,
    idle_cores double precision,
    glidein_cores double precision,
    glidein_cores_claimed double precision,
    other_cores double precision,
    other_cores_claimed double precision
);
CREATE TABLE history_site (
    level integer NOT NULL,
    site integer NOT NULL,
    "time" bigint NOT NULL,
    samples integer NOT NULL,
    queued double precision,
    running double precision,
    registered double precision,
    launched double precision,
    cpus double precision,
    cpus_claimed double precision
);
CREATE TABLE history_site_name (
    id integer NOT NULL,
    name character varying(64) NOT NULL,
    launched bigint NOT NULL
);
CREATE SEQUENCE history_site_name_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE history_site_name_id_seq OWNED BY history_site_name.id;
CREATE TABLE history_wait (
    day bigint NOT NULL,
    bucket integer NOT NULL,
    jobs bigint NOT NULL
);
CREATE TABLE history_wait_marker (
    schedd text NOT NULL,
    marker text NOT NULL
);
CREATE TABLE history_work (
    week bigint NOT NULL,
    glidein_core_s double precision NOT NULL,
    other_core_s double precision NOT NULL
);
CREATE TABLE lease (
    site character varying(64) NOT NULL,
    entry character varying(64) NOT NULL,
    "group" character varying(64) NOT NULL,
    jobs bigint NOT NULL,
    expires bigint NOT NULL
);
CREATE TABLE lease_limit (
    site character varying(64) NOT NULL,
    jobs bigint NOT NULL
);
CREATE TABLE lease_version (
    id integer NOT NULL,
    version bigint NOT NULL
);
CREATE TABLE machine_sample (
    site character varying(64) NOT NULL,
    entry character varying(64) NOT NULL,
    as_of bigint NOT NULL,
    by_token boolean NOT NULL,
    ad text NOT NULL
);
CREATE TABLE monitoring (
    uuid character varying(200) NOT NULL,
    site character varying(64),
    received bigint NOT NULL,
    metrics text NOT NULL
);
CREATE TABLE passed_over (
    site character varying(64) NOT NULL,
    entry character varying(64) NOT NULL,
    shape character varying(64) NOT NULL,
    "group" character varying(64) NOT NULL,
    times integer NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE report (
    site character varying(64) NOT NULL,
    received bigint NOT NULL,
    body text NOT NULL,
    launched bigint NOT NULL
);
CREATE TABLE schema_version (
    version integer NOT NULL
);
CREATE SEQUENCE schema_version_version_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE schema_version_version_seq OWNED BY schema_version.version;
CREATE TABLE site_owner (
    site character varying(64) NOT NULL,
    deployment character varying(64) NOT NULL,
    since bigint NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE summaries_until (
    site character varying(64) NOT NULL,
    until double precision NOT NULL
);
CREATE TABLE switch (
    id integer NOT NULL,
    paused boolean NOT NULL,
    since bigint,
    reason text NOT NULL,
    by text NOT NULL
);
CREATE TABLE token (
    name character varying(64) NOT NULL,
    kind character varying(16) NOT NULL,
    origin character varying(16) NOT NULL,
    digest character varying(64) NOT NULL,
    created bigint NOT NULL,
    last_used bigint
);
CREATE TABLE work (
    level integer NOT NULL,
    "time" bigint NOT NULL,
    site character varying(64) NOT NULL,
    entry character varying(64) NOT NULL,
    shape character varying(64) NOT NULL,
    glideins bigint NOT NULL,
    granted_core_s bigint NOT NULL,
    busy_core_s bigint NOT NULL,
    jobs bigint NOT NULL,
    jobs_failed bigint NOT NULL
);
ALTER TABLE ONLY history_site_name ALTER COLUMN id SET DEFAULT nextval('history_site_name_id_seq'::regclass);
ALTER TABLE ONLY schema_version ALTER COLUMN version SET DEFAULT nextval('schema_version_version_seq'::regclass);
INSERT INTO ended_glidein VALUES ('PSC', 'g1', '99', 1795204073, 1795204083, 1795211213, 0, 39, 1795211273);
INSERT INTO entry_history VALUES ('PSC', 'RM', 'node', 1795211273, 1795211273, '[{"as_of": 1795211273, "present": 3, "wanted": null, "queued": 1, "running": 2, "registered": 2, "launched": 4, "cancelled": 0}]');
INSERT INTO glidein VALUES ('PSC', '101', 'RM', 'node', 1795211273, 1795211273, 30, NULL, NULL, 1795211273, 1795211213, 1795211273, NULL);
INSERT INTO glidein VALUES ('PSC', '102', 'RM', 'node', 1795211273, 1795211273, NULL, 1795211273, NULL, NULL, NULL, NULL, NULL);
INSERT INTO history_last_record VALUES (1, 1795211273, 50, 4);
INSERT INTO history_pool VALUES (0, 1794951900, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_pool VALUES (0, 1795210500, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_pool VALUES (0, 1795210800, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_pool VALUES (0, 1795211100, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_pool VALUES (2, 1760637600, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_pool VALUES (2, 1791741600, 1, 120, 120, 56, 50, 8, 4);
INSERT INTO history_site VALUES (0, 0, 1794951900, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 1, 1794951900, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 0, 1795210500, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 1, 1795210500, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 0, 1795210800, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 1, 1795210800, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 0, 1795211100, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (0, 1, 1795211100, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (2, 0, 1760637600, 1, 1, 2, 2, 4, 56, 50);
INSERT INTO history_site VALUES (2, 1, 1760637600, 1, 1, 2, 2, 4, 56, 50);
INSERT INTO history_site VALUES (2, 0, 1791741600, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site VALUES (2, 1, 1791741600, 1, 1, 2, 2, 0, 56, 50);
INSERT INTO history_site_name VALUES (1, 'PSC', 4);
INSERT INTO history_wait VALUES (1795132800, 12, 7);
INSERT INTO history_wait VALUES (1795132800, 15, 2);
INSERT INTO history_wait_marker VALUES ('cm', '"17.0"');
INSERT INTO history_work VALUES (1794787200, 30000, 2400);
INSERT INTO lease VALUES ('PSC', 'GPU', '9b1c', 2, 1795214873);
INSERT INTO lease VALUES ('PSC', 'RM', '3f2a', 5, 1795214873);
INSERT INTO lease_limit VALUES ('PSC', 100);
INSERT INTO lease_version VALUES (1, 1);
INSERT INTO machine_sample VALUES ('PSC', 'RM', 1795211273, true, '{"Cpus": 28, "Memory": 128000}');
INSERT INTO monitoring VALUES ('5c1e', 'PSC', 1795211273, '{"glideins": {"total": 3}}');
INSERT INTO monitoring VALUES ('anonymous', NULL, 1795211273, '{}');
INSERT INTO passed_over VALUES ('PSC', 'RM', 'node', '9b1c', 1, 1795211873);
INSERT INTO report VALUES ('PSC', 1795211273, '{"site": "PSC", "as_of": 1795211273, "error": null, "entries": [{"entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2, "launched": 4, "cancelled": 0, "reason": "28 idle jobs", "error": null, "running_glideins": [{"id": "101", "wait_s": 30}, {"id": "102", "wait_s": null}]}], "orphans": 0, "received": 1795211273}', 4);
INSERT INTO schema_version VALUES (1);
INSERT INTO site_owner VALUES ('PSC', 'bridges', 1795211273, 1795215773);
INSERT INTO summaries_until VALUES ('PSC', 1795211273);
INSERT INTO switch VALUES (1, true, 1795211273, 'disks full', 'ada');
INSERT INTO token VALUES ('NERSC', 'site', 'role', 'a6aa3284ba04462c6b5fa950eebb836235c2c46b9bfdcb672dfe1026bb2d1e18', 1795211273, NULL);
INSERT INTO token VALUES ('grafana', 'reader', 'command', '34f122b1c38b8ef0a257e50904de913c1902de0c3b2428e7b1ef1e6aa1b62151', 1795211273, NULL);
INSERT INTO token VALUES ('PSC', 'site', 'role', '87cbebfeebc05f7c54ac9336c4b4bbec831227a641951a4bde7edd56020f8590', 1795211273, 1795208400);
INSERT INTO work VALUES (0, 1795208400, 'PSC', 'RM', 'node', 1, 199920, 150000, 40, 1);
INSERT INTO work VALUES (1, 1795132800, 'PSC', 'RM', 'node', 1, 199920, 150000, 40, 1);
INSERT INTO work VALUES (2, 0, 'PSC', 'RM', 'node', 1, 199920, 150000, 40, 1);
SELECT pg_catalog.setval('history_site_name_id_seq', 1, true);
SELECT pg_catalog.setval('schema_version_version_seq', 1, false);
ALTER TABLE ONLY ended_glidein
    ADD CONSTRAINT ended_glidein_pkey PRIMARY KEY (site, name);
ALTER TABLE ONLY entry_history
    ADD CONSTRAINT entry_history_pkey PRIMARY KEY (site, entry, shape);
ALTER TABLE ONLY glidein
    ADD CONSTRAINT glidein_pkey PRIMARY KEY (site, batch_id);
ALTER TABLE ONLY history_last_record
    ADD CONSTRAINT history_last_record_pkey PRIMARY KEY (id);
ALTER TABLE ONLY history_pool
    ADD CONSTRAINT history_pool_pkey PRIMARY KEY (level, "time");
ALTER TABLE ONLY history_site_name
    ADD CONSTRAINT history_site_name_name_key UNIQUE (name);
ALTER TABLE ONLY history_site_name
    ADD CONSTRAINT history_site_name_pkey PRIMARY KEY (id);
ALTER TABLE ONLY history_site
    ADD CONSTRAINT history_site_pkey PRIMARY KEY (level, site, "time");
ALTER TABLE ONLY history_wait_marker
    ADD CONSTRAINT history_wait_marker_pkey PRIMARY KEY (schedd);
ALTER TABLE ONLY history_wait
    ADD CONSTRAINT history_wait_pkey PRIMARY KEY (day, bucket);
ALTER TABLE ONLY history_work
    ADD CONSTRAINT history_work_pkey PRIMARY KEY (week);
ALTER TABLE ONLY lease_limit
    ADD CONSTRAINT lease_limit_pkey PRIMARY KEY (site);
ALTER TABLE ONLY lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (site, entry, "group");
ALTER TABLE ONLY lease_version
    ADD CONSTRAINT lease_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY machine_sample
    ADD CONSTRAINT machine_sample_pkey PRIMARY KEY (site, entry);
ALTER TABLE ONLY monitoring
    ADD CONSTRAINT monitoring_pkey PRIMARY KEY (uuid);
ALTER TABLE ONLY passed_over
    ADD CONSTRAINT passed_over_pkey PRIMARY KEY (site, entry, shape, "group");
ALTER TABLE ONLY report
    ADD CONSTRAINT report_pkey PRIMARY KEY (site);
ALTER TABLE ONLY schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY site_owner
    ADD CONSTRAINT site_owner_pkey PRIMARY KEY (site);
ALTER TABLE ONLY summaries_until
    ADD CONSTRAINT summaries_until_pkey PRIMARY KEY (site);
ALTER TABLE ONLY switch
    ADD CONSTRAINT switch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY token
    ADD CONSTRAINT token_digest_key UNIQUE (digest);
ALTER TABLE ONLY token
    ADD CONSTRAINT token_pkey PRIMARY KEY (name);
ALTER TABLE ONLY work
    ADD CONSTRAINT work_pkey PRIMARY KEY (level, "time", site, entry, shape);
CREATE INDEX ended_glidein_received ON ended_glidein USING btree (received);
CREATE INDEX glidein_first ON glidein USING btree (first);
