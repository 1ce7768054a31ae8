// What went wrong, and how often.
import * as format from '../format.js';
import { h } from '../dom.js';
import { categoryAxis, linearAxis } from './axes.js';
import { dataTable } from '../table.js';
import { chartFigure, tooltip } from './figure.js';
import { configurationText } from './convergence.js';

/** [{status, trials, example}], most frequent first. */
export function failuresByReason(group) {
  const byStatus = new Map();
  for (let i = 0; i < group.count; i += 1) {
    if (group.isOk(i)) continue;
    const key = group.status(i);
    if (!byStatus.has(key)) byStatus.set(key, []);
    byStatus.get(key).push(i);
  }
  return [...byStatus]
    .map(([status, trials]) => ({ status, trials, example: trials.find((trial) => group.reason(trial)) ?? trials[0] }))
    .sort((a, b) => b.trials.length - a.trials.length);
}

/** What each kind of failure said, with a way to its trial. */
export function failureExamples(group, openTrial) {
  return dataTable({
    caption: 'An example of each failure', rows: failuresByReason(group),
    columns: [
      { key: 'status', label: 'Reason', value: (row) => format.words(row.status) },
      { key: 'count', label: 'Trials', number: true, value: (row) => row.trials.length, show: (row) => format.count(row.trials.length) },
      { key: 'example', label: 'Message', broad: true, value: (row) => group.reason(row.example), show: (row) => h('code', { class: 'message' }, group.reason(row.example) || format.MISSING) },
      { key: 'trial', label: 'Example', number: true, value: (row) => row.example + 1, show: (row) =>
        h('button', { type: 'button', class: 'link', 'aria-label': `Show trial ${row.example + 1}`, onclick: () => openTrial(row.example) }, `trial ${format.count(row.example + 1)}`) },
    ],
  }).element;
}

export function failuresFigure(group) {
  const rows = failuresByReason(group);
  const upward = [...rows].reverse();
  return chartFigure({
    title: 'Failures by reason',
    about: `${format.count(group.failed())} of ${format.plural(group.count, 'trial')} gave no time.`,
    height: 5 + rows.length * 2,
    option: (colours) => ({
      grid: { left: 130, right: 48, top: 8, bottom: 48 },
      tooltip: { trigger: 'item', formatter: ({ dataIndex }) => {
        const row = upward[dataIndex];
        return tooltip(format.words(row.status), [['trials', format.count(row.trials.length)], ['share', format.percent(row.trials.length / group.count)],
          ['for example', format.shorten(group.reason(row.example), 200)]]);
      } },
      xAxis: linearAxis(colours, 'trials', format.count, { min: 0, scale: false, minInterval: 1 }),
      yAxis: { ...categoryAxis(colours, '', upward.map((row) => format.words(row.status))), axisLabel: { color: colours.text, fontSize: colours.size, interval: 0 } },
      series: [{ type: 'bar', barMaxWidth: 20, data: upward.map((row) => row.trials.length), itemStyle: { color: colours.bad },
                 label: { show: true, position: 'right', color: colours.text, fontSize: colours.size } }],
    }),
    table: {
      columns: [
        { key: 'status', label: 'Reason', value: (row) => format.words(row.status) },
        { key: 'count', label: 'Trials', number: true, value: (row) => row.trials.length },
        { key: 'share', label: 'Share', number: true, value: (row) => row.trials.length / group.count, show: (row) => format.percent(row.trials.length / group.count) },
        { key: 'example', label: 'Example', broad: true, value: (row) => group.reason(row.example), show: (row) => h('code', { class: 'message' }, group.reason(row.example) || '–') },
        { key: 'knobs', label: 'Its configuration', value: (row) => configurationText(group, row.example) },
      ],
      rows,
    },
  });
}
