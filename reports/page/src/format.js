// Numbers as people read them: with a unit and three significant digits. A missing value is a dash.

export const MISSING = '–';

const present = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** Three significant digits without an exponent in the ordinary range. */
export function digits(value, count = 3) {
  if (!present(value)) return MISSING;
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(count - 1).replace('e+', 'e');
  return size >= 10 ** (count - 1) ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(count)));
}

function scaled(value, units, count) {
  if (!present(value)) return MISSING;
  if (value === 0) return '0';
  const [factor, unit] = units.find(([size]) => Math.abs(value) >= size) ?? units[units.length - 1];
  const shown = value / factor;
  // Fixed width after the point keeps columns of figures readable.
  const decimals = Math.max(0, count - 1 - Math.floor(Math.log10(Math.max(Math.abs(shown), 1e-3))));
  return `${shown.toFixed(Math.min(decimals, 3))} ${unit}`;
}

export const time = (us, count = 3) =>
  scaled(us, [[1e6, 's'], [1e3, 'ms'], [1, 'µs'], [1e-3, 'ns']], count);
export const seconds = (s) => {
  if (!present(s)) return MISSING;
  if (s < 120) return scaled(s, [[1, 's'], [1e-3, 'ms']], 3);
  if (s < 7200) return `${digits(s / 60)} min`;
  return `${digits(s / 3600)} h`;
};
export const rate = (flopPerSecond) =>
  scaled(flopPerSecond, [[1e15, 'PFLOP/s'], [1e12, 'TFLOP/s'], [1e9, 'GFLOP/s'], [1e6, 'MFLOP/s']], 3);
export const bandwidth = (bytesPerSecond) =>
  scaled(bytesPerSecond, [[1e12, 'TB/s'], [1e9, 'GB/s'], [1e6, 'MB/s']], 3);
export const bytes = (count) =>
  present(count) && count < 1024
    ? `${count} B`
    : scaled(count, [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']], 3);
export const flops = (count) => scaled(count, [[1e12, 'TFLOP'], [1e9, 'GFLOP'], [1e6, 'MFLOP'], [1e3, 'kFLOP'], [1, 'FLOP']], 3);
export const percent = (share) =>
  present(share) ? `${share >= 0.0995 ? Math.round(share * 100) : Number((share * 100).toPrecision(2))} %` : MISSING;
export const ratio = (value) => (present(value) ? `${value.toFixed(value < 10 ? 2 : 1)}×` : MISSING);
export const error = (value) =>
  present(value) ? (value === 0 ? '0' : value.toExponential(1).replace('e+', 'e')) : MISSING;
export const count = (value) => (present(value) ? value.toLocaleString('en') : MISSING);
export const clock = (khz) => scaled(present(khz) && khz > 0 ? khz * 1e3 : NaN, [[1e9, 'GHz'], [1e6, 'MHz']], 3);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** "2026-01-31 12:00 UTC" */
export function moment(value) {
  if (value === null || value === undefined) return MISSING;
  const date = new Date(typeof value === 'number' ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? String(value) : `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** "12:00:05 UTC" */
export const clockTime = (value) => `${new Date(value).toISOString().slice(11, 19)} UTC`;

/** The figure of a tick without zeros that say nothing: "1.00 ms" reads "1 ms", "2.0e-7" reads "2e-7". */
export const tick = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, (_, kept) => (kept === '.' ? '' : kept));

/** The words of a status: "wrong_result" reads "wrong result". */
export const words = (identifier) => identifier.replaceAll('_', ' ');

export const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
