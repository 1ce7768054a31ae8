// Every trial: parallel coordinates whose brushes filter the table below.
import { measureCommand } from '../commands.js';
import { choice, commandLine, copyButton, disclosure, h, selectField } from '../dom.js';
import { staleReason, thin } from '../data.js';
import * as format from '../format.js';
import { keep, recall } from '../memory.js';
import { dataTable } from '../table.js';
import { logTicks } from './axes.js';
import { configurationText } from './convergence.js';
import { chartFigure } from './figure.js';
import { tunedKnobs } from './knobs.js';

const FASTEST_LINES = 300;
const OTHER_LINES = 900;
const MOST_AXES = 14;

/** The chart, the filters and the table. `openTrial(trial)` shows one trial. */
export function trialExplorer(group, requirement, openTrial) {
  const knobs = tunedKnobs(group).slice(0, MOST_AXES);
  const ranked = group.ranked();
  const everything = Array.from({ length: group.count }, (_, i) => i);
  const families = [...new Set(everything.map((trial) => group.columns.family[trial]))];
  const statuses = [...new Set(everything.map((trial) => group.status(trial)))];
  const axes = makeAxes(group, knobs, families);
  const brushes = new Brushes(axes);

  const changed = () => {
    table.setRows(everything.filter(accepted));
    say();
  };
  const filter = (label, options) => choice(`trials ${label}`, label, [['all', 'all'], ...options], 'all', changed);
  const status = filter('Status', statuses.map((word) => [word, format.words(word)]));
  const accurate = filter('Accuracy', [['yes', 'met'], ['no', 'not met']]);
  const family = filter('Family', families.map((index) => [index, group.report.familyLabel(index)]));
  const accepted = (trial) =>
    (status.value === 'all' || group.status(trial) === status.value) &&
    (family.value === 'all' || String(group.columns.family[trial]) === String(family.value)) &&
    (accurate.value === 'all' || group.meets(trial, requirement) === (accurate.value === 'yes')) &&
    brushes.accept(trial);

  const summaryLine = h('p', { class: 'note', 'aria-live': 'polite' });
  const say = () => {
    const passed = everything.filter(accepted).length;
    summaryLine.textContent = passed === group.count
      ? `All ${format.plural(group.count, 'trial')}.`
      : `${format.count(passed)} of ${format.plural(group.count, 'trial')} pass the filters.`;
  };
  const table = dataTable({
    caption: 'Trials', columns: trialColumns(group, requirement, group.knobs, openTrial), rows: everything.filter(accepted), sort: 'time', search: true,
    onRow: openTrial, empty: 'No trial passes the filters.',
  });
  say();

  const figure = ranked.length > 1 && axes.length > 2 ? parallelFigure(group, axes, ranked, brushes, () => {
    knobFilters.showBrushes();
    changed();
  }) : null;
  const knobFilters = makeKnobFilters(axes, brushes, () => {
    figure?.redraw();
    changed();
  });
  const clear = () => {
    brushes.clear();
    knobFilters.showBrushes();
    figure?.redraw();
    changed();
  };
  const filters = h('div', { class: 'controls' }, status.element, accurate.element, families.length > 1 && family.element, knobFilters.element,
    h('button', { type: 'button', class: 'small', onclick: clear }, 'Clear brushes'));
  return h('div', { class: 'explorer' }, figure, filters, summaryLine, table.element);
}

/** What is kept of each axis: intervals of places. The view remembers them for as long as an axis has the same values. */
class Brushes {
  constructor(axes) {
    this.axes = axes;
    const remembered = recall('brushes', new Map());
    this.intervals = new Map(axes.flatMap((axis, index) => (remembered.has(axis.key) ? [[index, remembered.get(axis.key)]] : [])));
  }

  set(index, intervals) {
    if (intervals.length > 0) this.intervals.set(index, intervals);
    else this.intervals.delete(index);
    keep('brushes', new Map([...this.intervals].map(([at, kept]) => [this.axes[at].key, kept])));
  }

  get(index) {
    return this.intervals.get(index) ?? [];
  }

  clear() {
    this.axes.forEach((_, index) => this.set(index, []));
  }

  accept(trial) {
    return [...this.intervals].every(([index, intervals]) => {
      const place = this.axes[index].place(trial);
      return place !== null && intervals.some(([low, high]) => place >= low && place <= high);
    });
  }
}

// The same as brushing, for the keyboard: a value of each knob.
function makeKnobFilters(axes, brushes, onChange) {
  const fields = new Map();
  axes.forEach((axis, index) => {
    if (!axis.values) return;
    const options = [['all', 'all'], ...axis.values.map((text, place) => [place, text]), ['brush', 'as brushed']];
    fields.set(index, selectField(axis.name, options, 'all', (value) => {
      if (value === 'all') brushes.set(index, []);
      else if (value !== 'brush') brushes.set(index, [[Number(value) - 0.4, Number(value) + 0.4]]);
      onChange();
    }));
  });
  // Which of the options the brush on an axis comes to.
  const option = (index) => {
    const intervals = brushes.get(index);
    if (intervals.length === 0) return 'all';
    const kept = axes[index].values.map((_, place) => place).filter((place) => intervals.some(([low, high]) => place >= low && place <= high));
    return kept.length === 1 ? String(kept[0]) : 'brush';
  };
  const showBrushes = () => fields.forEach((field, index) => { field.querySelector('select').value = option(index); });
  showBrushes();
  const element = disclosure('knob filters', { class: 'knob-filters' }, 'Filter by knob', (details) => {
    details.append(h('div', { class: 'controls' }, [...fields.values()]));
  });
  return { element, showBrushes };
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
  return list.map((axis) => ({ ...axis, key: JSON.stringify([axis.name, axis.values]) }));
}

function parallelFigure(group, axes, ranked, brushes, onBrush) {
  const others = thin(ranked.slice(FASTEST_LINES), OTHER_LINES);
  const lines = [...ranked.slice(0, FASTEST_LINES), ...others.items];
  let drawing = false;
  return chartFigure({
    title: 'All trials in parallel coordinates',
    about: 'One line a trial, coloured by its time. Drag along an axis to keep what crosses it there; the table follows. A click on an axis takes its brush away.',
    height: 24,
    wide: true,
    minWidth: 15 + 5 * axes.length,
    note: others.left > 0 ? `The ${FASTEST_LINES} fastest trials and every ${Math.ceil((ranked.length - FASTEST_LINES) / OTHER_LINES)}th of the others are drawn; the brushes filter all.` : null,
    onReady: (chart) => {
      chart.on('axisareaselected', () => {
        if (drawing) return;
        chart.getModel().findComponents({ mainType: 'parallelAxis' }).forEach((component, index) => {
          brushes.set(index, (component.activeIntervals ?? []).map((interval) => [...interval].sort((a, b) => a - b)));
        });
        onBrush();
      });
    },
    onDrawn: (chart) => {
      drawing = true;
      axes.forEach((_, index) => chart.dispatchAction({ type: 'axisAreaSelect', parallelAxisId: `axis-${index}`, intervals: brushes.get(index) }));
      drawing = false;
    },
    option: (colours) => {
      const times = lines.map((trial) => Math.log10(group.time(trial)));
      const label = { color: colours.text, fontSize: colours.size, lineHeight: colours.size + 2, textBorderColor: colours.surface, textBorderWidth: 3 };
      return {
        parallel: { left: 56, right: 190, top: 56, bottom: 24, axisExpandable: false },
        parallelAxis: axes.map((axis, dim) => ({
          id: `axis-${dim}`, dim, name: axis.name, nameLocation: 'end', nameGap: 14, nameTruncate: { maxWidth: 170 },
          // Names of neighbours would run into each other: they alternate in height.
          nameTextStyle: { color: colours.text, fontSize: colours.size, padding: [0, 0, dim % 2 ? 16 : 0, 0] },
          ...(axis.values ? { type: 'value', min: -0.5, max: axis.values.length - 0.5, interval: 1, axisLabel: { customValues: axis.values.map((_, i) => i), formatter: (value) => (axis.values[Math.round(value)] ?? '').replace(' @', '\n@'), ...label },
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
           axisLabel: { customValues: ticks, formatter: (value) => format.tick(axis.show(value)), ...label } };
}

function trialColumns(group, requirement, knobs, openTrial) {
  const figures = (key, label, show, screen = false) => group.columns[key] && {
    key, label, number: true, screen, value: (trial) => group.value(key, trial),
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
    ...knobs.map((knob) => ({ key: `knob ${knob.name}`, label: knob.name, screen: true, number: typeof knob.values[0] === 'number',
                              value: (trial) => (knob.value_of[trial] >= 0 ? knob.values[knob.value_of[trial]] : null) })),
    group.columns.reason && { key: 'reason', label: 'Reason', broad: true, value: (trial) => group.reason(trial) || null,
                              show: (trial) => (group.reason(trial) ? h('span', { class: 'knob-text' }, format.shorten(group.reason(trial), 120)) : format.MISSING) },
    figures('registers', 'Registers', format.count, true),
    figures('occupancy', 'Occupancy', format.percent, true),
    { key: 'copy', label: 'Configuration', value: (trial) => JSON.stringify(group.configuration(trial)),
      show: (trial) => [h('span', { class: 'copies' }, copyButton('Copy JSON', () => JSON.stringify(group.configuration(trial))), copyButton('Copy command', () => measureCommand(group, trial))), h('span', { class: 'print' }, configurationText(group, trial))] },
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
    copyButton('Copy as JSON', configuration),
    h('h3', {}, 'Measure it again'), commandLine(measureCommand(group, trial)));
  document.body.append(dialog);
  dialog.showModal();
}

