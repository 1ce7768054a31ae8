// The raw samples of the fastest trials: is the winner separable from the runner-up?
import { thin } from '../data.js';
import * as format from '../format.js';
import { categoryAxis, linearAxis } from './axes.js';
import { configurationText } from './convergence.js';
import { chartFigure, tooltip } from './figure.js';
import { fiveNumbers, mannWhitney, median } from './statistics.js';

const MOST = 8;

/** The best trial first, then its rivals: only what is as current as the best can be compared with it. */
export function finalists(group, requirement) {
  const best = group.best(requirement);
  if (best === null) return [];
  return group.finalists
    .filter(({ trial, us }) => us.length > 0 && group.meets(trial, requirement) && (group.stale[best] > 0 || group.stale[trial] === 0))
    .sort((a, b) => group.time(a.trial) - group.time(b.trial))
    .slice(0, MOST);
}

/** Says whether the two fastest differ. */
export function verdict(group, requirement) {
  const [first, second] = finalists(group, requirement);
  if (!first || !second || first.trial !== group.best(requirement)) return 'There is no runner-up to compare with.';
  if (first.us.length < 5 || second.us.length < 5) {
    return 'Too few samples were taken to tell the winner from the runner-up.';
  }
  const gap = group.time(second.trial) / group.time(first.trial) - 1;
  const p = mannWhitney(first.us, second.us);
  const method = `Mann-Whitney U test, p ${p < 0.001 ? '< 0.001' : `= ${p.toFixed(3)}`}, ${format.count(first.us.length)} and ${format.count(second.us.length)} samples`;
  if (p < 0.01 && median(first.us) > median(second.us)) {
    return `The runner-up's samples are the smaller ones (${method}), although the winner's reported time is ${format.percent(gap)} less: time both again before choosing.`;
  }
  return p < 0.01
    ? `The winner is ${format.percent(gap)} faster than the runner-up, and their samples differ clearly (${method}).`
    : `The winner and the runner-up (${format.percent(gap)} apart) cannot be told apart by their samples (${method}): either will do.`;
}

// The end of the axis is no round number.
const unevenEnd = (axis) => ({ ...axis, axisLabel: { ...axis.axisLabel, showMaxLabel: false } });

// Up to here the boxes and what is not far outside them: three box lengths above the upper quartile.
function upperEnd(list) {
  const fences = list.map(({ us }) => {
    const [, lower, , upper] = fiveNumbers(us);
    return Math.min(Math.max(...us), upper + Math.max(3 * (upper - lower), 0.01 * upper));
  });
  return Math.max(...fences);
}

export function samplesFigure(group, requirement) {
  const list = finalists(group, requirement);
  const end = upperEnd(list);
  const beyond = list.flatMap(({ us }) => us.filter((sample) => sample > end));
  const notes = [
    beyond.length > 0 && `${format.plural(beyond.length, 'sample')} beyond ${format.time(end)} ${beyond.length === 1 ? 'is' : 'are'} not drawn; the longest is ${format.time(Math.max(...beyond))}.`,
    list.some(({ trial, us }) => us.length < group.value('samples', trial)) && 'Evenly thinned: at most 200 samples of a trial are in this report.',
  ].filter(Boolean);
  const name = (index) => `#${index + 1}`;
  return chartFigure({
    title: 'Samples of the finalists',
    about: verdict(group, requirement),
    height: 6 + list.length * 2.2,
    option: (colours) => {
      const names = list.map((_, i) => name(i)).reverse();
      return {
        grid: { left: 48, right: 24, top: 12, bottom: 48 },
        tooltip: { trigger: 'item', formatter: (item) => {
          const finalist = list[item.data.index];
          return finalist ? tooltip(`#${list.indexOf(finalist) + 1} ${group.family(finalist.trial).name}`, [
            ['reported time', format.time(group.time(finalist.trial), 4)], ['samples', format.count(group.value('samples', finalist.trial))],
            ['knobs', format.shorten(configurationText(group, finalist.trial), 240)]]) : '';
        } },
        xAxis: unevenEnd(linearAxis(colours, 'time of one run', (us) => format.time(us, 4), { max: end })),
        yAxis: categoryAxis(colours, '', names),
        series: [
          { type: 'boxplot', layout: 'vertical', boxWidth: [10, 22], itemStyle: { color: 'transparent', borderColor: colours.accent, borderWidth: 1.5 },
            data: list.map((finalist, index) => ({ value: fiveNumbers(finalist.us).map((number) => Math.min(number, end)), index })).reverse() },
          { type: 'scatter', symbolSize: 4, itemStyle: { color: colours.text, opacity: 0.35 },
            data: list.flatMap((finalist, i) => thin(finalist.us, 100).items.filter((us) => us <= end).map((us) => ({ value: [us, name(i)], index: i }))) },
        ],
      };
    },
    note: notes.join(' ') || null,
    table: () => ({
      columns: [
        { key: 'rank', label: 'Rank', number: true, value: (row) => list.indexOf(row) + 1 },
        { key: 'time', label: 'Reported time', number: true, value: (row) => group.time(row.trial), show: (row) => format.time(group.time(row.trial), 4) },
        { key: 'kind', label: 'Which is the', value: (row) => format.words(row.kind) },
        { key: 'samples', label: 'Samples', number: true, value: (row) => group.value('samples', row.trial) },
        ...['Least', 'Lower quartile', 'Median', 'Upper quartile', 'Largest'].map((label, i) => ({
          key: label, label, number: true, value: (row) => fiveNumbers(row.us)[i], show: (row) => format.time(fiveNumbers(row.us)[i], 4) })),
        { key: 'knobs', label: 'Configuration', value: (row) => configurationText(group, row.trial) },
      ],
      rows: list,
    }),
  });
}
