// What the reader has chosen in each view, by name: sorting, filters, opened tables. It outlives the elements, so a view
// that is drawn again, with newer data or on the way back, looks as it was left.

const views = new Map();
let current = new Map();

/** From here on, recall() and keep() speak of the view at this address. */
export function enterView(address) {
  if (!views.has(address)) views.set(address, new Map());
  current = views.get(address);
}

export const recall = (name, initial) => (current.has(name) ? current.get(name) : initial);
export const keep = (name, value) => current.set(name, value);
