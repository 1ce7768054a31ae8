// What a configuration takes from the device against the time it needs.
import { choice } from '../dom.js';
import { thin } from '../data.js';
import * as format from '../format.js';
import { byteAxis, linearAxis, logAxis, vertical } from './axes.js';
import { configurationText, pointTooltip } from './convergence.js';
import { chartFigure } from './figure.js';
import { precisionStyle } from './theme.js';

const MOST_POINTS = 5000;
const RESOURCES = [
  ['registers', 'registers per thread', format.count],
  ['occupancy', 'occupancy', format.percent],
  ['waves', 'waves of blocks', (value) => format.digits(value)],
  ['spill_bytes', 'spilled bytes per thread', format.bytes],
  ['stack_bytes', 'stack frame', format.bytes],
  ['static_shared_bytes', 'static shared memory per block', format.bytes],
  ['dynamic_shared_bytes', 'dynamic shared memory per block', format.bytes],
  ['binary_bytes', 'machine code', format.bytes],
  ['compile_seconds', 'compile time', format.seconds],
  ['clock_khz', 'clock while timing', format.clock],
  ['temperature_c', 'temperature while timing', (value) => `${format.digits(value)} °C`],
];

const known = (group) => RESOURCES.filter(([column]) => group.ranked().some((trial) => group.value(column, trial) !== null));

/** Null where the backend reports no resource. */
export function resourcesFigure(group) {
  const available = known(group);
  if (available.length === 0) return null;
  const chosen = choice('resource', 'Resource', available.map(([column, label]) => [column, label]), available[0][0], () => figure.redraw());
  const figure = chartFigure({
    title: 'Resources against time',
    about: 'What the compiled kernel takes from the device, trial by trial. A stack frame or spills above zero mean that registers went to memory.',
    height: 20,
    controls: [chosen.element],
    option: (colours) => {
      const [column, label, show] = available.find(([name]) => name === chosen.value);
      const trials = thin(group.ranked().filter((trial) => group.value(column, trial) !== null), MOST_POINTS).items;
      const precisions = [...new Set(trials.map((trial) => group.precision(trial)))];
      return {
        legend: {},
        tooltip: { trigger: 'item', formatter: (item) => pointTooltip(group, item) },
        xAxis: show === format.bytes ? byteAxis(colours, label, show, trials.map((trial) => group.value(column, trial))) : linearAxis(colours, label, show),
        yAxis: vertical(logAxis(colours, 'time', trials.map((trial) => group.time(trial)), format.time)),
        series: precisions.map((precision) => {
          const style = precisionStyle(colours, precision);
          return { name: precision || 'trials', type: 'scatter', symbol: style.symbol, symbolSize: 6, itemStyle: { color: style.color, opacity: 0.6 },
                   data: trials.filter((trial) => group.precision(trial) === precision).map((trial) => ({ value: [group.value(column, trial), group.time(trial)], trial })) };
        }),
      };
    },
    table: () => ({
      columns: [
        { key: 'time', label: 'Time', number: true, value: (trial) => group.time(trial), show: (trial) => format.time(group.time(trial)) },
        ...available.map(([column, label, show]) => ({ key: column, label, number: true, value: (trial) => group.value(column, trial), show: (trial) => {
          const value = group.value(column, trial);
          return value === null ? format.MISSING : show(value);
        } })),
        { key: 'knobs', label: 'Configuration', value: (trial) => configurationText(group, trial) },
      ],
      rows: group.ranked(),
    }),
  });
  return figure;
}
