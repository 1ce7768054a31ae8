// Follows a report that is served while a search runs: asks again and again for newer data.

const PAUSE_MS = 1000;
const QUIET_MS = 1500;
const CHOOSING_MS = 15_000;

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Calls onData(text) with every new state of the data, and onTrouble(message), null once it is over. Never returns. */
export async function follow({ onData, onTrouble }) {
  let tag = null;
  for (;;) {
    const answer = await ask(tag);
    if (answer.status === 200) {
      await nobodyBusy();
      onData(answer.text);
      tag = answer.tag;
    }
    onTrouble(answer.status === 200 || answer.status === 304 ? null : answer.text.trim());
    await pause(PAUSE_MS);
    await visible();
  }
}

async function ask(tag) {
  try {
    const answer = await fetch('data', { cache: 'no-store', headers: tag ? { 'If-None-Match': tag } : {} });
    return { status: answer.status, text: await answer.text(), tag: answer.headers.get('ETag') };
  } catch {
    return { status: null, text: 'the server does not answer; it may have been ended' };
  }
}

// A page in the background asks for nothing.
function visible() {
  if (!document.hidden) return null;
  return new Promise((resolve) => { document.addEventListener('visibilitychange', resolve, { once: true }); });
}

let pressed = false;
let touched = -Infinity;
for (const kind of ['pointerdown', 'pointerup', 'pointercancel', 'keydown', 'wheel']) {
  addEventListener(kind, () => {
    touched = performance.now();
    if (kind !== 'keydown' && kind !== 'wheel') pressed = kind === 'pointerdown';
  }, { capture: true, passive: true });
}

// Drawing again would take away what is being dragged, chosen or marked.
function busy() {
  const choosing = document.activeElement?.tagName === 'SELECT';
  return pressed || !getSelection().isCollapsed || performance.now() - touched < (choosing ? CHOOSING_MS : QUIET_MS);
}

async function nobodyBusy() {
  while (busy()) await pause(100);
}
