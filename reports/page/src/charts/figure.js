// A chart with its title, its meaning in words, and the same figures as a table.
import { disclosure, h, uniqueId } from '../dom.js';
import { dataTable } from '../table.js';
import { init } from './echarts.js';
import { theme } from './theme.js';

const shown = new Set();
const LEGEND_MARGIN = 8;
const LEGEND_ICON = 18;
const pen = document.createElement('canvas').getContext('2d');

/** Draws every chart on the page again: after a change of theme, and for printing. */
export function redrawAll() {
  for (const figure of shown) figure.draw();
}

/** Draws the charts that can be seen at once, so that a view that is drawn again does not flicker. */
export function drawVisible() {
  for (const figure of shown) figure.showIfVisible();
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

// Paper is white: for printing the page is light, with every chart drawn at once.
let printing = false;
let themeOnScreen;
addEventListener('beforeprint', () => {
  if (!printing) themeOnScreen = document.documentElement.dataset.theme;
  printing = true;
  document.documentElement.dataset.theme = 'light';
  for (const figure of shown) {
    figure.show();
    figure.draw();
    figure.flush();
  }
});
addEventListener('afterprint', () => {
  printing = false;
  if (themeOnScreen === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = themeOnScreen;
  redrawAll();
});

/**
 * title, about (what to read from it), option(colours) -> an ECharts option, table: arguments of dataTable() or null,
 * height in rem, controls: elements above the chart, wide: takes the whole width, and scrolls
 * sideways where that is less than minWidth (in rem), onReady(chart) once,
 * onDrawn(chart) after each drawing.
 * Returns the <figure>; its `redraw()` draws with what option() gives now.
 */
export function chartFigure({ title, about, option, table = null, height = 20, controls = [], wide = false, minWidth = 0, onReady = null,
                              onDrawn = null, note = null }) {
  const titleId = uniqueId('figure');
  const aboutId = uniqueId('about');
  const canvas = h('div', { class: 'chart', role: 'img', 'aria-labelledby': titleId, 'aria-describedby': aboutId,
                            style: `height: ${height}rem; min-width: ${minWidth}rem` });
  let chart = null;
  let drawnWidth = 0;
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
      chart.setOption(withDefaults(colours, option(colours), canvas.clientWidth), { notMerge: true });
      drawnWidth = canvas.clientWidth;
      onDrawn?.(chart);
    },
    showIfVisible() {
      const { top, bottom } = canvas.getBoundingClientRect();
      if (top < innerHeight && bottom > 0) figure.show();
    },
    resize() {
      chart?.resize();
      if (canvas.clientWidth !== drawnWidth) figure.draw();
    },
    flush() {
      chart?.getZr().flush();
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
  return disclosure(`table behind ${title}`, { class: 'table-behind' }, `Table: ${title}`, (details) => {
    const options = typeof table === 'function' ? table() : table;
    details.append(dataTable({ caption: title, pageSize: 15, ...options }).element);
  });
}

// A legend breaks into as many lines as it needs; the drawing begins below it.
function legendLines(colours, option, width) {
  const names = option.legend.data ?? [...new Set(option.series.map((series) => series.name).filter(Boolean))];
  pen.font = `${colours.size}px ${colours.font}`;
  let lines = 1;
  let used = 0;
  for (const name of names) {
    const wide = LEGEND_ICON + 5 + pen.measureText(name).width + 10;
    if (used > 0 && used + wide > width) {
      lines += 1;
      used = 0;
    }
    used += wide;
  }
  return lines;
}

function withDefaults(colours, option, width) {
  const legend = option.legend ? legendLines(colours, option, width - 2 * LEGEND_MARGIN) * (colours.size + 12) : 0;
  const grid = { left: 72, right: 24, top: 12, bottom: 48, ...option.grid };
  return {
    animation: false,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: colours.font, fontSize: colours.size, color: colours.text },
    ...option,
    grid: { ...grid, top: grid.top + legend },
    legend: option.legend && {
      top: 0, left: LEGEND_MARGIN, right: LEGEND_MARGIN, itemGap: 10, itemWidth: LEGEND_ICON, itemHeight: 11, textStyle: { color: colours.text, fontSize: colours.size },
      inactiveColor: colours.muted, ...option.legend,
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
