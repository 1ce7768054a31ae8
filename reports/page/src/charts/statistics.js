// Small statistics of the page.

/** The quantile of sorted values, interpolated. */
export function quantile(sorted, share) {
  if (sorted.length === 0) return null;
  const place = (sorted.length - 1) * share;
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

/** [least, lower quartile, median, upper quartile, largest] */
export function fiveNumbers(values) {
  const sorted = Float64Array.from(values).sort();
  return [0, 0.25, 0.5, 0.75, 1].map((share) => quantile(sorted, share));
}

export const median = (values) => quantile(Float64Array.from(values).sort(), 0.5);

export const geometricMean = (values) =>
  values.length > 0 ? Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length) : null;

/** Two-sided p of the Mann-Whitney U test: normal approximation with the correction for ties. */
export function mannWhitney(a, b) {
  const all = [...a.map((value) => ({ value, first: true })), ...b.map((value) => ({ value, first: false }))].sort((x, y) => x.value - y.value);
  let rankSum = 0;
  let ties = 0;
  for (let i = 0; i < all.length;) {
    let j = i;
    while (j < all.length && all[j].value === all[i].value) j += 1;
    const size = j - i;
    ties += size ** 3 - size;
    for (let k = i; k < j; k += 1) if (all[k].first) rankSum += (i + j + 1) / 2;
    i = j;
  }
  const [m, n] = [a.length, b.length];
  const total = m + n;
  const u = rankSum - (m * (m + 1)) / 2;
  const variance = ((m * n) / 12) * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return 1;
  return 2 * (1 - normalDistribution(Math.max(0, Math.abs(u - (m * n) / 2) - 0.5) / Math.sqrt(variance)));
}

// Abramowitz and Stegun, 26.2.17: absolute error below 7.5e-8.
function normalDistribution(z) {
  const t = 1 / (1 + 0.2316419 * z);
  const tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return 1 - (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * tail;
}
