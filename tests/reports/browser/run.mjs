// Opens the written reports in Chromium and looks at every view: run.mjs REPORTS PACKAGES SERVER [NAME]
// SERVER serves a growing report (serve_growing.cpp); only the tests whose names hold NAME run.
// Exit status 77 where the browser is missing.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [reports, packages, server] = process.argv.slice(2, 5).map((folder) => path.resolve(folder));
const browserPath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(browserPath)) {
  console.log(`skipped: no ${browserPath} (apt-get install chromium)`);
  process.exit(77);
}
const require = createRequire(path.join(packages, 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const profile = mkdtempSync(path.join(tmpdir(), 'knobwise-browser-'));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: browserPath,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync'],
  viewport: { width: 1400, height: 900 },
  offline: true,
});
// Waiting only ends early: a machine busy with other work may need this long.
context.setDefaultTimeout(120_000);

/** page.computed(): milliseconds of processor time that the page's thread has used, whatever else the machine does. */
async function measure(page) {
  const session = await context.newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  page.computed = async () => {
    const { metrics } = await session.send('Performance.getMetrics');
    return Math.round(1000 * metrics.find(({ name }) => name === 'TaskDuration').value);
  };
}

/** Opens a view; every complaint of the page and every request that leaves the file is a failure. */
async function open(name, fragment = '#/', { theme = 'light', width = 1400, measured = false } = {}) {
  const page = await context.newPage();
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: theme });
  page.problems = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.problems.push(message.text()));
  page.on('pageerror', (error) => page.problems.push(error.stack ?? String(error)));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || page.problems.push(`request: ${request.url()}`));
  page.on('request', (request) => request.url().startsWith('file:') && !request.url().split('#')[0].endsWith(`${name}.html`) && page.problems.push(`request: ${request.url()}`));
  if (measured) await measure(page);
  await page.goto(`${pathToFileURL(path.join(reports, `${name}.html`))}${fragment}`);
  await page.waitForSelector('main > *');
  return page;
}

/** Opens the result in a row of the overview. */
async function openResult(name, row = 0, options = {}) {
  const page = await open(name, '#/', options);
  await followRow(page, row);
  return page;
}

const RESULT = 'a result';
const openView = (name, fragment, options) => (fragment === RESULT ? openResult(name, 0, options) : open(name, fragment, options));
/** The row of a problem with all precision modes in the report "sweep". */
const THIRD = 2;

async function followRow(page, row) {
  await page.evaluate((index) => document.querySelectorAll('main tbody')[0].rows[index].querySelector('a').click(), row);
  await page.waitForSelector('.tiles');
}

/** Scrolls through the page so that every chart is drawn, and checks that each one is. */
async function drawAll(page) {
  for (let y = 0; y < await page.evaluate(() => document.documentElement.scrollHeight); y += 600) {
    await page.evaluate((top) => scrollTo(0, top), y);
    await page.waitForTimeout(60);
  }
  await page.waitForTimeout(150);
  const charts = await page.$$eval('.chart', (all) => all.map((chart) => {
    const canvas = chart.querySelector('canvas');
    const name = document.getElementById(chart.getAttribute('aria-labelledby'))?.textContent ?? '';
    if (!canvas) return { name, painted: false };
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let painted = 0;
    for (let i = 3; i < data.length; i += 4) painted += data[i] > 0 ? 1 : 0;
    return { name, painted: painted > 500 };
  }));
  for (const { name, painted } of charts) assert.ok(painted, `chart "${name}" is blank`);
  return charts.map((chart) => chart.name);
}

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.close();
}

/** A session that goes on: {url, add(trials), end()}. */
async function growing() {
  const database = path.join(profile, `growing-${Date.now()}.db`);
  const child = spawn(server, [database], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout, 'data');
  return {
    url: String(line).trim(),
    add: (trials) => child.stdin.write(`${trials}\n`),
    async end() {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}

/** Opens a view of a served report; requests to anywhere else are failures. */
async function openLive({ url }, fragment = '#/') {
  await context.setOffline(false);
  const page = await context.newPage();
  await page.setViewportSize({ width: 1400, height: 900 });
  page.problems = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && page.problems.push(message.text()));
  page.on('pageerror', (error) => page.problems.push(error.stack ?? String(error)));
  page.on('request', (request) => request.url().startsWith(url) || /^(data|blob):/.test(request.url()) || page.problems.push(`request: ${request.url()}`));
  await page.goto(`${url}${fragment}`);
  await page.waitForSelector('main > *');
  await page.evaluate(() => { window.sameDocument = true; });
  return page;
}

const firstColumn = (page, caption, column) =>
  page.$$eval('table', (tables, [wanted, index]) => {
    const table = tables.find((t) => t.caption?.textContent === wanted);
    return [...table.tBodies[0].rows].map((row) => row.cells[index]?.textContent);
  }, [caption, column]);

const tests = {
  async 'the products that a mode takes are those of the tuner'() {
    const { arithmetic } = await import(new URL('../../../reports/page/src/data.js', import.meta.url));
    assert.deepEqual(arithmetic('bf16x3'), { resource: 'bf16', products: 3 });
    assert.deepEqual(arithmetic('fp16_e5m2'), { resource: 'fp16', products: 2 });
    assert.deepEqual(arithmetic('', 'f16'), { resource: 'fp16', products: 1 });
  },
  async 'the overview shows every problem and device'() {
    const page = await open('sweep');
    assert.equal(await page.locator('main table').first().locator('tbody tr').count(), 6);
    assert.match(await page.locator('.findings').innerText(), /vendor library/);
    assert.ok((await drawAll(page)).length >= 2);
    await close(page);
  },

  async 'the overview sorts in both directions and says so'() {
    const page = await open('sweep');
    const caption = 'Best configuration of each problem on each device';
    const header = page.locator('th', { has: page.getByRole('button', { name: 'vs vendor', exact: true }) });
    const ratios = async () => (await firstColumn(page, caption, 3)).map(parseFloat);
    await header.getByRole('button').click();
    assert.equal(await header.getAttribute('aria-sort'), 'ascending');
    const up = await ratios();
    assert.deepEqual(up, [...up].sort((a, b) => a - b));
    assert.ok(up[0] < up[5]);
    await header.getByRole('button').press('Enter');
    assert.equal(await header.getAttribute('aria-sort'), 'descending');
    assert.deepEqual(await ratios(), [...up].reverse());
    await close(page);
  },

  async 'the overview searches'() {
    const page = await open('sweep');
    await page.getByRole('searchbox').first().fill('conv1d h200');
    const rows = await firstColumn(page, 'Best configuration of each problem on each device', 0);
    assert.equal(rows.length, 1);
    assert.match(rows[0], /^conv1d/);
    await close(page);
  },

  async 'a result shows every chart with data and a table behind each'() {
    const page = await openResult('sweep', THIRD);
    const charts = await drawAll(page);
    for (const name of ['Convergence', 'Roofline', 'Samples of the finalists', 'Time against error', 'Which knobs matter',
                        'Two knobs together', 'Resources against time', 'Failures by reason', 'All trials in parallel coordinates', 'tile_w'])
      assert.ok(charts.includes(name), `no chart "${name}" among ${charts}`);
    for (const details of await page.locator('details.table-behind').all()) {
      await details.locator('summary').click();
      const rows = details.locator('tbody tr');
      await rows.first().waitFor();
      assert.equal(await details.locator('td.empty').count(), 0);
    }
    await close(page);
  },

  async 'brushing an axis filters the table'() {
    const page = await openResult('sweep', THIRD);
    await drawAll(page);
    const chart = page.locator('figure.wide .chart');
    await chart.scrollIntoViewIfNeeded();
    const line = page.locator('.explorer > p.note');
    assert.match(await line.innerText(), /^All 240 trials/);
    const box = await chart.boundingBox();
    // The time axis is the last one: right of it stand labels and the key.
    const x = box.x + box.width - 190;
    await page.mouse.move(x, box.y + box.height * 0.55);
    await page.mouse.down();
    await page.mouse.move(x, box.y + box.height * 0.75, { steps: 6 });
    await page.mouse.move(x, box.y + box.height * 0.95, { steps: 6 });
    await page.mouse.up();
    await page.waitForTimeout(200);
    const match = /^([\d,]+) of 240 trials/.exec(await line.innerText());
    assert.ok(match, `not filtered: ${await line.innerText()}`);
    assert.ok(Number(match[1]) > 0 && Number(match[1]) < 197);
    await page.getByRole('button', { name: 'Clear brushes' }).click();
    assert.match(await line.innerText(), /^All 240 trials/);
    await close(page);
  },

  async 'the keyboard filters as well as the brush, and opens a trial'() {
    const page = await openResult('sweep', THIRD);
    await page.getByLabel('Status').selectOption('timeout');
    assert.match(await page.locator('.explorer > p.note').innerText(), /of 240 trials pass/);
    await page.locator('.explorer tbody button.link').first().press('Enter');
    const dialog = page.getByRole('dialog');
    assert.match(await dialog.innerText(), /stopped after one run/);
    await page.keyboard.press('Escape');
    assert.equal(await dialog.count(), 0);
    await close(page);
  },

  async 'a default of an older kernel version is not compared with'() {
    const page = await openResult('changed_source');
    const tile = (label) => page.locator('.tile', { hasText: label }).innerText();
    assert.match(await tile('Against the default'), /–\s+default not measured with this version/);
    assert.match(await tile('Against the vendor library'), /×\s+cudnn/);
    const used = await firstColumn(page, 'What the best configuration is compared with', 7);
    assert.deepEqual(used.sort(), ['no: another version of the kernel source', 'yes']);
    await page.evaluate(() => { location.hash = '#/'; });
    await page.waitForSelector('.findings');
    assert.equal((await firstColumn(page, 'Best configuration of each problem on each device', 4))[0], 'not measured');
    assert.doesNotMatch(await page.locator('.findings').innerText(), /default configuration/);
    await close(page);
  },

  async 'the accuracy choice changes the winner'() {
    const page = await openResult('sweep', THIRD);
    const best = () => page.locator('.tile strong').first().innerText();
    const strict = await best();
    await page.getByLabel('Accuracy').first().selectOption('any');
    assert.notEqual(await best(), strict);
    await close(page);
  },

  async 'comparison and sessions'() {
    const compare = await open('sweep', '#/compare');
    await drawAll(compare);
    assert.ok(await compare.locator('tr.differs').count() > 2);
    await close(compare);
    const sessions = await open('sweep', '#/sessions');
    assert.equal((await firstColumn(sessions, 'Sessions', 0)).length, 12);
    assert.match(await sessions.locator('main').innerText(), /13\.0/);
    await close(sessions);
  },

  async 'two driver versions, two sessions and two devices can be compared'() {
    const page = await open('sweep', '#/compare');
    const [left, right] = ['Left', 'Right'].map((label) => page.getByRole('combobox', { name: label }));
    const options = await left.locator('option').allInnerTexts();
    assert.equal(new Set(options).size, options.length, 'every side has a name of its own');
    for (const kind of ['environment driver', 'session', 'cores']) {
      const [one, other] = options.filter((text) => text.includes(kind));
      await left.selectOption({ label: one });
      await right.selectOption({ label: other });
      const text = await page.locator('main').innerText();
      assert.match(text, /Best time/);
      assert.match(text, /on the (left|right) side|carried over/);
      assert.ok(await page.locator('tr.differs').count() > 0);
    }
    await close(page);
  },

  async 'links lead from view to view and back'() {
    const page = await open('sweep');
    await page.locator('main tbody a').first().click();
    await page.waitForSelector('.tiles');
    await page.goBack();
    await page.waitForSelector('.findings');
    await close(page);
  },

  async 'the theme follows the system and the choice'() {
    const page = await open('sweep', '#/', { theme: 'dark' });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await page.getByLabel('Theme').selectOption('light');
    assert.notEqual(await background(), dark);
    await close(page);
  },

  async 'names never become markup'() {
    for (const fragment of ['#/', RESULT, '#/sessions', '#/compare']) {
      const page = await openView('hostile', fragment);
      await drawAll(page);
      assert.equal(await page.evaluate(() => window.injected), undefined);
      assert.equal(await page.locator('main b, main i, main u, main em, main img').count(), 0);
      assert.match(await page.title(), /<script>/);
      await close(page);
    }
  },

  async 'a foreign command line is shown, not offered for copying'() {
    const page = await open('hostile', '#/sessions');
    const row = page.locator('table', { hasText: 'Started' }).locator('tbody tr');
    assert.match(await row.innerText(), /echo '<\/script>' "\$\(x\)" `y`/);
    assert.equal(await row.getByRole('button').count(), 0);
    await close(page);
    const own = await open('sweep', '#/sessions');
    assert.equal(await own.getByRole('button', { name: 'Copy command' }).count(), 12);
    await close(own);
  },

  async 'tooltips show names as text'() {
    const page = await openResult('hostile');
    const chart = page.locator('figure', { hasText: 'Which knobs matter' }).or(page.locator('figure', { hasText: 'Failures by reason' })).first().locator('.chart');
    await chart.scrollIntoViewIfNeeded();
    await page.waitForTimeout(300);
    const box = await chart.boundingBox();
    for (let share = 0.1; share < 0.9; share += 0.1) await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * share, { steps: 2 });
    assert.equal(await page.evaluate(() => window.injected), undefined);
    await close(page);
  },

  async 'an empty database, only failures and one trial give good pages'() {
    const empty = await open('empty');
    assert.match(await empty.locator('main').innerText(), /no trials yet[\s\S]*knobwise tune/);
    await close(empty);
    const failures = await openResult('only_failures');
    assert.match(await failures.locator('main').innerText(), /None of the 12 trials gave a time/);
    assert.ok((await drawAll(failures)).includes('Failures by reason'));
    await close(failures);
    const one = await openResult('one_trial');
    await drawAll(one);
    assert.match(await one.locator('.tiles').innerText(), /1\.23 ms/);
    await close(one);
    for (const name of ['empty', 'only_failures', 'one_trial']) {
      for (const fragment of ['#/', '#/compare', '#/sessions', '#/nowhere']) await close(await open(name, fragment));
    }
  },

  async 'a hundred thousand trials open within three seconds and stay responsive'() {
    const page = await open('large', '#/', { measured: true });
    const opened = await page.computed();
    const trials = await page.locator('.findings').innerText();
    assert.match(trials, /1\d\d,\d{3} trials/);
    await followRow(page, THIRD);
    await drawAll(page);
    const before = await page.computed();
    await page.evaluate(() => {
      const button = [...document.querySelectorAll('.explorer .sort')].find((candidate) => candidate.textContent === 'Rate');
      button.click();
    });
    const sorting = await page.computed() - before;
    console.log(`  opened in ${opened} ms, sorted in ${Math.round(sorting)} ms: ${trials.split('\n').at(-1)}`);
    assert.ok(opened < 3000, `took ${opened} ms`);
    assert.ok(sorting < 1000, `sorting took ${sorting} ms`);
    await close(page);
  },

  async 'no view is wider than a phone'() {
    for (const fragment of ['#/', RESULT, '#/compare', '#/sessions']) {
      const page = await openView('sweep', fragment, { width: 360 });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 360, `${fragment} is ${width} px wide`);
      await close(page);
    }
  },

  async 'axe finds no fault in either theme'() {
    for (const theme of ['light', 'dark']) {
      for (const fragment of ['#/', RESULT, '#/compare', '#/sessions']) {
        const page = await openView('sweep', fragment, { theme });
        await drawAll(page);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'] }));
        const said = violations.map((v) => `${v.id}: ${v.help} (${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')})`);
        assert.deepEqual(said, [], `${fragment} ${theme}`);
        await close(page);
      }
    }
  },

  async 'trials of a running session appear without a reload, for every viewer'() {
    const session = await growing();
    const first = await openLive(session);
    const second = await openLive(session);
    for (const page of [first, second]) await page.getByText('Based on 30 trials').waitFor();
    session.add(5);
    for (const page of [first, second]) {
      await page.getByText('Based on 35 trials').waitFor();
      assert.ok(await page.evaluate(() => window.sameDocument));
      assert.match(await page.locator('header').innerText(), /Live/);
    }
    await close(second);
    await session.end();
    await first.getByRole('alert').getByText('the server does not answer').waitFor();
    assert.match(await first.locator('main').innerText(), /Based on 35 trials/);
    first.problems = first.problems.filter((problem) => !/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE/.test(problem));
    await close(first);
    await context.setOffline(true);
  },

  async 'what the reader has set up survives newer data'() {
    const session = await growing();
    const page = await openLive(session);
    await followRow(page, 0);
    await page.getByText('All 30 trials.').waitFor();
    await drawAll(page);
    const explorer = page.locator('.explorer');
    await page.getByRole('combobox', { name: 'Against' }).selectOption('wall');
    await page.locator('summary', { hasText: 'Table: Convergence' }).click();
    await explorer.getByLabel('Status').selectOption('ok');
    await explorer.getByRole('button', { name: 'Rate', exact: true }).click();
    await page.locator('summary', { hasText: 'Filter by knob' }).click();
    await explorer.getByLabel('weights_source').selectOption({ label: 'shared' });
    const search = explorer.getByRole('searchbox');
    await search.fill('direct');
    const place = await page.evaluate(() => scrollY);
    assert.ok(place > 500);
    const filtered = await explorer.locator('> p.note').innerText();
    session.add(20);
    await explorer.locator('> p.note', { hasText: 'of 50 trials' }).waitFor();
    assert.notEqual(await explorer.locator('> p.note').innerText(), filtered);
    assert.equal(await page.getByRole('combobox', { name: 'Against' }).inputValue(), 'wall');
    assert.ok(await page.locator('details', { hasText: 'Table: Convergence' }).locator('tbody tr').count() > 0);
    assert.equal(await explorer.getByLabel('Status').inputValue(), 'ok');
    assert.equal(await explorer.locator('th', { has: page.getByRole('button', { name: 'Rate', exact: true }) }).getAttribute('aria-sort'), 'ascending');
    const sources = new Set((await explorer.locator('tbody tr').allInnerTexts()).map((row) => /shared|global|constant/.exec(row)[0]));
    assert.deepEqual([...sources], ['shared']);
    assert.equal(await search.inputValue(), 'direct');
    assert.ok(await search.evaluate((element) => element === document.activeElement));
    assert.ok(Math.abs(await page.evaluate(() => scrollY) - place) < 60, 'the page has moved');
    await close(page);
    await session.end();
    await context.setOffline(true);
  },

  async 'printing shows every chart, in dark ink, and tables that fit'() {
    const page = await openResult('sweep', THIRD);
    await page.getByLabel('Theme').selectOption('dark');
    await page.emulateMedia({ media: 'print' });
    const pdf = await page.pdf({ format: 'A4' });
    assert.ok(pdf.length > 50_000);
    // Browsers say that printing has ended, but not always to a page without a window.
    const theme = await page.evaluate(() => {
      dispatchEvent(new Event('afterprint'));
      return document.documentElement.dataset.theme;
    });
    assert.equal(theme, 'dark');
    await page.setViewportSize({ width: 760, height: 1000 });
    const sum = await page.evaluate(() => {
      dispatchEvent(new Event('beforeprint'));
      const canvas = document.querySelector('.chart canvas');
      const { width, height } = canvas;
      const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
      let light = 0;
      let inked = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 200) continue;
        inked += 1;
        light += data[i] + data[i + 1] + data[i + 2] > 3 * 200 ? 1 : 0;
      }
      return { light, inked };
    });
    assert.ok(sum.inked > 500 && sum.light < sum.inked / 10, JSON.stringify(sum));
    const tables = await page.$$eval('main table', (all) => all.map((table) => ({ caption: table.caption.textContent, right: table.getBoundingClientRect().right, head: table.tHead.innerText.trim() })));
    for (const { caption, right, head } of tables) {
      assert.ok(right <= 760, `"${caption}" ends at ${right} px`);
      assert.notEqual(head, '', `"${caption}" has no head`);
    }
    await close(page);
  },
};

const wanted = process.argv[5];
let passed = 0;
let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  if (wanted && !name.includes(wanted)) continue;
  try {
    await test();
    passed += 1;
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n${error.stack}`);
  }
}
await context.close();
rmSync(profile, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
