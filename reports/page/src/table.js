// A table that sorts, searches, pages and copies. Rows may be a hundred thousand numbers: only the page shown exists.
import { announce, copyButton, h, uniqueId } from './dom.js';
import { count, plural } from './format.js';
import { keep, recall } from './memory.js';

/**
 * columns: [{key, label, value(row) -> what sorts and is copied, show(row) -> text or node, number: bool,
 *            broad: bool for long text, screen: bool for what is left out on paper, title: explanation}]
 * Returns {element, setRows(rows)}. The view remembers how the table is sorted, searched and paged.
 */
export function dataTable({ caption, columns, rows, sort = null, descending = false, pageSize = 25, search = false,
                            onRow = null, empty = 'Nothing here.' }) {
  const remembered = recall(`table ${caption}`, { sort, descending, page: 0, text: '' });
  const state = { rows, ...remembered };
  const captionId = uniqueId('caption');
  const body = h('tbody');
  const position = h('span', { class: 'position', 'aria-live': 'polite' });
  const pager = h('div', { class: 'pager' });
  const headers = new Map();

  function visibleRows() {
    let list = state.rows;
    if (state.text) {
      const terms = state.text.toLowerCase().split(/\s+/).filter(Boolean);
      list = list.filter((row) => {
        const text = columns.map((column) => String(column.value(row) ?? '')).join(' ').toLowerCase();
        return terms.every((term) => text.includes(term));
      });
    }
    const column = columns.find((c) => c.key === state.sort);
    return column ? sorted(list, column.value, state.descending) : list;
  }

  function draw() {
    keep(`table ${caption}`, { sort: state.sort, descending: state.descending, page: state.page, text: state.text });
    const list = visibleRows();
    const pages = Math.max(1, Math.ceil(list.length / pageSize));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * pageSize;
    const shown = list.slice(first, first + pageSize);
    body.replaceChildren(...shown.map(drawRow));
    if (shown.length === 0) body.append(h('tr', {}, h('td', { colspan: columns.length, class: 'empty' }, empty)));
    for (const [key, header] of headers) {
      header.setAttribute('aria-sort', key !== state.sort ? 'none' : state.descending ? 'descending' : 'ascending');
    }
    position.textContent =
      list.length > pageSize
        ? `${count(first + 1)}–${count(first + shown.length)} of ${plural(list.length, 'row')}`
        : plural(list.length, 'row');
    pager.replaceChildren(position, ...(pages > 1 ? pageButtons(pages) : []));
  }

  function drawRow(row) {
    const cells = columns.map((column, index) => {
      const kind = cellClass(column);
      const content = column.show ? column.show(row) : String(column.value(row) ?? '–');
      return index === 0
        ? h('th', { scope: 'row', class: kind }, content)
        : h('td', { class: kind }, content);
    });
    return h('tr', { class: onRow ? 'selectable' : null, ondblclick: onRow ? () => onRow(row) : null }, cells);
  }

  function pageButtons(pages) {
    const go = (label, text, page) =>
      h('button', { type: 'button', class: 'small', 'aria-label': label, disabled: page < 0 || page >= pages || page === state.page,
                    onclick: () => { state.page = page; draw(); } }, text);
    return [go('First page', '«', 0), go('Previous page', '‹', state.page - 1), go('Next page', '›', state.page + 1),
            go('Last page', '»', pages - 1)];
  }

  function sortBy(column) {
    state.descending = state.sort === column.key ? !state.descending : false;
    state.sort = column.key;
    state.page = 0;
    draw();
    announce(`Sorted by ${column.label}, ${state.descending ? 'largest' : 'smallest'} first`);
  }

  function copied() {
    const clean = (value) => String(value ?? '').replace(/[\t\n\r]+/g, ' ');
    const lines = visibleRows().map((row) => columns.map((column) => clean(column.value(row))).join('\t'));
    return [columns.map((column) => column.label).join('\t'), ...lines].join('\n');
  }

  const head = columns.map((column) => {
    const header = h('th', { scope: 'col', class: cellClass(column), title: column.title, 'aria-sort': 'none' },
                     h('button', { type: 'button', class: 'sort', onclick: () => sortBy(column) }, column.label));
    headers.set(column.key, header);
    return header;
  });
  const table = h('table', {}, h('caption', { id: captionId }, caption), h('thead', {}, h('tr', {}, head)), body);
  const bar = h('div', { class: 'table-bar' },
    search && h('input', { type: 'search', placeholder: 'Search', value: state.text, 'aria-label': `Search: ${caption}`,
                           oninput: (event) => { state.text = event.target.value; state.page = 0; draw(); } }),
    copyButton('Copy table', copied), pager);
  const element = h('div', { class: 'table-block' }, bar,
    h('div', { class: 'scroll', role: 'region', 'aria-labelledby': captionId, tabindex: 0 }, table));
  draw();
  return {
    element,
    setRows(next) {
      state.rows = next;
      state.page = 0;
      draw();
    },
  };
}

const cellClass = (column) => [column.number && 'number', column.broad && 'broad', column.screen && 'screen'].filter(Boolean).join(' ') || null;

// Missing values come last whatever the direction.
function sorted(list, value, descending) {
  const direction = descending ? -1 : 1;
  return list
    .map((row) => ({ row, key: value(row) }))
    .sort((a, b) => {
      const missing = (a.key === null || a.key === undefined) - (b.key === null || b.key === undefined);
      if (missing) return missing;
      if (typeof a.key === 'number' && typeof b.key === 'number') return direction * (a.key - b.key);
      return direction * String(a.key).localeCompare(String(b.key), 'en', { numeric: true });
    })
    .map((entry) => entry.row);
}
