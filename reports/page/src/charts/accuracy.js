// Time against error: what speed costs in accuracy.
import { choice } from '../dom.js';
import { REQUIREMENTS, thin } from '../data.js';
import * as format from '../format.js';
import { logAxis, vertical } from './axes.js';
import { configurationText, pointTooltip } from './convergence.js';
import { chartFigure } from './figure.js';
import { precisionStyle } from './theme.js';

const MOST_POINTS = 6000;
const METRICS = {
  rel_fro: { label: 'relative error (Frobenius)', gates: [['TF32 class', REQUIREMENTS.tf32.limits.rel_fro], ['half class', REQUIREMENTS.half.limits.rel_fro], ['bf16 class', REQUIREMENTS.bf16.limits.rel_fro]] },
  max_abs: { label: 'largest absolute error', gates: [['certain to pass allclose', 1e-4]] },
  mean_abs: { label: 'mean absolute error', gates: [] },
  frac_outside: { label: 'share outside allclose 1e-4', gates: [] },
};

/** Trials that no other beats in both time and error, fastest first. */
export function paretoFront(group, metric) {
  const front = [];
  let least = Infinity;
  for (const trial of group.ranked()) {
    const error = group.value(metric, trial);
    if (error === null || group.value('nans', trial) || error >= least) continue;
    least = error;
    front.push(trial);
  }
  return front;
}

export function accuracyFigure(group, requirement) {
  const metric = choice('error metric', 'Error', Object.entries(METRICS).map(([key, { label }]) => [key, label]), 'rel_fro', () => figure.redraw());
  const measured = () => group.ranked().filter((trial) => group.value(metric.value, trial) !== null);
  const option = (colours) => {
    const trials = measured();
    const errors = trials.map((trial) => group.value(metric.value, trial)).filter((error) => error > 0);
    // Zero has no place on a logarithmic axis: it is drawn at the left edge.
    const zero = (errors.length > 0 ? errors.reduce((a, b) => Math.min(a, b)) : 1e-7) / 4;
    const x = (trial) => Math.max(group.value(metric.value, trial), zero);
    const point = (trial) => ({ value: [x(trial), group.time(trial)], trial });
    const byPrecision = new Map();
    for (const trial of thin(trials, MOST_POINTS).items) {
      const precision = group.precision(trial) || 'trials';
      if (!byPrecision.has(precision)) byPrecision.set(precision, []);
      byPrecision.get(precision).push(trial);
    }
    const scatter = [...byPrecision].map(([precision, list]) => {
      const style = precisionStyle(colours, precision);
      return {
        name: precision, type: 'scatter', symbol: style.symbol, symbolSize: 7, itemStyle: { color: style.color },
        data: list.map((trial) => ({
          ...point(trial),
          itemStyle: group.meets(trial, requirement)
            ? { color: style.color, opacity: 0.65 }
            : { color: 'transparent', borderColor: style.color, borderWidth: 1.2, opacity: 0.8 },
        })),
      };
    });
    const gates = METRICS[metric.value].gates;
    const front = {
      name: 'Pareto front', type: 'line', step: 'end', symbol: 'none', lineStyle: { color: colours.text, width: 1.5 },
      itemStyle: { color: colours.text }, data: paretoFront(group, metric.value).map(point).reverse(), z: 5,
    };
    const limits = {
      name: 'accuracy classes', type: 'line', data: [], symbol: 'none', lineStyle: { color: colours.bad, type: 'dashed', width: 1.5 }, itemStyle: { color: colours.bad },
      markLine: {
        silent: true, symbol: 'none', precision: 12, lineStyle: { color: colours.bad, type: 'dashed' },
        label: { color: colours.bad, fontSize: colours.size, formatter: (line) => line.name },
        // Neighbours would run into each other: their names stand at opposite ends.
        data: gates.map(([name, limit], i) => ({ name, xAxis: limit, label: { position: i % 2 ? 'insideStartTop' : 'insideEndTop' } })),
      },
    };
    return {
      legend: {},
      tooltip: { trigger: 'item', formatter: (item) => pointTooltip(group, item) },
      xAxis: logAxis(colours, METRICS[metric.value].label, [zero, ...errors, ...gates.map(([, limit]) => limit)], format.error),
      yAxis: vertical(logAxis(colours, 'time', trials.map((trial) => group.time(trial)), format.time)),
      series: [...scatter, front, limits],
    };
  };
  const figure = chartFigure({
    title: 'Time against error',
    about: 'Each trial by its measured error against a float64 reference, the worst of all input distributions. Filled points meet the accuracy chosen at the top of the page; on the Pareto front nothing is both faster and more accurate. Dashed lines are accuracy classes.',
    height: 22,
    controls: [metric.element],
    option,
    note: measured().length > MOST_POINTS ? `Every ${Math.ceil(measured().length / MOST_POINTS)}th trial is drawn.` : null,
    table: () => ({
      columns: [
        { key: 'precision', label: 'Precision', value: (trial) => group.precision(trial) || '–' },
        { key: 'time', label: 'Time', number: true, value: (trial) => group.time(trial), show: (trial) => format.time(group.time(trial)) },
        ...Object.entries(METRICS).map(([key, { label }]) => ({ key, label, number: true, value: (trial) => group.value(key, trial), show: (trial) => format.error(group.value(key, trial)) })),
        { key: 'knobs', label: 'Configuration', value: (trial) => configurationText(group, trial) },
      ],
      rows: paretoFront(group, metric.value),
      empty: 'No errors were measured.',
    }),
  });
  return figure;
}
