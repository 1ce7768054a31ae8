// What each knob does to the time.
import { choice } from '../dom.js';
import * as format from '../format.js';
import { categoryAxis, linearAxis, logAxis, vertical } from './axes.js';
import { chartFigure, tooltip } from './figure.js';
import { fiveNumbers, median } from './statistics.js';

/** Ok trials by the value of a knob: [{value, text, times}], values that never ran left out. */
function byValue(group, knob) {
  const times = knob.values.map(() => []);
  for (const trial of group.ranked()) {
    const value = knob.value_of[trial];
    if (value >= 0) times[value].push(group.time(trial));
  }
  return knob.values.map((value, i) => ({ value, text: String(value), times: times[i] })).filter((entry) => entry.times.length > 0);
}

/** Knobs of which at least two values ran, most important first. */
export function tunedKnobs(group) {
  const rank = new Map(group.importance.features.map(({ feature }, index) => [feature, index]));
  return group.knobs
    .filter((knob) => byValue(group, knob).length > 1)
    .sort((a, b) => (rank.get(a.name) ?? 1e9) - (rank.get(b.name) ?? 1e9));
}

export function importanceFigure(group) {
  const { features, explained, trials } = group.importance;
  const rows = [...features].reverse();
  const trust = explained >= 0.7 ? 'a good fit' : explained >= 0.3 ? 'a rough fit: read the order, not the figures' : 'a poor fit: do not rely on this';
  return chartFigure({
    title: 'Which knobs matter',
    about: `How much worse a model predicts log time when one knob is shuffled, as a share of the variance (permutation importance of a random forest of 40 trees, fitted to ${format.plural(trials, 'trial')}). The model explains ${format.percent(Math.max(0, explained))} of the variance on trials it did not see: ${trust}.`,
    height: Math.max(8, 3.5 + rows.length * 1.6),
    option: (colours) => ({
      grid: { left: 150, right: 40, top: 8, bottom: 48 },
      tooltip: { trigger: 'item', formatter: ({ name, value }) => tooltip(name, [['importance', format.digits(value)]]) },
      xAxis: linearAxis(colours, 'importance', (v) => format.digits(v), { min: 0, scale: false }),
      yAxis: { ...categoryAxis(colours, '', rows.map((row) => row.feature)), axisLabel: { color: colours.text, fontSize: colours.size, width: 138, overflow: 'truncate', interval: 0 } },
      series: [{ type: 'bar', data: rows.map((row) => row.importance), itemStyle: { color: colours.accent }, barMaxWidth: 18 }],
    }),
    table: {
      columns: [
        { key: 'feature', label: 'Knob', value: (row) => row.feature },
        { key: 'importance', label: 'Importance', number: true, value: (row) => row.importance, show: (row) => format.digits(row.importance) },
      ],
      rows: features,
    },
  });
}

/** The distribution of times for each value of one knob. */
export function effectFigure(group, knob, requirement) {
  const entries = byValue(group, knob).map((entry) => ({ ...entry, numbers: fiveNumbers(entry.times) }));
  const fastest = entries.reduce((a, b) => (a.numbers[0] <= b.numbers[0] ? a : b)).text;
  const best = group.best(requirement);
  const winner = best !== null && knob.value_of[best] >= 0 ? String(knob.values[knob.value_of[best]]) : null;
  const shortest = winner === null || winner === fastest ? `The fastest trial has ${fastest}.` : `The fastest trial has ${fastest}, the best within the accuracy ${winner}.`;
  return chartFigure({
    title: knob.name,
    about: `Times of the trials with each value: quartiles and extremes. ${shortest}`,
    height: 13,
    option: (colours) => ({
      grid: { left: 72, right: 16, top: 12, bottom: 36 },
      tooltip: { trigger: 'item', formatter: ({ dataIndex }) => {
        const entry = entries[dataIndex];
        return tooltip(`${knob.name} = ${entry.text}`, [
          ['trials', format.count(entry.times.length)], ['fastest', format.time(entry.numbers[0])],
          ['lower quartile', format.time(entry.numbers[1])], ['median', format.time(entry.numbers[2])],
          ['upper quartile', format.time(entry.numbers[3])], ['slowest', format.time(entry.numbers[4])]]);
      } },
      xAxis: { ...categoryAxis(colours, '', entries.map((entry) => entry.text)) },
      yAxis: vertical(logAxis(colours, '', entries.flatMap((entry) => entry.numbers), format.time)),
      series: [{ type: 'boxplot', data: entries.map((entry) => entry.numbers), itemStyle: { color: 'transparent', borderColor: colours.accent, borderWidth: 1.5 }, boxWidth: [8, 36] }],
    }),
    table: {
      columns: [
        { key: 'value', label: knob.name, value: (row) => row.value },
        { key: 'trials', label: 'Trials', number: true, value: (row) => row.times.length },
        ...['Fastest', 'Lower quartile', 'Median', 'Upper quartile', 'Slowest'].map((label, i) => ({
          key: label, label, number: true, value: (row) => row.numbers[i], show: (row) => format.time(row.numbers[i]) })),
      ],
      rows: entries,
    },
  });
}

// Times in the cells, as long as they have room.
function cellLabels(colours, first, second) {
  const roomy = first.values.length <= 7 && second.values.length <= 12;
  return { show: roomy, color: colours.text, backgroundColor: colours.surface, padding: [2, 4], lineHeight: colours.size + 2, borderRadius: 3, fontSize: colours.size, formatter: ({ data }) => format.time(data.cell.time) };
}

/** The times over the values of two knobs. */
export function pairFigure(group, knobs) {
  const named = (name) => knobs.find((knob) => knob.name === name);
  const names = knobs.map((knob) => [knob.name, knob.name]);
  const redraw = () => figure.redraw();
  const across = choice('pair across', 'Across', names, knobs[0].name, redraw);
  const up = choice('pair up', 'Up', names, knobs[1].name, redraw);
  const statistic = choice('pair statistic', 'Show', [['best', 'best time'], ['median', 'median time']], 'best', redraw);
  const statistics = { best: (times) => times[0], median };
  const cells = () => {
    const [first, second] = [named(across.value), named(up.value)];
    const times = new Map();
    for (const trial of group.ranked()) {
      const [a, b] = [first.value_of[trial], second.value_of[trial]];
      if (a < 0 || b < 0) continue;
      const key = a * second.values.length + b;
      if (!times.has(key)) times.set(key, []);
      times.get(key).push(group.time(trial));
    }
    return [...times].map(([key, list]) => ({
      a: Math.floor(key / second.values.length), b: key % second.values.length, time: statistics[statistic.value](list), count: list.length }));
  };
  const figure = chartFigure({
    title: 'Two knobs together',
    about: 'The best (or median) time of the trials with each pair of values. The key gives the colours; empty cells were never measured, or are not in the space.',
    height: 20,
    controls: [across.element, up.element, statistic.element],
    option: (colours) => {
      const [first, second] = [named(across.value), named(up.value)];
      const list = cells();
      const times = list.map((cell) => Math.log10(cell.time));
      const [low, high] = times.length > 0 ? [Math.min(...times), Math.max(...times)] : [0, 1];
      return {
        grid: { left: 110, right: 100, top: 12, bottom: 48 },
        tooltip: { trigger: 'item', formatter: ({ data }) => tooltip(null, [[first.name, String(first.values[data.cell.a])], [second.name, String(second.values[data.cell.b])],
          [`${statistic.value} time`, format.time(data.cell.time)], ['trials', format.count(data.cell.count)]]) },
        visualMap: { type: 'continuous', min: low, max: Math.max(high, low + 1e-6), right: 0, top: 'middle', itemHeight: 120, itemWidth: 12, calculable: false,
          inRange: { color: colours.ramp }, formatter: (value) => format.time(10 ** value), textStyle: { color: colours.muted, fontSize: colours.size },
          text: [format.time(10 ** high), format.time(10 ** low)] },
        xAxis: { ...categoryAxis(colours, first.name, first.values.map(String)) },
        yAxis: vertical({ ...categoryAxis(colours, second.name, second.values.map(String)) }, 88),
        series: [{ type: 'heatmap', label: cellLabels(colours, first, second), data: list.map((cell) => ({ value: [cell.a, cell.b, Math.log10(cell.time)], cell })), itemStyle: { borderColor: colours.surface, borderWidth: 1 } }],
      };
    },
    table: () => ({
      columns: [
        { key: 'a', label: across.value, value: (cell) => named(across.value).values[cell.a] },
        { key: 'b', label: up.value, value: (cell) => named(up.value).values[cell.b] },
        { key: 'time', label: `${statistic.value} time`, number: true, value: (cell) => cell.time, show: (cell) => format.time(cell.time) },
        { key: 'count', label: 'Trials', number: true, value: (cell) => cell.count },
      ],
      rows: cells(),
      sort: 'time',
    }),
  });
  return figure;
}
