// The first page: what was found, for every problem and device.
import { configurationText } from '../charts/convergence.js';
import { deviceRooflineFigure } from '../charts/roofline.js';
import { deviceLabel, notMeasured, resourceName, summary } from '../data.js';
import { commandLine, h, shellWord } from '../dom.js';
import { findings, nextSteps } from '../findings.js';
import * as format from '../format.js';
import { dataTable } from '../table.js';

export function overview(report, requirement) {
  const summaries = report.groups.map((group) => summary(group, requirement));
  const sentences = findings(report, summaries);
  return [
    h('section', { class: 'findings', 'aria-label': 'Findings' }, h('p', { class: 'lead' }, sentences[0]),
      sentences.length > 1 && h('ul', {}, sentences.slice(1).map((sentence) => h('li', {}, sentence)))),
    summaries.length === 0 ? nothingYet(report) : results(summaries),
    summaries.length > 0 && devices(report, summaries),
    next(summaries),
  ].filter(Boolean);
}

function nothingYet(report) {
  return h('section', {}, h('p', {}, `No trials in ${report.sources.join(', ')}. A search fills it:`),
    commandLine(`knobwise tune 'conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu' --db ${shellWord(report.sources[0] ?? 'tuned.db')}`));
}

function results(summaries) {
  const versus = (kind, label, title) => ({
    key: kind, label, number: true, title,
    value: (s) => s[kind]?.speedup ?? null,
    show: (s) => s[kind] ? h('span', { class: s[kind].speedup >= 0.995 ? 'good' : 'bad', title: `${s[kind].baseline.name}: ${format.time(s[kind].baseline.time)}${s[kind].accurate ? '' : ' (does not meet the accuracy)'}` },
      format.ratio(s[kind].speedup), s[kind].accurate ? '' : '*') : s.best === null ? format.MISSING : h('small', { class: 'muted', title: notMeasured(s, kind) }, 'not measured'),
  });
  const table = dataTable({
    caption: 'Best configuration of each problem on each device',
    search: true,
    pageSize: 50,
    rows: summaries,
    columns: [
      { key: 'problem', label: 'Problem', broad: true, value: (s) => s.group.problem.line, show: (s) => h('a', { href: `#/result/${s.group.key}` }, s.group.problem.line) },
      { key: 'device', label: 'Device', value: (s) => deviceLabel(s.group.device) },
      { key: 'time', label: 'Best time', number: true, value: (s) => s.time, show: (s) => [format.time(s.time), s.throughput !== null && h('small', { class: 'below' }, format.rate(s.throughput))] },
      versus('vendor', 'vs vendor', 'Time of the fastest vendor library path over the best time; above 1 the best configuration wins'),
      versus('default', 'vs default', 'Time of the default configuration over the best time'),
      { key: 'share', label: 'Of the limit', number: true, title: 'Least possible time over the best time, by the roofline', value: (s) => s.share, show: shareCell },
      { key: 'error', label: 'Max error', number: true, value: (s) => s.error, show: (s) => format.error(s.error) },
      { key: 'configuration', label: 'Configuration', broad: true, value: (s) => (s.best === null ? null : `${s.group.family(s.best).name} ${configurationText(s.group, s.best)}`), show: configurationCell },
      { key: 'trials', label: 'Trials', number: true, value: (s) => s.group.count, show: (s) => format.count(s.group.count) },
      { key: 'failed', label: 'Failed', number: true, value: (s) => s.failed, show: (s) => format.count(s.failed) },
      { key: 'stale', label: 'Stale', number: true, title: 'Trials of an older kernel source, driver or version', value: (s) => s.stale, show: (s) => format.count(s.stale) },
    ],
  });
  const inaccurate = summaries.some((s) => [s.vendor, s.default].some((b) => b && !b.accurate));
  return h('section', {}, h('h2', {}, 'Results'), table.element,
    inaccurate && h('p', { class: 'note' }, '* The baseline itself does not meet the accuracy.'));
}

function shareCell(s) {
  if (s.share === null) return format.MISSING;
  const title = `${resourceName(s.floor.resource)}, ${s.floor.measured ? 'measured' : 'rated'} ceiling; at least ${format.time(s.floor.us)}${s.floor.complete ? '' : '; one of the two ceilings is not known'}`;
  return h('span', { class: 'share', title }, h('span', { class: 'bar', style: `--share: ${Math.min(1, s.share)}` }), format.percent(s.share),
    h('small', {}, resourceName(s.floor.resource)));
}

function configurationCell(s) {
  if (s.best === null) return h('span', { class: 'bad' }, 'none within the accuracy');
  return [h('strong', {}, s.group.family(s.best).name), ' ', h('span', { class: 'knob-text', title: configurationText(s.group, s.best) }, format.shorten(configurationText(s.group, s.best), 60)),
    s.group.stale[s.best] ? h('span', { class: 'badge' }, 'stale') : null];
}

function devices(report, summaries) {
  const figures = report.devices
    .map((device, index) => [device, summaries.filter((s) => s.group.deviceIndex === index && s.group.problem.flops)])
    .filter(([, list]) => list.some((s) => s.best !== null))
    .map(([device, list]) => deviceRooflineFigure(device, list));
  return figures.length > 0 && h('section', {}, h('h2', {}, 'Distance from the limits'), h('div', { class: 'figures' }, figures));
}

function next(summaries) {
  const steps = nextSteps(summaries).slice(0, 8);
  return steps.length > 0 && h('section', {}, h('h2', {}, 'What to tune next'), h('ol', { class: 'steps' }, steps.map((step) =>
    h('li', {}, h('p', {}, h('a', { href: `#/result/${step.summary.group.key}` }, step.summary.group.problem.line), ` on ${step.summary.group.device.name}: ${step.reason}.`), commandLine(step.command)))));
}
