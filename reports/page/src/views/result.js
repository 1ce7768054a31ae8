// One problem on one device.
import { accuracyFigure } from '../charts/accuracy.js';
import { convergenceFigure } from '../charts/convergence.js';
import { trialDialog, trialExplorer } from '../charts/explorer.js';
import { failureExamples, failuresFigure } from '../charts/failures.js';
import { effectFigure, importanceFigure, pairFigure, tunedKnobs } from '../charts/knobs.js';
import { resourcesFigure } from '../charts/resources.js';
import { rooflineFigure } from '../charts/roofline.js';
import { finalists, samplesFigure } from '../charts/samples.js';
import { measureCommand, runCommand, sessionCommand } from '../commands.js';
import { REQUIREMENTS, deviceLabel, notMeasured, resourceName, staleReason, summary } from '../data.js';
import { commandLine, copyButton, h } from '../dom.js';
import { keep, recall } from '../memory.js';
import * as format from '../format.js';
import { dataTable } from '../table.js';

const FIRST_EFFECTS = 6;

export function result(report, requirement, group) {
  const s = summary(group, requirement);
  const openTrial = (trial) => trialDialog(group, trial, requirement);
  const failures = s.failed > 0 && section('Failures', [failuresFigure(group), failureExamples(group, openTrial)]);
  const resources = group.ranked().length > 0 && resourcesFigure(group);
  return [
    h('nav', { 'aria-label': 'Breadcrumb', class: 'crumbs' }, h('a', { href: '#/' }, 'Overview'), ' › ', deviceLabel(group.device)),
    h('h2', { class: 'problem', tabindex: -1 }, h('code', {}, group.problem.line)),
    tiles(s),
    s.best === null ? h('p', { class: 'lead' }, noBest(group, requirement)) : winner(s, requirement, openTrial),
    group.ranked().length > 0 && section('Search and limits', [convergenceFigure(group, requirement), group.problem.flops && rooflineFigure(group, requirement)]),
    group.ranked().length > 0 && section('Can it be trusted?', [
      finalists(group, requirement).length > 0 && samplesFigure(group, requirement), accuracyFigure(group, requirement)]),
    knobSection(group, requirement),
    resources && section('Resources', [resources]),
    failures,
    h('section', {}, h('h2', {}, 'Trials'), trialExplorer(group, requirement, openTrial)),
    baselineSection(group, s.best ?? group.count - 1),
  ].filter(Boolean);
}

function section(title, figures) {
  const present = figures.filter(Boolean);
  return present.length > 0 && h('section', {}, h('h2', {}, title), h('div', { class: 'figures' }, present));
}

function noBest(group, requirement) {
  const ok = group.ranked().length;
  return ok === 0
    ? `None of the ${format.plural(group.count, 'trial')} gave a time. The failures below say why.`
    : `None of the ${format.plural(ok, 'timed trial')} meets ${REQUIREMENTS[requirement].label}. Choose another accuracy at the top of the page, or see “Time against error”.`;
}

function tiles(s) {
  const tile = (label, value, detail) => h('div', { class: 'tile' }, h('dt', {}, label), h('dd', {}, h('strong', {}, value), detail && h('small', {}, detail)));
  const against = (entry) => entry && `${entry.baseline.name}: ${format.time(entry.baseline.time)}${entry.accurate ? '' : ', not within the accuracy'}`;
  return h('dl', { class: 'tiles' },
    tile('Best time', format.time(s.time), s.throughput === null ? null : format.rate(s.throughput)),
    tile('Against the vendor library', s.vendor ? format.ratio(s.vendor.speedup) : format.MISSING, against(s.vendor) ?? notMeasured(s, 'vendor')),
    tile('Against the default', s.default ? format.ratio(s.default.speedup) : format.MISSING, against(s.default) ?? notMeasured(s, 'default')),
    tile('Of the physical limit', format.percent(s.share), s.floor ? `${resourceName(s.floor.resource)}, ${s.floor.measured ? 'measured' : 'rated'}: at least ${format.time(s.floor.us)}` : s.best === null ? null : 'ceilings not on record'),
    tile('Largest error', format.error(s.error), s.best === null ? null : s.group.precision(s.best) || null),
    tile('Trials', format.count(s.group.count), `${format.count(s.failed)} failed, ${format.count(s.stale)} stale`));
}

function winner(s, requirement, openTrial) {
  const { group, best } = s;
  const configuration = group.configuration(best);
  const session = group.session(best);
  const run = runCommand(group, requirement);
  return h('section', {}, h('h2', {}, 'Best configuration'),
    group.stale[best] ? h('p', { class: 'warning' }, `Stale: ${staleReason(group.stale[best])}.`) : null,
    h('p', {}, h('strong', {}, group.family(best).name), `, found as trial ${format.count(group.value('order', best) + 1)} by the strategy ${session.strategy}.`),
    h('dl', { class: 'facts' }, Object.entries(configuration).map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, String(value))))),
    h('div', { class: 'controls' }, copyButton('Copy configuration', JSON.stringify(configuration)),
      h('button', { type: 'button', class: 'small', onclick: () => openTrial(best) }, 'All figures of this trial')),
    run && [h('h3', {}, 'Run it as an application does'), commandLine(run)],
    h('h3', {}, 'Measure it again'), commandLine(measureCommand(group, best)),
    sessionCommand(session) && [h('h3', {}, 'Search again'), commandLine(sessionCommand(session))]);
}

function knobSection(group, requirement) {
  const knobs = tunedKnobs(group);
  if (knobs.length === 0) return null;
  const first = knobs.slice(0, recall('all knobs', false) ? knobs.length : FIRST_EFFECTS);
  const rest = knobs.slice(first.length);
  const effects = h('div', { class: 'figures small-multiples' }, first.map((knob) => effectFigure(group, knob, requirement)));
  const more = rest.length > 0 && h('button', { type: 'button', onclick: (event) => {
    keep('all knobs', true);
    effects.append(...rest.map((knob) => effectFigure(group, knob, requirement)));
    event.target.remove();
  } }, `Show ${format.plural(rest.length, 'more knob')}`);
  return h('section', {}, h('h2', {}, 'What the knobs do'),
    h('div', { class: 'figures' }, group.importance.features.length > 0 && importanceFigure(group), knobs.length > 1 && pairFigure(group, knobs)),
    h('h3', {}, 'Times by value'), h('p', { class: 'note' }, 'Every timed trial counts here, whatever its error.'), effects, more && h('p', {}, more));
}

function baselineSection(group, trial) {
  if (group.baselines.length === 0) return null;
  return h('section', {}, h('h2', {}, 'Baselines'), dataTable({
    caption: 'What the best configuration is compared with', rows: group.baselines, sort: 'time',
    columns: [
      { key: 'name', label: 'Baseline', value: (b) => b.name },
      { key: 'time', label: 'Time', number: true, value: (b) => b.time, show: (b) => format.time(b.time) },
      { key: 'rate', label: 'Rate', number: true, value: (b) => group.throughput(b.time), show: (b) => format.rate(group.throughput(b.time)) },
      { key: 'max_abs', label: 'Max error', number: true, value: (b) => b.max_abs, show: (b) => format.error(b.max_abs) },
      { key: 'rel_fro', label: 'Relative error', number: true, value: (b) => b.rel_fro, show: (b) => format.error(b.rel_fro) },
      { key: 'frac', label: 'Outside allclose', number: true, value: (b) => b.frac_outside, show: (b) => format.percent(b.frac_outside) },
      { key: 'started', label: 'Measured', value: (b) => b.started, show: (b) => format.moment(b.started) },
      { key: 'used', label: 'Compared with', value: (b) => group.incomparable(b, trial) ?? 'yes', show: (b) => { const why = group.incomparable(b, trial); return why ? `no: ${why}` : 'yes'; } },
    ],
  }).element);
}
