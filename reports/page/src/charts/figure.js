// A chart with its title, its meaning in words, and the same figures as a table.
import { h, uniqueId } from '../dom.js';
import { dataTable } from '../table.js';
import { init } from './echarts.js';
import { theme } from './theme.js';

const shown = new Set();

/** Draws every chart on the page again: after a change of theme, and for printing. */
export function redrawAll() {
  for (const figure of shown) figure.draw();
}

/** Forgets the charts of the view that is left. */
export function disposeAll() {
  for (const figure of shown) figure.dispose();
  shown.clear();
}

const visibility = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) entry.target.figure?.show();
    }
  },
  { rootMargin: '400px' },
);
const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) entry.target.figure?.resize();
});
addEventListener('beforeprint', () => shown.forEach((figure) => figure.show()));

/**
 * title, about (what to read from it), option(colours) -> an ECharts option, table: arguments of dataTable() or null,
 * height in rem, controls: elements above the chart, wide: takes the whole width, onReady(chart).
 * Returns the <figure>; its `redraw()` draws with what option() gives now.
 */
export function chartFigure({ title, about, option, table = null, height = 20, controls = [], wide = false, onReady = null,
                              note = null }) {
  const titleId = uniqueId('figure');
  const aboutId = uniqueId('about');
  const canvas = h('div', { class: 'chart', role: 'img', 'aria-labelledby': titleId, 'aria-describedby': aboutId,
                            style: `height: ${height}rem` });
  let chart = null;
  const figure = {
    show() {
      if (chart || canvas.clientWidth === 0) return;
      chart = init(canvas, null, { renderer: 'canvas' });
      onReady?.(chart);
      figure.draw();
    },
    draw() {
      if (!chart) return;
      const colours = theme();
      chart.setOption(withDefaults(colours, option(colours)), { notMerge: true });
    },
    resize() {
      chart?.resize();
    },
    dispose() {
      visibility.unobserve(canvas);
      sizes.unobserve(canvas);
      chart?.dispose();
      chart = null;
    },
  };
  canvas.figure = figure;
  shown.add(figure);
  visibility.observe(canvas);
  sizes.observe(canvas);

  const element = h('figure', { class: wide ? 'wide' : null },
    h('figcaption', {}, h('h3', { id: titleId }, title), h('p', { id: aboutId }, about)),
    controls.length > 0 && h('div', { class: 'controls' }, controls),
    canvas,
    note && h('p', { class: 'note' }, note),
    table && tableBehind(title, table));
  element.redraw = () => figure.draw();
  return element;
}

// Built when it is first opened: most never are.
function tableBehind(title, table) {
  const details = h('details', { class: 'table-behind' }, h('summary', {}, `Table: ${title}`));
  details.addEventListener('toggle', () => {
    if (details.open && !details.querySelector('table')) {
      const options = typeof table === 'function' ? table() : table;
      details.append(dataTable({ caption: title, pageSize: 15, ...options }).element);
    }
  });
  return details;
}

function withDefaults(colours, option) {
  return {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: colours.font, fontSize: colours.size, color: colours.text },
    grid: { left: 72, right: 24, top: 40, bottom: 48 },
    ...option,
    legend: option.legend && {
      type: 'scroll', top: 0, textStyle: { color: colours.text, fontSize: colours.size }, inactiveColor: colours.muted,
      pageTextStyle: { color: colours.text }, pageIconColor: colours.text, ...option.legend,
    },
    tooltip: option.tooltip && {
      confine: true, backgroundColor: colours.surface, borderColor: colours.line,
      textStyle: { color: colours.text, fontSize: colours.size }, ...option.tooltip,
    },
  };
}

/** A tooltip's content from lines: elements, never markup. */
export function tooltip(title, pairs) {
  return h('div', { class: 'tooltip' }, title && h('strong', {}, title),
    h('dl', {}, pairs.filter(([, value]) => value !== null && value !== '').map(([name, value]) =>
      h('div', {}, h('dt', {}, name), h('dd', {}, value)))));
}
