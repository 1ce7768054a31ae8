// How the search came to its best configuration.
import { thin } from '../data.js';
import { choice } from '../dom.js';
import * as format from '../format.js';
import { linearAxis, logAxis, vertical } from './axes.js';
import { chartFigure, tooltip } from './figure.js';
import { seriesStyle } from './theme.js';

const MOST_POINTS = 4000;
const MANY_POINTS = 1000;

/** The sessions of a group with their trials in order. */
function courses(group, requirement) {
  const bySession = new Map();
  for (let i = 0; i < group.count; i += 1) {
    const session = group.columns.session[i];
    if (!bySession.has(session)) bySession.set(session, []);
    bySession.get(session).push(i);
  }
  return [...bySession].map(([session, trials]) => {
    trials.sort((a, b) => group.value('order', a) - group.value('order', b));
    const improvements = [];
    let best = Infinity;
    for (const trial of trials) {
      if (group.meets(trial, requirement) && group.time(trial) < best) {
        best = group.time(trial);
        improvements.push(trial);
      }
    }
    return { record: group.report.sessions[session], trials, improvements, last: trials[trials.length - 1] };
  });
}

export const sessionName = (session) => `${session.strategy}, seed ${session.seed}, ${session.started.slice(0, 16).replace('T', ' ')}`;

export function convergenceFigure(group, requirement) {
  const all = courses(group, requirement);
  const against = choice('convergence against', 'Against', [['order', 'trials'], ['wall', 'wall time']], 'order', () => figure.redraw());
  const x = (trial) => (against.value === 'order' ? group.value('order', trial) + 1 : group.value('wall_seconds', trial));
  const left = all.reduce((sum, course) => sum + thin(course.trials.filter((t) => group.isOk(t)), MOST_POINTS).left, 0);

  const option = (colours) => {
    const times = group.ranked().map((trial) => group.time(trial));
    const yAxis = vertical(logAxis(colours, 'time', [...times, ...['vendor', 'default'].map((kind) => group.baseline(kind, requirement)?.baseline.time)], format.time));
    const series = all.flatMap((course, index) => {
      const style = seriesStyle(colours, index);
      const name = sessionName(course.record);
      const points = thin(course.trials.filter((t) => group.isOk(t)), MOST_POINTS).items;
      const steps = course.improvements.map((t) => ({ value: [x(t), group.time(t)], trial: t }));
      if (steps.length > 0) steps.push({ value: [x(course.last), steps[steps.length - 1].value[1]], trial: steps[steps.length - 1].trial, symbolSize: 0 });
      const missed = { color: 'transparent', borderColor: style.color, borderWidth: 1, opacity: 0.6 };
      return [
        { name, type: 'line', z: 5, step: 'end', symbol: style.symbol, symbolSize: 8, lineStyle: { width: 2, color: style.color },
          itemStyle: { color: style.color }, data: steps,
          markLine: index === 0 ? baselineLines(colours, group, requirement) : undefined },
        { name, type: 'scatter', symbolSize: points.length > MANY_POINTS ? 3 : 5, itemStyle: { color: style.color, opacity: 0.45 }, symbol: style.symbol,
          data: points.map((t) => ({ value: [x(t), group.time(t)], trial: t, itemStyle: group.meets(t, requirement) ? undefined : missed })) },
      ];
    });
    return {
      legend: { data: all.map((course) => sessionName(course.record)) },
      tooltip: { trigger: 'item', formatter: (item) => pointTooltip(group, item) },
      xAxis: linearAxis(colours, against.value === 'order' ? 'trial of the session' : 'time since the start of the session',
                        against.value === 'order' ? format.count : format.seconds, { min: 0 }),
      yAxis,
      series,
    };
  };

  const figure = chartFigure({
    title: 'Convergence',
    about: aboutConvergence(group, all),
    height: 22,
    controls: [against.element],
    option,
    note: left > 0 ? `${format.count(left)} of the points are left out of the drawing; the lines use all trials.` : null,
    table: () => ({
      columns: [
        { key: 'session', label: 'Session', value: (row) => sessionName(row.course.record) },
        { key: 'trial', label: 'Trial', number: true, value: (row) => group.value('order', row.trial) + 1 },
        { key: 'wall', label: 'Wall time', number: true, value: (row) => group.value('wall_seconds', row.trial),
          show: (row) => format.seconds(group.value('wall_seconds', row.trial)) },
        { key: 'time', label: 'Best so far', number: true, value: (row) => group.time(row.trial), show: (row) => format.time(group.time(row.trial)) },
      ],
      rows: all.flatMap((course) => course.improvements.map((trial) => ({ course, trial }))),
      empty: 'No trial meets the accuracy.',
    }),
  });
  return figure;
}

function aboutConvergence(group, all) {
  const parts = all.map(({ record, trials, improvements }) => {
    if (improvements.length === 0) return null;
    const at = group.value('order', improvements[improvements.length - 1]) + 1;
    return `${record.strategy}: best after ${format.plural(at, 'trial')} of ${format.count(trials.length)}`;
  }).filter(Boolean);
  const found = parts.length > 0 ? ` ${parts.slice(0, 3).join('; ')}${parts.length > 3 ? '; …' : ''}.` : '';
  return `Every trial (points, hollow where the accuracy is missed) and the best time so far within the accuracy (lines).${found} A line that is still falling at its end asks for a larger budget.`;
}

// Dashed lines at the times of the library and of the default that the best is compared with.
function baselineLines(colours, group, requirement) {
  const named = [['vendor', 'insideEndTop'], ['default', 'insideEndBottom']];
  const lines = named.map(([kind, position]) => ({ baseline: group.baseline(kind, requirement)?.baseline, position })).filter(({ baseline }) => baseline);
  return {
    silent: true,
    symbol: 'none',
    lineStyle: { color: colours.muted, type: 'dashed' },
    label: { color: colours.muted, fontSize: colours.size, formatter: (line) => line.name },
    data: lines.map(({ baseline, position }) => ({ name: baseline.name, yAxis: baseline.time, label: { position } })),
  };
}

/** What a point that stands for a trial says. */
export function pointTooltip(group, item) {
  const trial = item.data?.trial;
  if (trial === undefined) return '';
  return tooltip(`${group.family(trial).name}, trial ${group.value('order', trial) + 1}`, [
    ['time', format.time(group.time(trial))],
    ['rate', format.rate(group.throughput(group.time(trial)))],
    ['max error', format.error(group.value('max_abs', trial))],
    ['precision', group.precision(trial)],
    ['knobs', format.shorten(configurationText(group, trial), 240)],
  ]);
}

/** "tile_w=8 unroll=2" */
export const configurationText = (group, trial) =>
  Object.entries(group.configuration(trial)).map(([name, value]) => `${name}=${value}`).join(' ');
