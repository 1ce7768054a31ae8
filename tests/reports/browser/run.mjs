// Opens the written reports in Chromium and looks at every view: run.mjs REPORTS PACKAGES
// Exit status 77 where the browser is missing.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [reports, packages] = process.argv.slice(2).map((folder) => path.resolve(folder));
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

const firstColumn = (page, caption, column) =>
  page.$$eval('table', (tables, [wanted, index]) => {
    const table = tables.find((t) => t.caption?.textContent === wanted);
    return [...table.tBodies[0].rows].map((row) => row.cells[index]?.textContent);
  }, [caption, column]);

const tests = {
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
    const ratios = async () => (await firstColumn(page, caption, 4)).map(parseFloat);
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
    const page = await open('sweep', '#/result/1-0');
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
    const page = await open('sweep', '#/result/1-0');
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
    const page = await open('sweep', '#/result/1-0');
    await page.getByLabel('Status').selectOption('timeout');
    assert.match(await page.locator('.explorer > p.note').innerText(), /of 240 trials pass/);
    await page.locator('.explorer tbody button.link').first().press('Enter');
    const dialog = page.getByRole('dialog');
    assert.match(await dialog.innerText(), /stopped after one run/);
    await page.keyboard.press('Escape');
    assert.equal(await dialog.count(), 0);
    await close(page);
  },

  async 'the accuracy choice changes the winner'() {
    const page = await open('sweep', '#/result/1-0');
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
    for (const fragment of ['#/', '#/result/0-0', '#/sessions', '#/compare']) {
      const page = await open('hostile', fragment);
      await drawAll(page);
      assert.equal(await page.evaluate(() => window.injected), undefined);
      assert.equal(await page.locator('main b, main i, main u, main em, main img').count(), 0);
      assert.match(await page.title(), /<script>/);
      await close(page);
    }
  },

  async 'tooltips show names as text'() {
    const page = await open('hostile', '#/result/0-0');
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
    const failures = await open('only_failures', '#/result/0-0');
    assert.match(await failures.locator('main').innerText(), /None of the 12 trials gave a time/);
    assert.ok((await drawAll(failures)).includes('Failures by reason'));
    await close(failures);
    const one = await open('one_trial', '#/result/0-0');
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
    await page.evaluate(() => { location.hash = '#/result/1-0'; });
    await page.waitForSelector('.tiles');
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
    for (const fragment of ['#/', '#/result/1-0', '#/compare', '#/sessions']) {
      const page = await open('sweep', fragment, { width: 360 });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 360, `${fragment} is ${width} px wide`);
      await close(page);
    }
  },

  async 'axe finds no fault in either theme'() {
    for (const theme of ['light', 'dark']) {
      for (const fragment of ['#/', '#/result/1-0', '#/compare', '#/sessions']) {
        const page = await open('sweep', fragment, { theme });
        await drawAll(page);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'] }));
        const said = violations.map((v) => `${v.id}: ${v.help} (${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')})`);
        assert.deepEqual(said, [], `${fragment} ${theme}`);
        await close(page);
      }
    }
  },

  async 'printing shows every chart'() {
    const page = await open('sweep', '#/result/1-0');
    await page.emulateMedia({ media: 'print' });
    const pdf = await page.pdf({ format: 'A4' });
    assert.ok(pdf.length > 50_000);
    await close(page);
  },
};

const wanted = process.argv[4];
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
