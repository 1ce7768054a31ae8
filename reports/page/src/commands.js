// Command lines that do again what the report shows.
import { shellWord } from './dom.js';

// The words that name the problem; the file of a user's own kernel is not on record.
function subject(group) {
  const user = /^user:\S+ size=(\S+)$/.exec(group.problem.line);
  return user ? `--kernel KERNEL.T1.json --problem-size ${user[1]}` : shellWord(group.problem.line);
}

const device = (group) => (group.device.backend === 'cpu' ? ' --device cpu' : '');
const database = (group) => ` --db ${shellWord(group.report.sources[0] ?? 'tuned.db')}`;
const isUser = (group) => group.problem.line.startsWith('user:');

// A call of knobwise in which a shell finds nothing to act on. Databases may come from anyone.
const HARMLESS = /^knobwise( ([\w./:=@%+,-]|'[^'\p{Cc}]*')+)*$/u;

/** How a session was started; null for what nobody should paste into a shell unread. */
export const sessionCommand = (session) => (HARMLESS.test(session.command_line) ? session.command_line : null);

/** Searches on. */
export const tuneCommand = (group) => `knobwise tune ${subject(group)}${device(group)}${database(group)}`;

/** What an application gets; null where `run` does not apply. */
export function runCommand(group, requirement) {
  if (isUser(group)) return null;
  const accuracy = requirement === 'allclose' ? '' : ` --accuracy ${requirement}`;
  return `knobwise run ${subject(group)}${device(group)}${accuracy}${database(group)}`;
}

/** Compiles, verifies and times one configuration, in a database of its own, so that it is measured once more. */
export function measureCommand(group, trial) {
  const family = isUser(group) ? '' : ` --family ${shellWord(group.family(trial).name)}`;
  const configuration = shellWord(JSON.stringify(group.configuration(trial)));
  return `knobwise tune ${subject(group)}${device(group)}${family} --configuration ${configuration} --accuracy any --db again.db`;
}
