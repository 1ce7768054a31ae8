// Where the figures come from: sessions, devices, environments and kernel families.
import { sessionCommand } from '../commands.js';
import { deviceLabel, resourceName } from '../data.js';
import { commandLine, copyButton, h, shellWord } from '../dom.js';
import * as format from '../format.js';
import { dataTable } from '../table.js';

export function sessions(report) {
  const used = (key) => new Set(report.groups.flatMap((group) => group.columns[key] ?? []));
  return [sessionTable(report), deviceTable(report), environmentTable(report, used('environment')), familyTable(report, used('family')), sourceList(report)];
}

function tableSection(title, options) {
  return h('section', {}, h('h2', {}, title), dataTable({ caption: title, ...options }).element);
}

// Trials and the best time of every session.
function courses(report) {
  const result = report.sessions.map((record) => ({ record, trials: 0, failed: 0, best: null, seconds: null }));
  for (const group of report.groups) {
    for (let trial = 0; trial < group.count; trial += 1) {
      const course = result[group.columns.session[trial]];
      course.trials += 1;
      if (!group.isOk(trial)) course.failed += 1;
      else if (course.best === null || group.time(trial) < course.best) course.best = group.time(trial);
      course.seconds = Math.max(course.seconds ?? 0, group.value('wall_seconds', trial) ?? 0);
    }
  }
  return result;
}

function budget(session) {
  const parts = [session.max_trials && format.plural(session.max_trials, 'trial'), session.max_seconds && format.seconds(session.max_seconds)].filter(Boolean);
  return parts.length > 0 ? parts.join(', ') : 'none';
}

function sessionTable(report) {
  return tableSection('Sessions', {
    rows: courses(report), search: true, sort: 'started', descending: true, empty: 'No session on record.',
    columns: [
      { key: 'started', label: 'Started', value: ({ record }) => record.started, show: ({ record }) => format.moment(record.started) },
      { key: 'problem', label: 'Problem', broad: true, value: ({ record }) => report.problems[record.problem].line, show: ({ record }) => {
        const group = report.group(record.problem, record.device);
        const line = report.problems[record.problem].line;
        return group ? h('a', { href: `#/result/${group.key}` }, line) : line;
      } },
      { key: 'device', label: 'Device', value: ({ record }) => deviceLabel(report.devices[record.device]) },
      { key: 'strategy', label: 'Strategy', value: ({ record }) => record.strategy },
      { key: 'seed', label: 'Seed', number: true, value: ({ record }) => record.seed },
      { key: 'budget', label: 'Budget', value: ({ record }) => budget(record) },
      { key: 'accuracy', label: 'Accuracy', value: ({ record }) => record.accuracy },
      { key: 'state', label: 'State', value: ({ record }) => record.state, show: ({ record }) => h('span', { class: record.state === 'finished' ? 'good' : record.state === 'failed' ? 'bad' : null }, record.state) },
      { key: 'trials', label: 'Trials', number: true, value: (s) => s.trials, show: (s) => format.count(s.trials) },
      { key: 'failed', label: 'Failed', number: true, value: (s) => s.failed, show: (s) => format.count(s.failed) },
      { key: 'best', label: 'Fastest', number: true, value: (s) => s.best, show: (s) => format.time(s.best) },
      { key: 'seconds', label: 'Lasted', number: true, value: (s) => s.seconds, show: (s) => format.seconds(s.seconds) },
      { key: 'host', label: 'Host', value: ({ record }) => record.host },
      { key: 'command', label: 'Command', value: ({ record }) => record.command_line, show: ({ record }) => (sessionCommand(record) ? copyButton('Copy command', sessionCommand(record)) : h('code', {}, format.shorten(record.command_line, 120) || format.MISSING)) },
    ],
  });
}

function deviceTable(report) {
  const known = (value, show) => (value > 0 ? show(value) : format.MISSING);
  return tableSection('Devices', {
    rows: report.devices, empty: 'No device on record.',
    columns: [
      { key: 'name', label: 'Device', value: (d) => d.name },
      { key: 'backend', label: 'Backend', value: (d) => d.backend },
      { key: 'architecture', label: 'Architecture', value: (d) => d.architecture },
      { key: 'multiprocessors', label: 'Multiprocessors', number: true, value: (d) => d.multiprocessors },
      { key: 'memory', label: 'Memory', number: true, value: (d) => d.memory_bytes, show: (d) => known(d.memory_bytes, format.bytes) },
      { key: 'cache', label: 'Last cache', number: true, value: (d) => d.l2_bytes, show: (d) => known(d.l2_bytes, format.bytes) },
      { key: 'clock', label: 'Rated clock', number: true, value: (d) => d.clock_khz, show: (d) => format.clock(d.clock_khz) },
      { key: 'ceilings', label: 'Ceilings', value: (d) => d.ceilings.map(ceiling).join('; '), show: (d) => (d.ceilings.length > 0 ? h('ul', { class: 'plain' }, d.ceilings.map((c) => h('li', {}, ceiling(c)))) : 'not on record') },
    ],
  });
}

const ceiling = (c) => `${resourceName(c.resource)} ${c.resource === 'memory' ? format.bandwidth(c.per_second) : format.rate(c.per_second)} (${c.measured ? 'measured' : 'rated'})`;

function environmentTable(report, used) {
  const text = (key, label) => ({ key, label, value: (e) => e[key] || null });
  return tableSection('Environments', {
    rows: report.environments.filter((_, index) => used.has(index)), empty: 'No environment on record.',
    columns: [text('knobwise_version', 'knobwise'), text('driver_version', 'Driver'), text('toolkit_version', 'Toolkit'), text('compiler', 'Compiler'), text('os', 'System')],
  });
}

function familyTable(report, used) {
  const counts = new Map();
  for (const group of report.groups) for (const family of group.columns.family) counts.set(family, (counts.get(family) ?? 0) + 1);
  return tableSection('Kernel families', {
    rows: report.families.map((family, index) => ({ ...family, index })).filter(({ index }) => used.has(index)), empty: 'No kernel family on record.',
    columns: [
      { key: 'name', label: 'Family', value: (f) => f.name },
      { key: 'backend', label: 'Backend', value: (f) => f.backend },
      { key: 'hash', label: 'Source', value: (f) => f.source_hash, show: (f) => h('code', {}, format.shorten(f.source_hash, 16)) },
      { key: 'trials', label: 'Trials', number: true, value: (f) => counts.get(f.index), show: (f) => format.count(counts.get(f.index)) },
    ],
  });
}

function sourceList(report) {
  const filters = Object.entries(report.filters).filter(([, value]) => value);
  return h('section', {}, h('h2', {}, 'This report'),
    h('p', {}, `Written ${format.moment(report.generated)} from ${report.sources.join(', ')}.`),
    filters.length > 0 && h('p', {}, `Restricted to ${filters.map(([name, value]) => `${name} ${value}`).join(', ')}.`),
    h('p', {}, 'Written again by:'),
    commandLine(`knobwise report ${report.sources.map((source) => `--db ${shellWord(source)}`).join(' ')} -o report.html`));
}
