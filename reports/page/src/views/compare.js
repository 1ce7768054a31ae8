// Two selections side by side: devices, sessions, environments, problems.
import { chartFigure } from '../charts/figure.js';
import { configurationText } from '../charts/convergence.js';
import { logAxis, vertical } from '../charts/axes.js';
import { geometricMean } from '../charts/statistics.js';
import { deviceLabel, thin } from '../data.js';
import { choice, h } from '../dom.js';
import * as format from '../format.js';
import { dataTable } from '../table.js';

/** Everything that can stand on one side: {label, group, accept(trial)}. */
function sides(report) {
  const all = report.groups.flatMap((group) => {
    const name = `${group.problem.line} — ${deviceLabel(group.device)}`;
    const part = (column, label) => {
      const indices = [...new Set(group.columns[column])];
      return indices.length < 2 ? [] : indices.map((index) => ({ label: `${name} — ${label(index)}`, group, accept: (trial) => group.columns[column][trial] === index }));
    };
    return [
      { label: name, group, accept: () => true },
      ...part('session', (index) => `session ${report.sessions[index].strategy} of ${format.moment(report.sessions[index].started)}`),
      ...part('environment', (index) => `environment ${environmentText(report.environments[index])}`),
    ];
  });
  return all.map((side, index) => ({ ...side, label: numbered(all, index) }));
}

// Equal labels are told apart by a number.
function numbered(all, index) {
  const { label } = all[index];
  const before = all.slice(0, index).filter((side) => side.label === label).length;
  return before > 0 ? `${label} (${before + 1})` : label;
}

const environmentText = (environment) =>
  [environment.driver_version && `driver ${environment.driver_version}`, environment.toolkit_version, environment.compiler, `knobwise ${environment.knobwise_version}`].filter(Boolean).join(', ');

export function compare(report, requirement) {
  const all = sides(report);
  if (all.length < 2) return [h('h2', {}, 'Compare'), h('p', {}, 'There is only one search in this report; a comparison needs two devices, problems, sessions or environments.')];
  const area = h('div');
  const side = (chosen) => all.find(({ label }) => label === chosen.value);
  const draw = () => area.replaceChildren(...comparison(report, requirement, side(left), side(right)));
  const choices = all.map(({ label }) => [label, label]);
  const left = choice('left', 'Left', choices, all[0].label, draw);
  const right = choice('right', 'Right', choices, all[defaultRight(all)].label, draw);
  draw();
  return [h('h2', {}, 'Compare'), h('div', { class: 'controls stacked' }, left.element, right.element), area];
}

// The same problem elsewhere says most.
function defaultRight(all) {
  const other = all.findIndex((side, index) => index > 0 && side.group.problemIndex === all[0].group.problemIndex && side.group !== all[0].group);
  return other > 0 ? other : 1;
}

function comparison(report, requirement, left, right) {
  const best = [left, right].map((side) => side.group.findBest(requirement, side.accept));
  return [figuresTable(requirement, [left, right], best), knobTable([left, right], best), commonTrials(left, right)].filter(Boolean);
}

function figuresTable(requirement, pair, best) {
  const trialsOf = (side) => Array.from({ length: side.group.count }, (_, i) => i).filter(side.accept);
  const lists = pair.map(trialsOf);
  const each = (make) => pair.map((side, i) => make(side, best[i], lists[i]));
  const ofBest = (make) => each((side, trial) => (trial === null ? format.MISSING : make(side.group, trial)));
  const time = pair.map((side, i) => (best[i] === null ? null : side.group.time(best[i])));
  const rows = [
    ['Problem', each((side) => side.group.problem.line)],
    ['Device', each((side) => deviceLabel(side.group.device))],
    ['Environment', ofBest((group, trial) => environmentText(group.environment(trial)))],
    ['Best time', time.map((us) => format.time(us))],
    ['Rate', ofBest((group, trial) => format.rate(group.throughput(group.time(trial))))],
    ['Largest error', ofBest((group, trial) => format.error(group.value('max_abs', trial)))],
    ['Kernel family', ofBest((group, trial) => group.family(trial).name)],
    ['Kernel source', ofBest((group, trial) => format.shorten(group.family(trial).source_hash, 16))],
    ['Strategy', ofBest((group, trial) => group.session(trial).strategy)],
    ['Trials', each((_, __, list) => format.count(list.length))],
    ['Failed', each((side, _, list) => format.count(list.filter((trial) => !side.group.isOk(trial)).length))],
  ];
  const lead = time[0] && time[1] && pair[0].group.problemIndex === pair[1].group.problemIndex
    ? h('p', { class: 'lead' }, Math.abs(time[1] / time[0] - 1) < 0.005 ? 'Both best times are equal within 0.5 %.'
      : `The best of the ${time[0] < time[1] ? 'left' : 'right'} is ${format.ratio(Math.max(time[0], time[1]) / Math.min(time[0], time[1]))} as fast.`)
    : null;
  return h('section', {}, lead, sideBySide('Figures', rows));
}

function knobTable(pair, best) {
  if (best.includes(null)) return null;
  const [a, b] = pair.map((side, i) => side.group.configuration(best[i]));
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  const text = (value) => (value === undefined ? format.MISSING : String(value));
  const transferred = pair[0].label !== pair[1].label ? transfer(pair, best) : [];
  return h('section', {}, h('h3', {}, 'Best configurations'), sideBySide('Knobs', names.map((name) => [name, [text(a[name]), text(b[name])]])),
    transferred.map((sentence) => h('p', {}, sentence)));
}

// The same kernel with the same knobs, whatever the device and the version.
const identity = (group, trial) => `${group.family(trial).name} ${JSON.stringify(group.configuration(trial))}`;

// How one side's best configuration does on the other side.
function transfer(pair, best) {
  return [[0, 1], [1, 0]].map(([from, to]) => {
    const wanted = identity(pair[from].group, best[from]);
    const there = pair[to].group.ranked().find((trial) => pair[to].accept(trial) && identity(pair[to].group, trial) === wanted);
    const names = ['left', 'right'];
    if (there === undefined) return `The ${names[from]} best was not measured on the ${names[to]} side.`;
    const ratio = pair[to].group.time(there) / pair[to].group.time(best[to]);
    return `The ${names[from]} best, carried over to the ${names[to]} side, takes ${format.time(pair[to].group.time(there))} there: ${format.ratio(ratio)} the time of the local best.`;
  });
}

function sideBySide(caption, rows) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, h('table', {}, h('caption', {}, caption),
    h('thead', {}, h('tr', {}, ['', 'Left', 'Right'].map((text) => h('th', { scope: 'col' }, text || h('span', { class: 'offscreen' }, 'Item'))))),
    h('tbody', {}, rows.map(([name, [left, right]]) => h('tr', { class: left !== right ? 'differs' : null },
      h('th', { scope: 'row' }, name, left !== right && h('span', { class: 'offscreen' }, ' (differs)')), h('td', {}, left), h('td', {}, right))))));
}

function commonTrials(left, right) {
  if (left.label === right.label) return null;
  const known = new Map(left.group.ranked().filter(left.accept).map((trial) => [identity(left.group, trial), trial]));
  const common = right.group.ranked().filter(right.accept).map((trial) => ({ left: known.get(identity(right.group, trial)), right: trial })).filter((pair) => pair.left !== undefined);
  if (common.length === 0) return h('p', {}, 'No configuration was timed on both sides.');
  const times = (pair) => [left.group.time(pair.left), right.group.time(pair.right)];
  const ratio = geometricMean(common.map((pair) => times(pair)[1] / times(pair)[0]));
  const drawn = thin(common, 5000);
  return h('div', { class: 'figures' }, chartFigure({
    title: 'Configurations timed on both sides',
    about: `${format.plural(common.length, 'configuration')}; the right takes ${format.ratio(ratio)} the time of the left in the geometric mean. On the line both are equal.`,
    height: 22,
    note: drawn.left > 0 ? `${format.count(drawn.left)} are left out of the drawing.` : null,
    option: (colours) => {
      const x = logAxis(colours, 'left', common.map((pair) => times(pair)[0]), format.time);
      const y = vertical(logAxis(colours, 'right', common.map((pair) => times(pair)[1]), format.time));
      const low = Math.max(x.min, y.min);
      const high = Math.min(x.max, y.max);
      return {
        tooltip: { trigger: 'item', formatter: ({ data }) => (data.pair ? `${format.time(times(data.pair)[0])} → ${format.time(times(data.pair)[1])}` : '') },
        xAxis: x,
        yAxis: y,
        series: [
          { type: 'scatter', symbolSize: 6, itemStyle: { color: colours.accent, opacity: 0.6 }, data: drawn.items.map((pair) => ({ value: times(pair), pair })) },
          { type: 'line', symbol: 'none', silent: true, lineStyle: { color: colours.muted, type: 'dashed' }, data: low < high ? [[low, low], [high, high]] : [] },
        ],
      };
    },
    table: () => ({
      columns: [
        { key: 'left', label: 'Left', number: true, value: (pair) => times(pair)[0], show: (pair) => format.time(times(pair)[0]) },
        { key: 'right', label: 'Right', number: true, value: (pair) => times(pair)[1], show: (pair) => format.time(times(pair)[1]) },
        { key: 'ratio', label: 'Right over left', number: true, value: (pair) => times(pair)[1] / times(pair)[0], show: (pair) => format.ratio(times(pair)[1] / times(pair)[0]) },
        { key: 'knobs', label: 'Configuration', value: (pair) => configurationText(right.group, pair.right) },
      ],
      rows: common,
    }),
  }));
}
