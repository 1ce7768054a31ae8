// Colours of the charts, read from the style sheet so that both themes have one source.

/** After Okabe and Ito: distinct with every common form of colour blindness. Shapes repeat what colours say. */
const SERIES = ['--series-1', '--series-2', '--series-3', '--series-4', '--series-5', '--series-6', '--series-7',
  '--series-8'];
const PLUS = 'path://M4,0H6V4H10V6H6V10H4V6H0V4H4Z';
const DOWNWARD = 'path://M0,0H10L5,9Z';
const CROSS = 'path://M0,0H2L5,3.5 8,0H10V2L6.5,5 10,8V10H8L5,6.5 2,10H0V8L3.5,5 0,2Z';
const STAR = 'path://M5,0L6.2,3.8 10,5 6.2,6.2 5,10 3.8,6.2 0,5 3.8,3.8Z';
export const SYMBOLS = ['circle', 'diamond', 'triangle', 'rect', PLUS, DOWNWARD, CROSS, STAR];
const PRECISIONS = ['fp32', 'tf32', 'tf32x3', 'bf16', 'bf16x3', 'fp16', 'fp16x3', 'fp16_e5m2'];

export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const dark = read('--dark') === '1';
  return {
    text: read('--text'),
    muted: read('--muted'),
    line: read('--line'),
    surface: read('--surface'),
    accent: read('--accent'),
    bad: read('--bad'),
    series: SERIES.map(read),
    // Cividis, readable by everyone: from what stands out on this background to what fades into it.
    ramp: dark ? ['#ffea46', '#cbba69', '#958f78', '#666970', '#4a5570', '#31446b'] : ['#00204d', '#31446b', '#666970', '#958f78', '#cbba69', '#e6d98f'],
    font: style.fontFamily,
    size: Math.round(parseFloat(style.fontSize) * 0.8),
  };
}

/** Colour and symbol of a precision mode: the same in every chart. */
export function precisionStyle(colours, precision) {
  const place = PRECISIONS.indexOf(precision);
  const index = place >= 0 ? place : PRECISIONS.length - 1;
  return { color: colours.series[index % colours.series.length], symbol: SYMBOLS[index % SYMBOLS.length] };
}

export function seriesStyle(colours, index) {
  return { color: colours.series[index % colours.series.length], symbol: SYMBOLS[index % SYMBOLS.length] };
}
