// Every trial: parallel coordinates whose brushes filter the table below.
import { copyButton, h, selectField } from '../dom.js';
import { staleReason, thin } from '../data.js';
import * as format from '../format.js';
import { dataTable } from '../table.js';
import { logTicks } from './axes.js';
import { configurationText } from './convergence.js';
import { chartFigure } from './figure.js';
import { tunedKnobs } from './knobs.js';

const FASTEST_LINES = 300;
const OTHER_LINES = 900;
const MOST_AXES = 14;

/** {element}: the chart, the filters and the table. `openTrial(trial)` shows one trial. */
export function trialExplorer(group, requirement, openTrial) {
  const knobs = tunedKnobs(group).slice(0, MOST_AXES);
  const ranked = group.ranked();
  const state = { brushes: new Map(), status: 'all', accurate: 'all', family: 'all' };
  const everything = Array.from({ length: group.count }, (_, i) => i);

  const families = [...new Set(everything.map((trial) => group.columns.family[trial]))];
  const statuses = [...new Set(everything.map((trial) => group.status(trial)))];
  const axes = makeAxes(group, knobs, families);

  const accepted = (trial) =>
    (state.status === 'all' || group.status(trial) === state.status) &&
    (state.family === 'all' || String(group.columns.family[trial]) === state.family) &&
    (state.accurate === 'all' || group.meets(trial, requirement) === (state.accurate === 'yes')) &&
    [...state.brushes].every(([index, intervals]) => {
      const value = axes[index].place(trial);
      return value !== null && intervals.some(([low, high]) => value >= low && value <= high);
    });
  const summaryLine = h('p', { class: 'note', 'aria-live': 'polite' });
  const update = () => {
    const rows = everything.filter(accepted);
    table.setRows(rows);
    summaryLine.textContent = rows.length === group.count
      ? `All ${format.plural(group.count, 'trial')}.`
      : `${format.count(rows.length)} of ${format.plural(group.count, 'trial')} pass the filters.`;
  };

  const table = dataTable({
    caption: 'Trials', columns: trialColumns(group, requirement, group.knobs, openTrial), rows: everything, sort: 'time', search: true,
    onRow: openTrial, empty: 'No trial passes the filters.',
  });
  const clear = () => {
    state.brushes.clear();
    figure?.redraw();
    update();
  };
  const figure = ranked.length > 1 && axes.length > 2 ? parallelFigure(group, axes, ranked, state, update) : null;
  const filters = h('div', { class: 'controls' },
    selectField('Status', [['all', 'all'], ...statuses.map((status) => [status, format.words(status)])], 'all', (value) => { state.status = value; update(); }),
    selectField('Accuracy', [['all', 'all'], ['yes', 'met'], ['no', 'not met']], 'all', (value) => { state.accurate = value; update(); }),
    families.length > 1 && selectField('Family', [['all', 'all'], ...families.map((family) => [family, group.report.familyLabel(family)])], 'all', (value) => { state.family = value; update(); }),
    h('details', { class: 'knob-filters' }, h('summary', {}, 'Filter by knob'), h('div', { class: 'controls' }, axes.map((axis, index) => axis.values &&
      selectField(axis.name, [['all', 'all'], ...axis.values.map((text, i) => [i, text])], 'all', (value) => {
        if (value === 'all') state.brushes.delete(index);
        else state.brushes.set(index, [[Number(value) - 0.5, Number(value) + 0.5]]);
        figure?.redraw();
        update();
      })))),
    h('button', { type: 'button', class: 'small', onclick: clear }, 'Clear brushes'));
  update();
  return h('div', { class: 'explorer' }, figure, filters, summaryLine, table.element);
}

// Knobs, then the error and the time. place(trial) is the position on the axis, null where there is none.
function makeAxes(group, knobs, families) {
  const list = knobs.map((knob) => ({
    name: knob.name,
    values: knob.values.map(String),
    place: (trial) => (knob.value_of[trial] >= 0 ? knob.value_of[trial] : null),
  }));
  if (families.length > 1) {
    list.unshift({ name: 'family', values: families.map((family) => group.report.familyLabel(family)), place: (trial) => families.indexOf(group.columns.family[trial]) });
  }
  const logOf = (column) => (trial) => {
    const value = group.value(column, trial);
    return value > 0 ? Math.log10(value) : null;
  };
  list.push({ name: 'max error', place: logOf('max_abs'), show: (value) => format.error(10 ** value) });
  list.push({ name: 'time', place: logOf('time'), show: (value) => format.time(10 ** value) });
  return list;
}

function parallelFigure(group, axes, ranked, state, update) {
  const others = thin(ranked.slice(FASTEST_LINES), OTHER_LINES);
  const lines = [...ranked.slice(0, FASTEST_LINES), ...others.items];
  return chartFigure({
    title: 'All trials in parallel coordinates',
    about: 'One line a trial, coloured by its time. Drag along an axis to keep what crosses it there; the table follows. A click on an axis takes its brush away.',
    height: 24,
    wide: true,
    note: others.left > 0 ? `The ${FASTEST_LINES} fastest trials and every ${Math.ceil((ranked.length - FASTEST_LINES) / OTHER_LINES)}th of the others are drawn; the brushes filter all.` : null,
    onReady: (chart) => {
      chart.on('axisareaselected', () => {
        const components = chart.getModel().findComponents({ mainType: 'parallelAxis' });
        state.brushes.clear();
        components.forEach((component, index) => {
          const intervals = component.activeIntervals ?? [];
          if (intervals.length > 0) state.brushes.set(index, intervals.map((interval) => [...interval].sort((a, b) => a - b)));
        });
        update();
      });
    },
    option: (colours) => {
      const times = lines.map((trial) => Math.log10(group.time(trial)));
      const label = { color: colours.text, fontSize: colours.size, textBorderColor: colours.surface, textBorderWidth: 3 };
      return {
        parallel: { left: 56, right: 190, top: 56, bottom: 24, axisExpandable: false },
        parallelAxis: axes.map((axis, dim) => ({
          dim, name: axis.name, nameLocation: 'end', nameGap: 14,
          // Names of neighbours would run into each other: they alternate in height.
          nameTextStyle: { color: colours.text, fontSize: colours.size, padding: [0, 0, dim % 2 ? 16 : 0, 0] },
          ...(axis.values ? { type: 'value', min: -0.5, max: axis.values.length - 0.5, interval: 1, axisLabel: { customValues: axis.values.map((_, i) => i), formatter: (value) => axis.values[Math.round(value)] ?? '', ...label },
                              axisTick: { customValues: axis.values.map((_, i) => i) } }
                          : logarithmic(axis, lines, label)),
          axisLine: { lineStyle: { color: colours.muted } },
          areaSelectStyle: { width: 18, borderColor: colours.accent, color: colours.accent, opacity: 0.3 },
        })),
        visualMap: { type: 'continuous', calculable: false, dimension: axes.length - 1, min: Math.min(...times), max: Math.max(...times) + 1e-9, inRange: { color: colours.ramp }, right: 0, top: 40, itemHeight: 110, itemWidth: 12, formatter: (value) => format.time(10 ** value), text: [format.time(10 ** Math.max(...times)), format.time(10 ** Math.min(...times))], textStyle: { color: colours.muted, fontSize: colours.size } },
        series: [{
          type: 'parallel', progressive: 200, smooth: false, inactiveOpacity: 0.02, activeOpacity: 0.8, lineStyle: { width: 1, opacity: 0.45 },
          // The fastest are drawn last, above the others.
          data: [...lines].reverse().map((trial) => axes.map((axis) => axis.place(trial) ?? '-')),
        }],
      };
    },
  });
}

// An axis of logarithms with ticks at round values.
function logarithmic(axis, lines, label) {
  const places = lines.map((trial) => axis.place(trial)).filter((place) => place !== null);
  const low = places.length > 0 ? Math.min(...places) : 0;
  const high = places.length > 0 ? Math.max(...places) : 1;
  const margin = Math.max(0.02, (high - low) * 0.05);
  const ticks = logTicks(10 ** (low - margin), 10 ** (high + margin)).map((tick) => Math.log10(tick));
  return { type: 'value', min: low - margin, max: high + margin, axisTick: { customValues: ticks },
           axisLabel: { customValues: ticks, formatter: (value) => axis.show(value), ...label } };
}

function trialColumns(group, requirement, knobs, openTrial) {
  const figures = (key, label, show) => group.columns[key] && {
    key, label, number: true, value: (trial) => group.value(key, trial),
    show: (trial) => (group.value(key, trial) === null ? format.MISSING : show(group.value(key, trial))),
  };
  return [
    { key: 'trial', label: 'Trial', number: true, value: (trial) => trial + 1,
      show: (trial) => h('button', { type: 'button', class: 'link', 'aria-label': `Show trial ${trial + 1}`, onclick: () => openTrial(trial) }, format.count(trial + 1)) },
    figures('time', 'Time', format.time),
    { key: 'rate', label: 'Rate', number: true, value: (trial) => group.throughput(group.time(trial)), show: (trial) => format.rate(group.throughput(group.time(trial))) },
    { key: 'status', label: 'Status', value: (trial) => format.words(group.status(trial)), show: (trial) => statusText(group, trial) },
    { key: 'accuracy', label: 'Accuracy', value: (trial) => (!group.isOk(trial) ? null : group.meets(trial, requirement) ? 'met' : 'not met') },
    figures('max_abs', 'Max error', format.error),
    !knobs.some((knob) => knob.name === 'precision') && { key: 'precision', label: 'Precision', value: (trial) => group.precision(trial) || null },
    { key: 'family', label: 'Family', value: (trial) => group.report.familyLabel(group.columns.family[trial]) },
    ...knobs.map((knob) => ({ key: `knob ${knob.name}`, label: knob.name, number: typeof knob.values[0] === 'number',
                              value: (trial) => (knob.value_of[trial] >= 0 ? knob.values[knob.value_of[trial]] : null) })),
    group.columns.reason && { key: 'reason', label: 'Reason', broad: true, value: (trial) => group.reason(trial) || null,
                              show: (trial) => (group.reason(trial) ? h('span', { class: 'knob-text' }, format.shorten(group.reason(trial), 120)) : format.MISSING) },
    figures('registers', 'Registers', format.count),
    figures('occupancy', 'Occupancy', format.percent),
    { key: 'copy', label: 'Configuration', value: (trial) => JSON.stringify(group.configuration(trial)),
      show: (trial) => copyButton('Copy JSON', () => JSON.stringify(group.configuration(trial))) },
  ].filter(Boolean);
}

function statusText(group, trial) {
  const stale = staleReason(group.stale[trial]);
  return [
    h('span', { class: group.isOk(trial) ? 'good' : 'bad', title: group.reason(trial) || null }, format.words(group.status(trial))),
    stale && h('span', { class: 'badge', title: stale }, 'stale'),
  ];
}

/** Everything known of one trial, in a dialog. */
export function trialDialog(group, trial, requirement) {
  const item = (name, value) => value !== null && value !== '' && value !== format.MISSING && h('div', {}, h('dt', {}, name), h('dd', {}, value));
  const figure = (name, column, show) => item(name, group.value(column, trial) === null ? null : show(group.value(column, trial)));
  const configuration = JSON.stringify(group.configuration(trial));
  const dialog = h('dialog', { 'aria-label': `Trial ${trial + 1}`, onclose: (event) => event.target.remove() },
    h('div', { class: 'dialog-bar' }, h('h2', {}, `Trial ${format.count(trial + 1)}: ${group.family(trial).name}`),
      h('button', { type: 'button', onclick: () => dialog.close() }, 'Close')),
    group.reason(trial) && h('pre', { class: 'message', tabindex: 0 }, group.reason(trial)),
    h('dl', { class: 'facts' },
      item('status', format.words(group.status(trial))),
      item('stale', staleReason(group.stale[trial])),
      figure('time', 'time', (v) => format.time(v, 4)),
      figure('least', 'time_min', (v) => format.time(v, 4)),
      figure('mean', 'time_mean', (v) => format.time(v, 4)),
      figure('samples', 'samples', format.count),
      item('rate', format.rate(group.throughput(group.time(trial)))),
      item('accuracy', group.isOk(trial) ? (group.meets(trial, requirement) ? 'met' : 'not met') : null),
      figure('max error', 'max_abs', format.error), figure('mean error', 'mean_abs', format.error), figure('rms error', 'rms', format.error),
      figure('relative error', 'rel_fro', format.error), figure('outside allclose', 'frac_outside', format.percent), figure('NaN elements', 'nans', format.count),
      figure('registers', 'registers', format.count), figure('spilled', 'spill_bytes', format.bytes), figure('stack frame', 'stack_bytes', format.bytes),
      figure('static shared memory', 'static_shared_bytes', format.bytes), figure('dynamic shared memory', 'dynamic_shared_bytes', format.bytes),
      figure('occupancy', 'occupancy', format.percent), figure('waves', 'waves', (v) => format.digits(v)), figure('machine code', 'binary_bytes', format.bytes),
      figure('compiled in', 'compile_seconds', format.seconds), figure('verified in', 'verify_seconds', format.seconds), figure('measured in', 'measure_seconds', format.seconds),
      figure('clock while timing', 'clock_khz', format.clock), figure('temperature', 'temperature_c', (v) => `${format.digits(v)} °C`),
      figure('started', 'started', format.moment), item('driver', group.environment(trial).driver_version), item('source', group.family(trial).source_hash)),
    h('h3', {}, 'Configuration'),
    h('dl', { class: 'facts' }, Object.entries(group.configuration(trial)).map(([name, value]) => item(name, String(value)))),
    copyButton('Copy as JSON', configuration));
  document.body.append(dialog);
  dialog.showModal();
}

