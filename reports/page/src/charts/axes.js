// Axes shared by the charts.

/** 1, 2, 5, 10, 20 ... inside [low, high]; only powers of ten over many decades. */
export function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades > 4 ? [1] : decades > 2 ? [1, 3] : decades > 0.8 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
  const ticks = [];
  for (let exponent = Math.floor(Math.log10(low)); exponent <= Math.ceil(Math.log10(high)); exponent += 1) {
    for (const step of steps) {
      const tick = Number((step * 10 ** exponent).toPrecision(3));
      if (tick >= low && tick <= high) ticks.push(tick);
    }
  }
  return ticks;
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
    axisLabel: { color: colours.muted, fontSize: colours.size, customValues: ticks, formatter: (value) => format(value) },
    axisTick: { customValues: ticks, lineStyle: { color: colours.line } },
    splitLine: { show: false },
  };
}

export function linearAxis(colours, name, format, more = {}) {
  return { ...axis(colours, name, format), type: 'value', scale: true, ...more };
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
    axisLabel: { color: colours.muted, fontSize: colours.size, hideOverlap: true, formatter: (value) => format(value) },
    splitLine: { lineStyle: { color: colours.line, opacity: 0.5 } },
  };
}

/** Puts the name of a vertical axis beside its labels. */
export const vertical = (axisOption, gap = 58) => ({ ...axisOption, nameGap: gap, nameRotate: 90 });
