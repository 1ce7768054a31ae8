// Axes shared by the charts.
import { tick } from '../format.js';

// Steps inside a decade, by the least number of decades that they are for.
const STEPS = [[4, [1]], [2, [1, 3]], [0.8, [1, 2, 5]], [0.4, [1, 1.5, 2, 3, 5, 7]], [0, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]]];
const FEWEST_TICKS = 3;

/** Round values inside [low, high]: 1, 2, 5, 10, 20 ...; only powers of ten over many decades, even steps within a narrow range. */
export function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const [, steps] = STEPS.find(([least]) => decades > least || least === 0);
  const ticks = [];
  for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.ceil(Math.log10(high)); exponent += 1) {
    for (const step of steps) {
      const tick = Number((step * 10 ** exponent).toPrecision(3));
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks.length >= FEWEST_TICKS ? ticks : evenTicks(low, high);
}

function evenTicks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(6)));
}

/** A logarithmic axis that fits the values (all above 0) with a margin. */
export function logAxis(colours, name, values, format) {
  let low = Infinity;
  let high = 0;
  for (const value of values) {
    if (!(value > 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [1, 10];
  const margin = Math.max(1.08, (high / low) ** 0.06);
  const ticks = logTicks(low / margin, high * margin);
  return {
    ...axis(colours, name, format),
    type: 'log',
    min: low / margin,
    max: high * margin,
    axisLabel: { color: colours.muted, fontSize: colours.size, customValues: ticks, formatter: (value) => tick(format(value)) },
    axisTick: { customValues: ticks, lineStyle: { color: colours.line } },
    splitLine: { show: false },
  };
}

export function linearAxis(colours, name, format, more = {}) {
  return { ...axis(colours, name, format), type: 'value', scale: true, ...more };
}

/** A linear axis of bytes: its ticks are powers of two. */
export function byteAxis(colours, name, format, values) {
  const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, 0]);
  const interval = 2 ** Math.max(0, Math.ceil(Math.log2((high - Math.min(low, high)) / 8 || 1)));
  return linearAxis(colours, name, format, { min: Math.floor(Math.min(low, high) / interval) * interval, max: (Math.floor(high / interval) + 1) * interval, interval });
}

export function categoryAxis(colours, name, data) {
  return {
    ...axis(colours, name, String),
    type: 'category',
    data,
    axisLabel: { color: colours.muted, fontSize: colours.size, interval: data.length > 10 ? 'auto' : 0, rotate: data.some((text) => text.length > 5) && data.length > 4 ? 35 : 0, overflow: 'truncate', width: 90 },
  };
}

function axis(colours, name, format) {
  return {
    name,
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: colours.muted, fontSize: colours.size },
    axisLine: { show: true, lineStyle: { color: colours.line } },
    axisTick: { lineStyle: { color: colours.line } },
    axisLabel: { color: colours.muted, fontSize: colours.size, hideOverlap: true, formatter: (value) => tick(format(value)) },
    splitLine: { lineStyle: { color: colours.line, opacity: 0.5 } },
  };
}

/** Puts the name of a vertical axis beside its labels. */
export const vertical = (axisOption, gap = 58) => ({ ...axisOption, nameGap: gap, nameRotate: 90 });
