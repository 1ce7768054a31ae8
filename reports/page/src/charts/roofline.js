// The device's limits and where the trials stand below them.
import { arithmetic, deviceLabel, floorTime, resourceName, thin } from '../data.js';
import * as format from '../format.js';
import { logAxis, vertical } from './axes.js';
import { configurationText, pointTooltip } from './convergence.js';
import { chartFigure, tooltip } from './figure.js';
import { precisionStyle } from './theme.js';

const MOST_POINTS = 5000;
const STYLES = { fp32: 'solid', tf32: 'dashed', fp16: 'dotted', bf16: [8, 3, 2, 3] };

const intensity = (problem) => problem.flops / problem.bytes;

// Points of one intensity lie on one line; a little spread by rank makes them visible.
const spread = (index) => 1 + 0.4 * (((index * 0.618034) % 1) - 0.5);

function roofs(colours, device, low, high) {
  const memory = device.ceilings.find((c) => c.resource === 'memory');
  const series = [];
  for (const ceiling of device.ceilings) {
    if (ceiling.resource === 'memory') continue;
    const knee = memory ? ceiling.per_second / memory.per_second : low;
    const from = Math.max(low, knee);
    const data = [[from, ceiling.per_second], [high, ceiling.per_second]];
    if (memory && knee > low) data.unshift([low, low * memory.per_second]);
    series.push({
      type: 'line', name: roofName(ceiling), data, symbol: 'none', silent: true,
      lineStyle: { color: precisionStyle(colours, ceiling.resource).color, type: STYLES[ceiling.resource] ?? 'solid', width: 1.5 },
      itemStyle: { color: precisionStyle(colours, ceiling.resource).color },
    });
  }
  if (memory) {
    const top = Math.max(...device.ceilings.filter((c) => c !== memory).map((c) => c.per_second), high * memory.per_second * 0.1);
    series.push({
      type: 'line', name: roofName(memory), symbol: 'none', silent: true,
      data: [[low, low * memory.per_second], [Math.min(high, top / memory.per_second), Math.min(high * memory.per_second, top)]],
      lineStyle: { color: colours.text, width: 1.5 }, itemStyle: { color: colours.text },
    });
  }
  return series;
}

const roofName = (ceiling) => `${ceiling.resource === 'memory' ? 'memory' : ceiling.resource} (${ceiling.measured ? 'measured' : 'rated'})`;

const ceilingText = (ceiling) =>
  ceiling.resource === 'memory' ? format.bandwidth(ceiling.per_second) : format.rate(ceiling.per_second);

const ceilingRows = (device) =>
  device.ceilings.map((c) => ({ what: roofName(c), value: ceilingText(c), intensity: null, rate: c.resource === 'memory' ? null : c.per_second }));

function noCeilings(device) {
  return device.ceilings.length === 0
    ? 'No ceiling of this device is on record, so only the trials are drawn.'
    : device.ceilings.some((c) => c.resource === 'memory')
      ? null
      : 'The memory bandwidth of this device is not on record: only the arithmetic bounds the drawing.';
}

function axes(colours, intensities, rates) {
  return {
    xAxis: logAxis(colours, 'FLOP per byte', intensities, (v) => format.digits(v)),
    yAxis: vertical(logAxis(colours, 'rate', rates, format.rate), 78),
    grid: { left: 96 },
  };
}

/** One problem on one device: every trial. */
export function rooflineFigure(group, requirement) {
  const ranked = group.ranked();
  const best = group.best(requirement);
  const { items, left } = thin(ranked, MOST_POINTS);
  const at = intensity(group.problem);
  const option = (colours) => {
    const rates = [...ranked.map((t) => group.throughput(group.time(t))), ...group.device.ceilings.filter((c) => c.resource !== 'memory').map((c) => c.per_second)];
    const points = new Map();
    items.forEach((trial, index) => {
      const precision = group.precision(trial) || 'trials';
      if (!points.has(precision)) points.set(precision, []);
      points.get(precision).push({ value: [at * spread(index), group.throughput(group.time(trial))], trial });
    });
    const trials = [...points].map(([precision, data]) => ({
      name: precision, type: 'scatter', symbolSize: 6, symbol: precisionStyle(colours, precision).symbol,
      itemStyle: { color: precisionStyle(colours, precision).color, opacity: 0.5 }, data,
    }));
    const marked = best === null ? [] : [{
      name: 'best within the accuracy', type: 'scatter', symbol: 'diamond', symbolSize: 16, z: 10,
      itemStyle: { color: 'transparent', borderColor: colours.text, borderWidth: 2 },
      data: [{ value: [at, group.throughput(group.time(best))], trial: best }],
    }];
    return {
      ...axes(colours, [at / 12, at * 12], rates),
      legend: {},
      tooltip: { trigger: 'item', formatter: (item) => pointTooltip(group, item) },
      series: [...roofs(colours, group.device, at / 14, at * 14), ...trials, ...marked],
    };
  };
  return chartFigure({
    title: 'Roofline',
    about: aboutRoofline(group, best),
    height: 22,
    option,
    note: [noCeilings(group.device), left > 0 ? `${format.count(left)} trials are left out of the drawing.` : null,
           'The bytes are those that the problem itself must move, the same for all trials; they are spread a little sideways to be seen.'].filter(Boolean).join(' '),
    table: () => ({
      columns: [
        { key: 'what', label: 'What', value: (row) => row.what },
        { key: 'rate', label: 'Rate', number: true, value: (row) => row.rate, show: (row) => row.value },
        { key: 'share', label: 'Share of its limit', number: true, value: (row) => row.share ?? null, show: (row) => format.percent(row.share) },
      ],
      rows: [...ceilingRows(group.device), ...ranked.slice(0, 200).map((trial) => {
        const floor = floorTime(group, group.precision(trial));
        return { what: `${group.family(trial).name} ${configurationText(group, trial)}`, rate: group.throughput(group.time(trial)),
                 value: format.rate(group.throughput(group.time(trial))), share: floor ? floor.us / group.time(trial) : null };
      })],
    }),
  });
}

function aboutRoofline(group, best) {
  if (best === null) return 'No trial meets the accuracy, so no distance from the limit can be given.';
  const floor = floorTime(group, group.precision(best));
  if (!floor) return `The best runs at ${format.rate(group.throughput(group.time(best)))}. The limits of this device are not on record.`;
  const rate = format.rate(group.throughput(group.time(best)));
  if (floor.us > 1.02 * group.time(best)) {
    return `The best runs at ${rate}, more than the ceiling of ${resourceName(floor.resource)} on record allows: the ceiling is too low. 'knobwise devices --calibrate' measures it.`;
  }
  const { products } = arithmetic(group.precision(best), group.problem.dtype);
  const split = products > 1 ? ` (its mode spends ${products} products on each multiplication)` : '';
  return `The best runs at ${rate}: ${format.percent(floor.us / group.time(best))} of what ${resourceName(floor.resource)} allows${split}; no faster than ${format.time(floor.us)} is possible there.`;
}

/** One device: the best trial of every problem. */
export function deviceRooflineFigure(device, summaries) {
  const withBest = summaries.filter((s) => s.best !== null);
  const option = (colours) => {
    const intensities = withBest.map((s) => intensity(s.group.problem));
    const low = Math.min(...intensities) / 4;
    const high = Math.max(...intensities) * 4;
    const rates = [...withBest.map((s) => s.throughput), ...device.ceilings.filter((c) => c.resource !== 'memory').map((c) => c.per_second)];
    return {
      ...axes(colours, [low, high], rates),
      legend: {},
      tooltip: { trigger: 'item', formatter: ({ data }) => {
        const s = withBest[data.index];
        return s ? tooltip(s.group.problem.line, [['time', format.time(s.time)], ['rate', format.rate(s.throughput)], ['share of the limit', format.percent(s.share)]]) : '';
      } },
      series: [...roofs(colours, device, low / 1.2, high * 1.2), {
        name: 'best of each problem', type: 'scatter', symbolSize: 11, itemStyle: { color: colours.accent, borderColor: colours.text, borderWidth: 1 },
        data: withBest.map((s, index) => ({ value: [intensity(s.group.problem), s.throughput], index })),
      }],
    };
  };
  return chartFigure({
    title: `Roofline of ${deviceLabel(device)}`,
    about: 'The best configuration of each problem under the limits of the device. Points near a roof have little left to gain.',
    option,
    note: noCeilings(device),
    table: () => ({
      columns: [
        { key: 'what', label: 'Problem', value: (row) => row.what },
        { key: 'intensity', label: 'FLOP per byte', number: true, value: (row) => row.intensity, show: (row) => format.digits(row.intensity) },
        { key: 'rate', label: 'Rate', number: true, value: (row) => row.rate, show: (row) => row.value },
      ],
      rows: [...ceilingRows(device), ...withBest.map((s) => ({ what: s.group.problem.line, intensity: intensity(s.group.problem), rate: s.throughput, value: format.rate(s.throughput) }))],
    }),
  });
}
