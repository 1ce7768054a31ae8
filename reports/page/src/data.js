// Unpacks the report's data and answers questions about it: which trial is best, how far is the limit.

/** Limits on the worst error over the input distributions; a metric without a limit is not judged. */
export const REQUIREMENTS = {
  allclose: { label: 'allclose 1e-4', limits: { frac_outside: 0 } },
  tf32: { label: 'TF32 class (rel. error ≤ 1e-3)', limits: { rel_fro: 1e-3 } },
  half: { label: 'half class (rel. error ≤ 2e-3)', limits: { rel_fro: 2e-3 } },
  bf16: { label: 'bf16 class (rel. error ≤ 1.6e-2)', limits: { rel_fro: 1.6e-2 } },
  any: { label: 'any error, NaN excepted', limits: {} },
};

const RESOURCE_NAMES = {
  memory: 'memory bandwidth',
  fp32: 'fp32 arithmetic',
  tf32: 'TF32 arithmetic',
  fp16: 'fp16 arithmetic',
  bf16: 'bf16 arithmetic',
};
export const resourceName = (resource) => RESOURCE_NAMES[resource] ?? resource;

/** The JSON text that the page carries. */
export async function unpack(base64) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('it cannot unpack the data; Firefox 113, Safari 16.4, Chrome 80 or anything newer can');
  }
  const characters = atob(base64.trim());
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** Everything in the report. `groups` are Group objects, one for each problem and device with trials. */
export class Report {
  constructor(json) {
    Object.assign(this, json);
    this.groups = json.groups.map((group) => new Group(this, group));
    this.markStale();
  }

  // The version of a family, and the environment of a device, that ran last are the current ones.
  markStale() {
    const newestFamily = new Map();
    const newestEnvironment = new Map();
    const note = (map, key, id, moment) => {
      const known = map.get(key);
      if (!known || moment > known.moment) map.set(key, { id, moment });
    };
    for (const group of this.groups) {
      const { started, family, environment } = group.columns;
      for (let i = 0; i < group.count; i += 1) {
        note(newestFamily, this.familyKey(family[i]), family[i], started[i]);
        note(newestEnvironment, group.deviceIndex, environment[i], started[i]);
      }
    }
    this.currentFamilies = new Set([...newestFamily.values()].map(({ id }) => id));
    for (const group of this.groups) {
      const { family, environment } = group.columns;
      group.stale = new Uint8Array(group.count);
      for (let i = 0; i < group.count; i += 1) {
        const oldSource = newestFamily.get(this.familyKey(family[i])).id !== family[i];
        const oldEnvironment = newestEnvironment.get(group.deviceIndex).id !== environment[i];
        group.stale[i] = (oldSource ? 1 : 0) | (oldEnvironment ? 2 : 0);
      }
    }
  }

  familyKey(index) {
    const family = this.families[index];
    return `${family.backend}/${family.name}`;
  }

  /** The family's name, with its source where the report holds several versions. */
  familyLabel(index) {
    const family = this.families[index];
    const versions = this.families.filter((f) => f.name === family.name && f.backend === family.backend).length;
    return versions > 1 ? `${family.name} @${family.source_hash.slice(0, 7)}` : family.name;
  }

  group(problem, device) {
    return this.groups.find((g) => g.problemIndex === problem && g.deviceIndex === device);
  }
}

export const deviceLabel = (device) =>
  `${device.name} (${device.multiprocessors} ${device.backend === 'cuda' ? 'SMs' : 'cores'})`;

// FNV-1a of the characters, once forwards and once backwards: 64 bits in all.
function shortHash(text) {
  const fnv = (codes) => codes.reduce((hash, code) => Math.imul(hash ^ code, 0x01000193) >>> 0, 0x811c9dc5).toString(36);
  const codes = Array.from(text, (character) => character.codePointAt(0));
  return fnv(codes) + fnv(codes.reverse());
}

/** Says why a trial is stale, or nothing. */
export function staleReason(flags) {
  const reasons = [];
  if (flags & 1) reasons.push('the kernel source has changed since');
  if (flags & 2) reasons.push('the driver, compiler or knobwise version has changed since');
  return reasons.join('; ');
}

/** All trials of one problem on one device, by columns. Trials are named by their index. */
export class Group {
  constructor(report, json) {
    this.report = report;
    this.problemIndex = json.problem;
    this.deviceIndex = json.device;
    this.problem = report.problems[json.problem];
    this.device = report.devices[json.device];
    this.count = json.count;
    this.columns = json.columns;
    this.reasons = json.reasons;
    this.precisions = json.precisions;
    this.knobs = json.knobs;
    this.finalists = json.finalists;
    this.importance = json.importance;
    this.baselines = report.baselines.filter((b) => b.problem === json.problem && b.device === json.device).sort((a, b) => a.time - b.time);
    this.ok = report.statuses.indexOf('ok');
    this.bests = new Map();
  }

  /** For addresses: the same for the same problem and device in every report. */
  get key() {
    const { backend, name, architecture, multiprocessors, memory_bytes: memory } = this.device;
    return shortHash([this.problem.line, backend, name, architecture, multiprocessors, Math.round(memory / 2 ** 30)].join('\n'));
  }

  value(column, trial) {
    return this.columns[column]?.[trial] ?? null;
  }

  time(trial) {
    return this.value('time', trial);
  }

  isOk(trial) {
    return this.columns.status[trial] === this.ok;
  }

  status(trial) {
    return this.report.statuses[this.columns.status[trial]];
  }

  reason(trial) {
    const reason = this.value('reason', trial);
    return reason === null ? '' : this.reasons[reason];
  }

  precision(trial) {
    return this.precisions[this.columns.precision[trial]];
  }

  family(trial) {
    return this.report.families[this.columns.family[trial]];
  }

  session(trial) {
    return this.report.sessions[this.columns.session[trial]];
  }

  environment(trial) {
    return this.report.environments[this.columns.environment[trial]];
  }

  /** The configuration as an object with the knobs in their own order. */
  configuration(trial) {
    const configuration = {};
    for (const knob of this.knobs) {
      if (knob.value_of[trial] >= 0) configuration[knob.name] = knob.values[knob.value_of[trial]];
    }
    return configuration;
  }

  meets(trial, requirement) {
    if (!this.isOk(trial) || !this.value('distributions', trial) || this.value('nans', trial)) return false;
    return Object.entries(REQUIREMENTS[requirement].limits).every(([metric, limit]) => {
      const error = this.value(metric, trial);
      return error !== null && error <= limit;
    });
  }

  /** The fastest trial that meets the requirement; stale ones only where there is no other. Null if none. */
  best(requirement) {
    if (!this.bests.has(requirement)) this.bests.set(requirement, this.findBest(requirement));
    return this.bests.get(requirement);
  }

  findBest(requirement, accept = () => true) {
    let best = null;
    for (let i = 0; i < this.count; i += 1) {
      if (!this.meets(i, requirement) || !accept(i)) continue;
      const better =
        best === null ||
        (this.stale[i] > 0) < (this.stale[best] > 0) ||
        (this.stale[i] > 0) === (this.stale[best] > 0) && this.time(i) < this.time(best);
      if (better) best = i;
    }
    return best;
  }

  failed() {
    let failed = 0;
    for (const status of this.columns.status) failed += status === this.ok ? 0 : 1;
    return failed;
  }

  staleCount() {
    return this.stale.reduce((sum, flags) => sum + (flags ? 1 : 0), 0);
  }

  /** Why a baseline may not be compared with a trial, null if it may: only what the same software ran is alike. */
  incomparable(baseline, trial) {
    if (baseline.environment !== this.columns.environment[trial]) return 'another driver, compiler or knobwise version';
    if (!isDefault(baseline)) return null;
    const sameVersion = this.stale[trial] & 1 ? baseline.family === this.columns.family[trial] : this.report.currentFamilies.has(baseline.family);
    return sameVersion ? null : 'another version of the kernel source';
  }

  /** The baselines to compare the best trial with, fastest first; where there is none, those of the last trial. */
  comparable(requirement) {
    const trial = this.best(requirement) ?? this.count - 1;
    return this.baselines.filter((baseline) => this.incomparable(baseline, trial) === null);
  }

  /**
   * The fastest comparable baseline of a kind ("vendor" or "default"), one that meets the requirement where there is
   * one: {baseline, accurate}, or null.
   */
  baseline(kind, requirement) {
    const candidates = this.comparable(requirement).filter((baseline) => isDefault(baseline) === (kind === 'default'));
    const accurate = candidates.find((baseline) => baselineMeets(baseline, requirement));
    const chosen = accurate ?? candidates[0];
    return chosen ? { baseline: chosen, accurate: Boolean(accurate) } : null;
  }

  /** Ok trials by time, fastest first. */
  ranked() {
    this.rankedTrials ??= Array.from({ length: this.count }, (_, i) => i)
      .filter((i) => this.isOk(i))
      .sort((a, b) => this.time(a) - this.time(b));
    return this.rankedTrials;
  }

  throughput(us) {
    return us && this.problem.flops ? (this.problem.flops / us) * 1e6 : null;
  }
}

/** A family's default configuration, not a library. */
export const isDefault = (baseline) => baseline.name.endsWith(' default');

export function baselineMeets(baseline, requirement) {
  if (!baseline.distributions || baseline.nans) return false;
  return Object.entries(REQUIREMENTS[requirement].limits).every(
    ([metric, limit]) => baseline[metric] !== null && baseline[metric] <= limit,
  );
}

/** What a precision mode computes with, and how many products a multiplication takes. */
export function arithmetic(precision, dtype = 'f32') {
  // Two products of e5m2, at twice the rate of fp16, take as long as one of fp16.
  if (precision === 'fp16_e5m2') return { resource: 'fp16', products: 2 };
  const match = /^(fp32|tf32|bf16|fp16)(?:x(\d+))?$/.exec(precision);
  if (match) return { resource: match[1], products: Number(match[2] ?? 1) };
  return { resource: { f16: 'fp16', bf16: 'bf16' }[dtype] ?? 'fp32', products: 1 };
}

/**
 * The least time that the device's ceilings allow: {us, resource, measured, complete}. `complete` says that both
 * the memory's and the arithmetic's ceiling are known. Null when neither is, or the problem's work is not.
 */
export function floorTime(group, precision) {
  if (!group.problem.flops) return null;
  const ceiling = (resource) => group.device.ceilings.find((c) => c.resource === resource);
  const { resource, products } = arithmetic(precision, group.problem.dtype);
  const bounds = [];
  const memory = ceiling('memory');
  const compute = ceiling(resource);
  if (memory) bounds.push({ us: (group.problem.bytes / memory.per_second) * 1e6, ceiling: memory });
  if (compute) bounds.push({ us: ((group.problem.flops * products) / compute.per_second) * 1e6, ceiling: compute });
  if (bounds.length === 0) return null;
  const limiting = bounds.reduce((a, b) => (a.us >= b.us ? a : b));
  return {
    us: limiting.us,
    resource: limiting.ceiling.resource,
    measured: limiting.ceiling.measured,
    complete: bounds.length === 2,
  };
}

/** The figures of one line of the overview. */
export function summary(group, requirement) {
  const best = group.best(requirement);
  const time = best === null ? null : group.time(best);
  const against = (kind) => {
    const found = group.baseline(kind, requirement);
    return found && time ? { ...found, speedup: found.baseline.time / time } : null;
  };
  const floor = best === null ? null : floorTime(group, group.precision(best));
  return {
    group,
    best,
    time,
    throughput: group.throughput(time),
    vendor: against('vendor'),
    default: against('default'),
    floor,
    share: floor && time ? floor.us / time : null,
    error: best === null ? null : group.value('max_abs', best),
    failed: group.failed(),
    stale: group.staleCount(),
  };
}

/** What to say instead of a comparison with a kind of baseline. */
export function notMeasured(s, kind) {
  const what = kind === 'default' ? 'default' : 'library';
  const older = s.group.baselines.some((baseline) => isDefault(baseline) === (kind === 'default'));
  return `${what} not measured${older ? ' with this version' : ''}`;
}

/** Evenly spaced part of a list, with the number left out. */
export function thin(list, most) {
  if (list.length <= most) return { items: list, left: 0 };
  return {
    items: Array.from({ length: most }, (_, i) => list[Math.floor((i * list.length) / most)]),
    left: list.length - most,
  };
}
