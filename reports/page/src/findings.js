// The main findings in plain words.
import { tuneCommand } from './commands.js';
import { resourceName } from './data.js';
import * as format from './format.js';
import { geometricMean } from './charts/statistics.js';

const names = (group) => `${format.shorten(group.problem.line, 60)} on ${group.device.name}`;

/** Sentences, the most important first. */
export function findings(report, summaries) {
  const trials = summaries.reduce((sum, s) => sum + s.group.count, 0);
  if (trials === 0) return ['The databases hold no trials yet.'];
  return [...speed(summaries), ...limits(summaries), ...trouble(summaries), ...unfinished(report), volume(report, summaries, trials)];
}

function speed(summaries) {
  const sentences = [];
  for (const [kind, what] of [['vendor', 'the vendor library'], ['default', 'the default configuration']]) {
    const compared = summaries.filter((s) => s[kind]);
    const missing = summaries.filter((s) => s.best !== null).length - compared.length;
    if (compared.length === 0) continue;
    const speedups = compared.map((s) => s[kind].speedup);
    const ahead = speedups.filter((value) => value > 1.005).length;
    const range = compared.length > 1 ? ` (geometric mean; from ${format.ratio(Math.min(...speedups))} to ${format.ratio(Math.max(...speedups))})` : '';
    sentences.push(`Against ${what} the best configurations run at ${format.ratio(geometricMean(speedups))}${range}: faster in ${ahead} of ${format.plural(compared.length, 'comparison')}${missing > 0 ? `; not measured for ${format.count(missing)}` : ''}.`);
  }
  return sentences;
}

function limits(summaries) {
  const bounded = summaries.filter((s) => s.share !== null).sort((a, b) => b.share - a.share);
  if (bounded.length === 0) return [];
  const closest = bounded[0];
  const farthest = bounded[bounded.length - 1];
  const say = (s) => `${names(s.group)} at ${format.percent(s.share)} of what ${resourceName(s.floor.resource)} allows`;
  if (bounded.length === 1) return [`The best reaches ${format.percent(closest.share)} of what ${resourceName(closest.floor.resource)} allows.`];
  return [`Closest to its limit: ${say(closest)}. Farthest: ${say(farthest)}.`];
}

function trouble(summaries) {
  const sentences = [];
  const without = summaries.filter((s) => s.best === null);
  if (without.length > 0) sentences.push(`${format.plural(without.length, 'search has', 'searches have')} no result within the accuracy: ${without.slice(0, 3).map((s) => names(s.group)).join('; ')}${without.length > 3 ? '; …' : ''}.`);
  const old = summaries.filter((s) => s.best !== null && s.group.stale[s.best]);
  if (old.length > 0) sentences.push(`${format.plural(old.length, 'best configuration rests', 'best configurations rest')} on measurements with an older source or driver.`);
  return sentences;
}

// A session that was killed looks like one that runs.
function unfinished(report) {
  const running = report.sessions.filter((session) => session.state === 'running');
  if (running.length === 0) return [];
  const some = running.slice(0, 3).map((session) => `${session.strategy} on ${format.shorten(report.problems[session.problem].line, 60)} since ${format.moment(session.started)}`);
  return [`${format.plural(running.length, 'session')} not ended: ${some.join('; ')}${running.length > 3 ? '; …' : ''}.`];
}

function volume(report, summaries, trials) {
  const failed = summaries.reduce((sum, s) => sum + s.failed, 0);
  const problems = new Set(summaries.map((s) => s.group.problemIndex)).size;
  const devices = new Set(summaries.map((s) => s.group.deviceIndex)).size;
  return `Based on ${format.plural(trials, 'trial')} of ${format.plural(problems, 'problem')} on ${format.plural(devices, 'device')}, ${failed === 0 ? 'all of them with a time' : `${format.count(failed)} of them without a time (${format.percent(failed / trials)})`}.`;
}

/** What to tune next: [{summary, reason, command}], most promising first. */
export function nextSteps(summaries) {
  const steps = [];
  for (const s of summaries) {
    const reasons = [];
    let weight = 0;
    const add = (amount, reason) => {
      weight += amount;
      reasons.push(reason);
    };
    if (s.best === null) add(5, 'nothing meets the accuracy yet');
    else {
      if (s.vendor && s.vendor.speedup < 0.995) add(4, `the vendor library is ${format.ratio(1 / s.vendor.speedup)} as fast`);
      if (s.group.stale[s.best]) add(3, 'the best is stale');
      if (s.share !== null && s.share < 0.3) add(2 - s.share, `only ${format.percent(s.share)} of the limit is reached`);
    }
    if (s.group.count < 30) add(1, `only ${format.plural(s.group.count, 'trial')} so far`);
    if (reasons.length > 0) {
      steps.push({ summary: s, weight, reason: reasons.join('; '), command: tuneCommand(s.group) });
    }
  }
  return steps.sort((a, b) => b.weight - a.weight);
}

