// Builds elements. Text always becomes text nodes, so names from a database can never become markup.
import { keep, recall } from './memory.js';

const SVG = 'http://www.w3.org/2000/svg';

/** h('td', {class: 'number', onclick: f}, 'text', child, [children]): null and false children are left out. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG elements. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'selected') element[name] = value;
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let nextId = 0;
export function uniqueId(prefix) {
  nextId += 1;
  return `${prefix}-${nextId}`;
}

/** A labelled <select>. Options are [value, label] pairs. */
export function selectField(label, options, selected, onChange) {
  const select = h(
    'select',
    { onchange: (event) => onChange(event.target.value) },
    options.map(([value, text]) => h('option', { value, selected: String(value) === String(selected) }, text)),
  );
  return h('label', { class: 'field' }, h('span', {}, label), select);
}

/** A selectField() that the view remembers under a name: {value, element}; `value` is always the present choice. */
export function choice(name, label, options, initial, onChange) {
  const remembered = recall(name, initial);
  const chosen = { value: options.some(([value]) => String(value) === String(remembered)) ? remembered : initial };
  chosen.element = selectField(label, options, chosen.value, (value) => {
    chosen.value = value;
    keep(name, value);
    onChange(value);
  });
  return chosen;
}

/** A <details> that the view remembers as open; `fill(element)` is called when it is opened first. */
export function disclosure(name, properties, label, fill) {
  const element = h('details', { ...properties, open: recall(name, false) }, h('summary', {}, label));
  let filled = false;
  const unfold = () => {
    keep(name, element.open);
    if (!element.open || filled) return;
    filled = true;
    fill(element);
  };
  element.addEventListener('toggle', unfold);
  unfold();
  return element;
}

/** Says something to screen readers and, briefly, to everyone. */
export function announce(message) {
  const status = document.getElementById('status');
  if (!status) return;
  status.textContent = message;
  status.classList.add('shown');
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => status.classList.remove('shown'), 2500);
}

/** Copies text; a page opened from disk may lack the clipboard interface, so the old way is the second try. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h('textarea', { class: 'offscreen', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  announce('Copied');
}

export function copyButton(label, text) {
  const give = typeof text === 'function' ? text : () => text;
  return h('button', { type: 'button', class: 'small', onclick: () => copyText(give()) }, label);
}

/** A word of a POSIX shell: quoted where it has to be. */
export const shellWord = (text) => (/^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A command line with its copy button. */
export function commandLine(command) {
  return h('div', { class: 'command' }, h('code', { tabindex: 0 }, command), copyButton('Copy', command));
}
