// Starts the page: unpacks the data, draws the frame, and follows the address's fragment from view to view.
import { disposeAll, redrawAll } from './charts/figure.js';
import { REQUIREMENTS, unpack } from './data.js';
import { h, selectField } from './dom.js';
import * as format from './format.js';
import { compare } from './views/compare.js';
import { overview } from './views/overview.js';
import { result } from './views/result.js';
import { sessions } from './views/sessions.js';

const VIEWS = [['#/', 'Overview'], ['#/compare', 'Compare'], ['#/sessions', 'Sessions and environment']];
const THEMES = [['auto', 'as the system'], ['light', 'light'], ['dark', 'dark']];

const state = { requirement: 'allclose' };
const app = document.getElementById('app');

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

function frame(report) {
  const themeChoice = remembered('knobwise-theme') ?? 'auto';
  applyTheme(themeChoice);
  const main = h('main', { id: 'main', tabindex: -1 });
  const links = VIEWS.map(([href, label]) => h('a', { href }, label));
  app.replaceChildren(
    h('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); main.focus(); } }, 'Skip to the content'),
    h('header', {},
      h('div', { class: 'brand' }, h('h1', {}, report.title), h('p', {}, `Written ${format.moment(report.generated)} from ${report.sources.join(', ')}`)),
      h('nav', { 'aria-label': 'Views' }, links),
      h('div', { class: 'controls' },
        selectField('Accuracy', Object.entries(REQUIREMENTS).map(([key, { label }]) => [key, label]), state.requirement, (value) => {
          state.requirement = value;
          show(report, main, links, false);
        }),
        selectField('Theme', THEMES, themeChoice, applyTheme))),
    main,
    h('div', { id: 'status', role: 'status', 'aria-live': 'polite' }));
  addEventListener('hashchange', () => show(report, main, links, true));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  show(report, main, links, false);
}

function show(report, main, links, moved) {
  disposeAll();
  const address = location.hash || '#/';
  main.replaceChildren(...view(report, address));
  for (const link of links) {
    if (link.getAttribute('href') === address) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (moved) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function view(report, address) {
  const [, name, key] = address.split('/');
  if (name === 'compare') return compare(report, state.requirement);
  if (name === 'sessions') return sessions(report);
  const group = name === 'result' && report.groups.find((candidate) => candidate.key === key);
  return group ? result(report, state.requirement, group) : overview(report, state.requirement);
}

async function start() {
  const packed = document.getElementById('report-data');
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('it cannot unpack the data; Firefox 113, Safari 16.4, Chrome 80 or anything newer can');
  }
  const report = await unpack(packed.textContent);
  packed.remove();
  frame(report);
}

start().catch((problem) => {
  app.replaceChildren(h('p', { class: 'warning', role: 'alert' }, `This browser cannot show the report: ${problem.message}.`));
  throw problem;
});
