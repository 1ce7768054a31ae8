// Starts the page: gets the data, draws the frame, and follows the address's fragment from view to view.
import { disposeAll, drawVisible, redrawAll } from './charts/figure.js';
import { REQUIREMENTS, Report, unpack } from './data.js';
import { h, selectField } from './dom.js';
import * as format from './format.js';
import { follow } from './live.js';
import { enterView } from './memory.js';
import { compare } from './views/compare.js';
import { overview } from './views/overview.js';
import { result } from './views/result.js';
import { sessions } from './views/sessions.js';

const VIEWS = [['#/', 'Overview'], ['#/compare', 'Compare'], ['#/sessions', 'Sessions and environment']];
const THEMES = [['auto', 'as the system'], ['light', 'light'], ['dark', 'dark']];

const app = document.getElementById('app');
const state = { report: null, requirement: 'allclose' };
const parts = {
  main: h('main', { id: 'main', tabindex: -1 }),
  links: VIEWS.map(([href, label]) => h('a', { href }, label)),
  written: h('p'),
  trouble: h('p', { class: 'warning', role: 'alert', hidden: true }),
};

function applyTheme(choice) {
  if (choice === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  remember('knobwise-theme', choice);
  redrawAll();
}

// Storage may be forbidden for pages opened from disk: the choice then lasts as long as the page.
function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* nothing is lost but the memory of a choice */ }
}
function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function drawFrame() {
  const themeChoice = remembered('knobwise-theme') ?? 'auto';
  applyTheme(themeChoice);
  app.replaceChildren(
    h('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); parts.main.focus(); } }, 'Skip to the content'),
    h('header', {},
      h('div', { class: 'brand' }, h('h1', {}, state.report.title), parts.written),
      h('nav', { 'aria-label': 'Views' }, parts.links),
      h('div', { class: 'controls' },
        selectField('Accuracy', Object.entries(REQUIREMENTS).map(([key, { label }]) => [key, label]), state.requirement, (value) => {
          state.requirement = value;
          drawAgain();
        }),
        selectField('Theme', THEMES, themeChoice, applyTheme))),
    parts.trouble,
    parts.main,
    h('div', { id: 'status', role: 'status', 'aria-live': 'polite' }));
  addEventListener('hashchange', () => {
    draw();
    parts.main.focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
}

function draw() {
  disposeAll();
  const address = location.hash || '#/';
  enterView(address);
  parts.main.replaceChildren(...view(state.report, address));
  for (const link of parts.links) {
    if (link.getAttribute('href') === address) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

// The same view with other data: what the reader looks at and works with stays where it is.
function drawAgain() {
  const place = { x: scrollX, y: scrollY };
  const scrolled = [...parts.main.querySelectorAll('.scroll, figure.wide')].map((element) => element.scrollLeft);
  const focused = focusPlace();
  draw();
  [...parts.main.querySelectorAll('.scroll, figure.wide')].forEach((element, index) => { element.scrollLeft = scrolled[index] ?? 0; });
  scrollTo(place.x, place.y);
  drawVisible();
  restoreFocus(focused);
}

function focusPlace() {
  const { activeElement } = document;
  if (!parts.main.contains(activeElement) || activeElement === parts.main) return null;
  const { tagName, selectionStart, selectionEnd } = activeElement;
  return { tagName, index: [...parts.main.querySelectorAll(tagName)].indexOf(activeElement), selectionStart, selectionEnd };
}

function restoreFocus(place) {
  const element = place && parts.main.querySelectorAll(place.tagName)[place.index];
  element?.focus({ preventScroll: true });
  if (place?.selectionStart !== undefined) element?.setSelectionRange(place.selectionStart, place.selectionEnd);
}

function view(report, address) {
  const [, name, key] = address.split('/');
  if (name === 'compare') return compare(report, state.requirement);
  if (name === 'sessions') return sessions(report);
  const group = name === 'result' && report.groups.find((candidate) => candidate.key === key);
  return group ? result(report, state.requirement, group) : overview(report, state.requirement);
}

function showReport(text, live) {
  const first = state.report === null;
  state.report = new Report(JSON.parse(text));
  const { generated, sources } = state.report;
  parts.written.replaceChildren(live ? h('span', { class: 'live' }, 'Live') : '',
    `${live ? `As of ${format.clockTime(generated)}` : `Written ${format.moment(generated)}`} from ${sources.join(', ')}`);
  if (first) drawFrame();
  if (first) draw();
  else drawAgain();
}

function showTrouble(message) {
  const text = message === null ? '' : `No newer data: ${message}.`;
  if (parts.trouble.textContent === text) return;
  parts.trouble.textContent = text;
  parts.trouble.hidden = message === null;
}

// A report that is served has no data of its own.
async function start() {
  const packed = document.getElementById('report-data');
  const base64 = packed.textContent.trim();
  packed.remove();
  if (base64) showReport(await unpack(base64), false);
  else await follow({ onData: (text) => showReport(text, true), onTrouble: showTrouble });
}

start().catch((problem) => {
  app.replaceChildren(h('p', { class: 'warning', role: 'alert' }, `This browser cannot show the report: ${problem.message}.`));
  throw problem;
});
