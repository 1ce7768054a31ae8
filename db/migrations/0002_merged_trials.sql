-- Schema version 2: the same work measured by two sessions can be held twice, as merged files need; what `best`
-- asks is kept ready; machine code can be stored.

DROP VIEW best;
DROP VIEW failures;
DROP VIEW progress;
DROP VIEW trial_accuracy;

CREATE TABLE new_trials (
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
  -- Kept by triggers on trial_errors.
  allclose INTEGER NOT NULL DEFAULT 0 CHECK (allclose IN (0, 1)),
  CHECK ((status = 'ok') = (time_us IS NOT NULL)),
  CHECK ((time_us IS NULL) = (time_kind IS NULL) AND (time_us IS NULL) = (time_min_us IS NULL)
         AND (time_us IS NULL) = (time_mean_us IS NULL) AND (time_us IS NULL) = (samples IS NULL)),
  -- Sessions that measured the same work elsewhere come together in a merge.
  UNIQUE (problem, device, family, environment, configuration, session)
) STRICT;

INSERT INTO new_trials (
  id, session, device, environment, problem, family, configuration, precision, status, reason, time_us,
  time_kind, time_min_us, time_mean_us, samples, compile_seconds, verify_seconds, measure_seconds, registers,
  spill_bytes, stack_bytes, static_shared_bytes, dynamic_shared_bytes, occupancy, binary_bytes, clock_khz,
  temperature_c, started, wall_seconds, session_order, retimed, extra, allclose)
SELECT
  id, session, device, environment, problem, family, configuration, precision, status, reason, time_us,
  time_kind, time_min_us, time_mean_us, samples, compile_seconds, verify_seconds, measure_seconds, registers,
  spill_bytes, stack_bytes, static_shared_bytes, dynamic_shared_bytes, occupancy, binary_bytes, clock_khz,
  temperature_c, started, wall_seconds, session_order, retimed, extra,
  coalesce((SELECT max(e.frac_outside IS NULL OR e.frac_outside > 0 OR e.nan_count > 0) = 0
            FROM trial_errors AS e WHERE e.trial = trials.id), 0)
FROM trials;

DROP TABLE trials;
ALTER TABLE new_trials RENAME TO trials;

CREATE INDEX trials_by_session ON trials (session, session_order);
CREATE INDEX trials_by_time ON trials (problem, device, time_us) WHERE status = 'ok';
CREATE INDEX trials_accurate ON trials (problem, device, time_us) WHERE status = 'ok' AND allclose = 1;
CREATE INDEX trials_by_failure ON trials (problem, device, family, status) WHERE status <> 'ok';

-- How many trials a problem has on a device: counting a million takes too long for a view.
CREATE TABLE tallies (
  problem INTEGER NOT NULL REFERENCES problems (id),
  device INTEGER NOT NULL REFERENCES devices (id),
  trials INTEGER NOT NULL CHECK (trials > 0),
  failed INTEGER NOT NULL CHECK (failed BETWEEN 0 AND trials),
  PRIMARY KEY (problem, device)
) STRICT, WITHOUT ROWID;

INSERT INTO tallies SELECT problem, device, count(*), sum(status <> 'ok') FROM trials GROUP BY problem, device;

CREATE TABLE machine_code (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE CHECK (length(hash) = 32 AND hash NOT GLOB '*[^0-9a-f]*'),
  image_bytes INTEGER NOT NULL CHECK (image_bytes > 0),
  image BLOB NOT NULL CHECK (length(image) > 0)
) STRICT;

CREATE TABLE trial_code (
  trial INTEGER PRIMARY KEY REFERENCES trials (id) ON DELETE CASCADE,
  code INTEGER NOT NULL REFERENCES machine_code (id)
) STRICT;

CREATE INDEX trial_code_by_code ON trial_code (code);

CREATE TRIGGER trial_added AFTER INSERT ON trials BEGIN
  INSERT INTO tallies VALUES (NEW.problem, NEW.device, 1, NEW.status <> 'ok')
  ON CONFLICT (problem, device) DO UPDATE SET trials = trials + 1, failed = failed + excluded.failed;
END;

CREATE TRIGGER trial_removed AFTER DELETE ON trials BEGIN
  DELETE FROM tallies WHERE problem = OLD.problem AND device = OLD.device AND trials = 1;
  UPDATE tallies SET trials = trials - 1, failed = failed - (OLD.status <> 'ok')
  WHERE problem = OLD.problem AND device = OLD.device;
END;

CREATE TRIGGER trial_changed AFTER UPDATE OF problem, device, status ON trials BEGIN
  DELETE FROM tallies WHERE problem = OLD.problem AND device = OLD.device AND trials = 1;
  UPDATE tallies SET trials = trials - 1, failed = failed - (OLD.status <> 'ok')
  WHERE problem = OLD.problem AND device = OLD.device;
  INSERT INTO tallies VALUES (NEW.problem, NEW.device, 1, NEW.status <> 'ok')
  ON CONFLICT (problem, device) DO UPDATE SET trials = trials + 1, failed = failed + excluded.failed;
END;

CREATE TRIGGER error_added AFTER INSERT ON trial_errors BEGIN
  UPDATE trials SET allclose = NOT allclose
  WHERE id = NEW.trial AND allclose <> coalesce(
    (SELECT max(e.frac_outside IS NULL OR e.frac_outside > 0 OR e.nan_count > 0) = 0
     FROM trial_errors AS e WHERE e.trial = NEW.trial), 0);
END;

CREATE TRIGGER error_removed AFTER DELETE ON trial_errors BEGIN
  UPDATE trials SET allclose = NOT allclose
  WHERE id = OLD.trial AND allclose <> coalesce(
    (SELECT max(e.frac_outside IS NULL OR e.frac_outside > 0 OR e.nan_count > 0) = 0
     FROM trial_errors AS e WHERE e.trial = OLD.trial), 0);
END;

CREATE TRIGGER error_changed AFTER UPDATE ON trial_errors BEGIN
  UPDATE trials SET allclose = NOT allclose
  WHERE id = NEW.trial AND allclose <> coalesce(
    (SELECT max(e.frac_outside IS NULL OR e.frac_outside > 0 OR e.nan_count > 0) = 0
     FROM trial_errors AS e WHERE e.trial = NEW.trial), 0);
END;

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
  SELECT trials, failed, (
    SELECT t.id FROM trials AS t
    WHERE t.problem = tally.problem AND t.device = tally.device AND t.status = 'ok' AND t.allclose = 1
    ORDER BY t.time_us, t.id LIMIT 1) AS trial
  FROM tallies AS tally)
SELECT p.line AS problem,
       d.label AS device,
       f.backend || '/' || f.name AS family,
       t.configuration AS configuration,
       round(t.time_us, 3) AS time_us,
       round(p.flops / t.time_us / 1000, 1) AS gflops,
       (SELECT max(e.max_abs) FROM trial_errors AS e WHERE e.trial = t.id) AS max_abs,
       w.trials AS trials,
       w.failed AS failed,
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
