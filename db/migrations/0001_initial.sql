-- Schema version 1. Every table, column, unit and view is described in docs/schema.md.
-- A released migration never changes: later versions add files.

PRAGMA application_id = 0x6B6E6F62;  -- "knob"

CREATE TABLE devices (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL CHECK (backend IN ('cpu', 'cuda')),
  vendor TEXT NOT NULL,
  name TEXT NOT NULL,
  architecture TEXT NOT NULL CHECK (architecture <> ''),
  multiprocessors INTEGER NOT NULL CHECK (multiprocessors > 0),
  memory_bytes INTEGER NOT NULL CHECK (memory_bytes >= 0),
  clock_khz INTEGER NOT NULL CHECK (clock_khz >= 0),
  memory_clock_khz INTEGER NOT NULL CHECK (memory_clock_khz >= 0),
  l2_bytes INTEGER NOT NULL CHECK (l2_bytes >= 0),
  shared_memory_per_block INTEGER NOT NULL CHECK (shared_memory_per_block >= 0),
  extra TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(extra) AND extra GLOB '{*'),
  -- Whole GiB: the part of the memory that a driver or kernel reserves varies.
  memory_gib INTEGER NOT NULL GENERATED ALWAYS AS ((memory_bytes + 536870912) / 1073741824) VIRTUAL,
  label TEXT NOT NULL GENERATED ALWAYS AS (
    name || ' (' || multiprocessors || CASE backend WHEN 'cuda' THEN ' SMs, ' ELSE ' cores, ' END
    || ((memory_bytes + 536870912) / 1073741824) || ' GiB)') VIRTUAL
) STRICT;

CREATE UNIQUE INDEX devices_identity ON devices (
  backend, vendor, name, architecture, multiprocessors, memory_gib, l2_bytes, shared_memory_per_block);

CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  driver_version TEXT NOT NULL,
  toolkit_version TEXT NOT NULL,
  compiler TEXT NOT NULL,
  knobwise_version TEXT NOT NULL,
  os TEXT NOT NULL,
  UNIQUE (driver_version, toolkit_version, compiler, knobwise_version, os)
) STRICT;

CREATE TABLE problems (
  id INTEGER PRIMARY KEY,
  line TEXT NOT NULL UNIQUE CHECK (line <> ''),
  op TEXT NOT NULL CHECK (op <> ''),
  dtype TEXT NOT NULL CHECK (dtype <> ''),
  layout TEXT NOT NULL CHECK (layout <> ''),
  epilogue TEXT NOT NULL,
  rank INTEGER NOT NULL CHECK (rank BETWEEN 1 AND 3),
  flops INTEGER NOT NULL CHECK (flops > 0),
  compulsory_bytes INTEGER NOT NULL CHECK (compulsory_bytes > 0),
  n INTEGER NOT NULL CHECK (n > 0),
  c INTEGER NOT NULL CHECK (c > 0),
  d INTEGER NOT NULL CHECK (d > 0),
  h INTEGER NOT NULL CHECK (h > 0),
  w INTEGER NOT NULL CHECK (w > 0),
  k INTEGER NOT NULL CHECK (k > 0),
  t INTEGER NOT NULL CHECK (t > 0),
  r INTEGER NOT NULL CHECK (r > 0),
  s INTEGER NOT NULL CHECK (s > 0),
  groups INTEGER NOT NULL CHECK (groups > 0),
  stride_d INTEGER NOT NULL CHECK (stride_d > 0),
  stride_h INTEGER NOT NULL CHECK (stride_h > 0),
  stride_w INTEGER NOT NULL CHECK (stride_w > 0),
  pad_d INTEGER NOT NULL CHECK (pad_d >= 0),
  pad_h INTEGER NOT NULL CHECK (pad_h >= 0),
  pad_w INTEGER NOT NULL CHECK (pad_w >= 0),
  dilation_d INTEGER NOT NULL CHECK (dilation_d > 0),
  dilation_h INTEGER NOT NULL CHECK (dilation_h > 0),
  dilation_w INTEGER NOT NULL CHECK (dilation_w > 0)
) STRICT;

CREATE TABLE families (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL CHECK (backend <> ''),
  name TEXT NOT NULL CHECK (name <> ''),
  source_hash TEXT NOT NULL,
  UNIQUE (backend, name, source_hash)
) STRICT;

CREATE TABLE sessions (
  id INTEGER PRIMARY KEY,
  uuid TEXT NOT NULL UNIQUE CHECK (length(uuid) = 36),
  device INTEGER NOT NULL REFERENCES devices (id),
  environment INTEGER NOT NULL REFERENCES environments (id),
  problem INTEGER NOT NULL REFERENCES problems (id),
  strategy TEXT NOT NULL CHECK (strategy <> ''),
  seed INTEGER NOT NULL,
  max_trials INTEGER CHECK (max_trials > 0),
  max_seconds REAL CHECK (max_seconds > 0 AND max_seconds < 9e999),
  accuracy TEXT NOT NULL,
  started TEXT NOT NULL CHECK (started GLOB '????-??-??T??:??:??*Z'),
  finished TEXT CHECK (finished GLOB '????-??-??T??:??:??*Z'),
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'interrupted', 'failed')),
  command_line TEXT NOT NULL,
  host TEXT NOT NULL,
  CHECK ((state = 'running') = (finished IS NULL))
) STRICT;

CREATE INDEX sessions_by_problem ON sessions (problem, device);

CREATE TABLE trials (
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (id),
  device INTEGER NOT NULL REFERENCES devices (id),
  environment INTEGER NOT NULL REFERENCES environments (id),
  problem INTEGER NOT NULL REFERENCES problems (id),
  family INTEGER NOT NULL REFERENCES families (id),
  configuration TEXT NOT NULL CHECK (json_valid(configuration) AND configuration GLOB '{*'),
  precision TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN (
    'ok', 'unsupported', 'invalid', 'compile_failed', 'compile_timeout', 'compile_crashed', 'load_failed',
    'out_of_resources', 'out_of_memory', 'launch_failed', 'crashed', 'timeout', 'wrong_result',
    'out_of_bounds', 'device_lost', 'internal_error')),
  reason TEXT NOT NULL,
  time_us REAL CHECK (time_us > 0 AND time_us < 9e999),
  time_kind TEXT CHECK (time_kind IN ('median', 'lower_quartile', 'minimum')),
  time_min_us REAL CHECK (time_min_us > 0 AND time_min_us < 9e999),
  time_mean_us REAL CHECK (time_mean_us > 0 AND time_mean_us < 9e999),
  samples BLOB CHECK (length(samples) % 4 = 0),
  compile_seconds REAL CHECK (compile_seconds >= 0 AND compile_seconds < 9e999),
  verify_seconds REAL CHECK (verify_seconds >= 0 AND verify_seconds < 9e999),
  measure_seconds REAL CHECK (measure_seconds >= 0 AND measure_seconds < 9e999),
  registers INTEGER CHECK (registers >= 0),
  spill_bytes INTEGER CHECK (spill_bytes >= 0),
  stack_bytes INTEGER CHECK (stack_bytes >= 0),
  static_shared_bytes INTEGER CHECK (static_shared_bytes >= 0),
  dynamic_shared_bytes INTEGER CHECK (dynamic_shared_bytes >= 0),
  occupancy REAL CHECK (occupancy BETWEEN 0 AND 1),
  binary_bytes INTEGER CHECK (binary_bytes >= 0),
  clock_khz INTEGER CHECK (clock_khz > 0),
  temperature_c REAL CHECK (temperature_c BETWEEN -273.15 AND 1000),
  started TEXT NOT NULL CHECK (started GLOB '????-??-??T??:??:??*Z'),
  wall_seconds REAL NOT NULL CHECK (wall_seconds >= 0 AND wall_seconds < 9e999),
  session_order INTEGER NOT NULL CHECK (session_order >= 0),
  retimed TEXT CHECK (retimed GLOB '????-??-??T??:??:??*Z'),
  extra TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(extra) AND extra GLOB '{*'),
  CHECK ((status = 'ok') = (time_us IS NOT NULL)),
  CHECK ((time_us IS NULL) = (time_kind IS NULL) AND (time_us IS NULL) = (time_min_us IS NULL)
         AND (time_us IS NULL) = (time_mean_us IS NULL) AND (time_us IS NULL) = (samples IS NULL)),
  -- The same work is never stored twice. The order serves resuming (all but the last) and counting (first two).
  UNIQUE (problem, device, family, environment, configuration),
  UNIQUE (session, session_order)
) STRICT;

CREATE INDEX trials_by_time ON trials (problem, device, time_us) WHERE status = 'ok';
CREATE INDEX trials_by_failure ON trials (problem, device, family, status) WHERE status <> 'ok';

CREATE TABLE trial_errors (
  trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  distribution TEXT NOT NULL CHECK (distribution IN ('uniform', 'normal', 'integers')),
  -- NULL stands for NaN, which meets no limit.
  max_abs REAL CHECK (max_abs >= 0),
  mean_abs REAL CHECK (mean_abs >= 0),
  rms REAL CHECK (rms >= 0),
  rel_fro REAL CHECK (rel_fro >= 0),
  frac_outside REAL CHECK (frac_outside BETWEEN 0 AND 1),
  checked INTEGER NOT NULL CHECK (checked > 0),
  nan_count INTEGER NOT NULL CHECK (nan_count BETWEEN 0 AND checked),
  PRIMARY KEY (trial, distribution)
) STRICT, WITHOUT ROWID;

CREATE TABLE baselines (
  id INTEGER PRIMARY KEY,
  device INTEGER NOT NULL REFERENCES devices (id),
  environment INTEGER NOT NULL REFERENCES environments (id),
  problem INTEGER NOT NULL REFERENCES problems (id),
  name TEXT NOT NULL CHECK (name <> ''),
  time_us REAL NOT NULL CHECK (time_us > 0 AND time_us < 9e999),
  time_kind TEXT NOT NULL CHECK (time_kind IN ('median', 'lower_quartile', 'minimum')),
  time_min_us REAL NOT NULL CHECK (time_min_us > 0 AND time_min_us < 9e999),
  time_mean_us REAL NOT NULL CHECK (time_mean_us > 0 AND time_mean_us < 9e999),
  samples BLOB NOT NULL CHECK (length(samples) % 4 = 0),
  started TEXT NOT NULL CHECK (started GLOB '????-??-??T??:??:??*Z'),
  UNIQUE (problem, device, environment, name)
) STRICT;

CREATE TABLE baseline_errors (
  baseline INTEGER NOT NULL REFERENCES baselines (id) ON DELETE CASCADE,
  distribution TEXT NOT NULL CHECK (distribution IN ('uniform', 'normal', 'integers')),
  max_abs REAL CHECK (max_abs >= 0),
  mean_abs REAL CHECK (mean_abs >= 0),
  rms REAL CHECK (rms >= 0),
  rel_fro REAL CHECK (rel_fro >= 0),
  frac_outside REAL CHECK (frac_outside BETWEEN 0 AND 1),
  checked INTEGER NOT NULL CHECK (checked > 0),
  nan_count INTEGER NOT NULL CHECK (nan_count BETWEEN 0 AND checked),
  PRIMARY KEY (baseline, distribution)
) STRICT, WITHOUT ROWID;

-- The worst of each metric over the distributions; NULL where any is NaN (max() alone would skip it).
CREATE VIEW trial_accuracy AS
SELECT trial,
       count(*) AS distributions,
       CASE WHEN count(max_abs) = count(*) THEN max(max_abs) END AS max_abs,
       CASE WHEN count(mean_abs) = count(*) THEN max(mean_abs) END AS mean_abs,
       CASE WHEN count(rms) = count(*) THEN max(rms) END AS rms,
       CASE WHEN count(rel_fro) = count(*) THEN max(rel_fro) END AS rel_fro,
       CASE WHEN count(frac_outside) = count(*) THEN max(frac_outside) END AS frac_outside,
       sum(nan_count) AS nan_count,
       -- Every element of every distribution within 1e-4 + 1e-4 * |ref|.
       count(frac_outside) = count(*) AND max(frac_outside) = 0 AND sum(nan_count) = 0 AS allclose
FROM trial_errors
GROUP BY trial;

CREATE VIEW best AS
WITH winners AS MATERIALIZED (
  SELECT problem, device, (
    SELECT t.id FROM trials AS t
    WHERE t.problem = pair.problem AND t.device = pair.device AND t.status = 'ok'
      AND EXISTS (SELECT 1 FROM trial_errors AS e WHERE e.trial = t.id)
      AND NOT EXISTS (SELECT 1 FROM trial_errors AS e
                      WHERE e.trial = t.id AND (e.frac_outside IS NULL OR e.frac_outside > 0 OR e.nan_count > 0))
    ORDER BY t.time_us, t.id LIMIT 1) AS trial
  FROM (SELECT DISTINCT problem, device FROM trials WHERE status = 'ok') AS pair)
SELECT p.line AS problem,
       d.label AS device,
       f.backend || '/' || f.name AS family,
       t.configuration AS configuration,
       round(t.time_us, 3) AS time_us,
       round(p.flops / t.time_us / 1000, 1) AS gflops,
       (SELECT max(e.max_abs) FROM trial_errors AS e WHERE e.trial = t.id) AS max_abs,
       (SELECT count(*) FROM trials AS a WHERE a.problem = w.problem AND a.device = w.device) AS trials,
       (SELECT count(*) FROM trials AS a
        WHERE a.problem = w.problem AND a.device = w.device AND a.status <> 'ok') AS failed,
       t.precision AS precision,
       f.source_hash AS source_hash,
       n.driver_version AS driver,
       n.toolkit_version AS toolkit,
       coalesce(t.retimed, t.started) AS measured,
       t.id AS trial_id
FROM winners AS w
JOIN trials AS t ON t.id = w.trial
JOIN problems AS p ON p.id = t.problem
JOIN devices AS d ON d.id = t.device
JOIN families AS f ON f.id = t.family
JOIN environments AS n ON n.id = t.environment
ORDER BY p.line, d.label, t.device;

CREATE VIEW failures AS
SELECT p.line AS problem,
       d.label AS device,
       f.backend || '/' || f.name AS family,
       g.status AS status,
       g.count AS count,
       (SELECT t.reason FROM trials AS t WHERE t.id = g.example) AS example,
       f.source_hash AS source_hash
FROM (SELECT problem, device, family, status, count(*) AS count, min(id) AS example
      FROM trials WHERE status <> 'ok' GROUP BY problem, device, family, status) AS g
JOIN problems AS p ON p.id = g.problem
JOIN devices AS d ON d.id = g.device
JOIN families AS f ON f.id = g.family
ORDER BY p.line, d.label, g.device, family, g.count DESC, g.status;

CREATE VIEW progress AS
SELECT s.uuid AS session,
       p.line AS problem,
       t.session_order AS trial,
       round(t.wall_seconds, 3) AS wall_seconds,
       t.status AS status,
       t.time_us AS time_us,
       min(t.time_us) OVER session_so_far AS best_us,
       min(CASE WHEN a.allclose THEN t.time_us END) OVER session_so_far AS best_allclose_us
FROM trials AS t
JOIN sessions AS s ON s.id = t.session
JOIN problems AS p ON p.id = t.problem
LEFT JOIN trial_accuracy AS a ON a.trial = t.id
WINDOW session_so_far AS (PARTITION BY t.session ORDER BY t.session_order
                          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
ORDER BY t.session, t.session_order;
