// The viewer of `ringsched render FILE -o page.html`. The data is what html.cpp writes: one object for each
// run, tasks as columns. Times are picoseconds as doubles: exact below 2.5 hours, to 1e-16 of themselves above.
(() => {
const runs = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const canvas = $('chart'), screen_ = canvas.getContext('2d'), tip = $('tip');
let ctx = screen_;  // or what writes SVG
const LEFT = 92, RIGHT = 16, TOP = 24, BOTTOM = 4;  // margins of the chart, pixels
const HEAD = 18;  // above the axis of a run that has its name there
// What tasks do: 'attend', 'backward', 'send', 'receive', 'exchange' or 'other'.
const role = (run, i) => run.roles[run.kind[i]];
const isAttend = i => ['attend', 'backward'].includes(role(run, i));
const isExchange = i => role(run, i) === 'exchange';
const isTransfer = i => ['send', 'receive', 'exchange'].includes(role(run, i));

// --- a run, sorted for drawing --------------------------------------------------------------------

// Those that overlap in time stand in sub-rows above each other: [task, row, rows] in order of start.
function stacked(run, ids) {
  const out = [];
  let first = 0, until = -1, ends = [];
  const close = () => { for (; first < out.length; ++first) out[first][2] = ends.length; ends = []; };
  for (const id of ids) {
    if (run.start[id] >= until) close();
    let row = ends.findIndex(e => e <= run.start[id]);
    if (row < 0) row = ends.length;
    ends[row] = run.end[id];
    until = Math.max(until, run.end[id]);
    out.push([id, row, 1]);
  }
  close();
  return out;
}

function prepare(run) {
  run.end = run.start.map((s, i) => s + run.took[i]);
  run.lanes = Array.from({length: run.workers}, () => ({compute: [], in: [], out: [], ends: []}));
  const order = run.start.map((_, i) => i).sort((a, b) => run.start[a] - run.start[b] || a - b);
  for (const i of order) {
    if (!run.took[i]) continue;
    const lane = run.lanes[run.worker[i]];
    for (const list of {send: [lane.out], receive: [lane.in], exchange: [lane.in, lane.out]}[role(run, i)] ||
                       [lane.compute]) list.push(i);
  }
  for (const lane of run.lanes) {
    lane.in = stacked(run, lane.in);
    lane.out = stacked(run, lane.out);
    lane.lastEnd = lane.compute.reduce((m, i) => Math.max(m, run.end[i]), 0);
    lane.longest = longest(run, lane);
    let done = 0;
    for (const i of lane.compute) { run.waits ||= run.start[i] > done; done = Math.max(done, run.end[i]); }
    run.ends ||= lane.lastEnd < run.makespan;
  }
  run.spanOf = new Map(run.spans.map(s => [s[0], s]));
  run.partOf = new Map(run.parts.map(p => [p[0], p]));
  run.exchangeOf = new Map();  // by member
  for (const e of run.exchanges)
    for (let i = e[0]; i < e[0] + e[1]; ++i) run.exchangeOf.set(i, e);
  run.onPath = new Set(run.path.filter(p => p[2] > p[1]).map(p => p[0]));
  run.moves = run.lanes.some(l => l.in.length || l.out.length);
}
// The longest task of each lane: how far to look back for one that began before what is visible.
const longest = (run, lane) => ({
  compute: lane.compute.reduce((m, i) => Math.max(m, run.took[i]), 0),
  in: lane.in.reduce((m, s) => Math.max(m, run.took[s[0]]), 0),
  out: lane.out.reduce((m, s) => Math.max(m, run.took[s[0]]), 0)});

// Who needs a task: built when first asked.
function neededBy(run, id) {
  if (!run.dependents) {
    run.dependents = new Map();
    run.needs.forEach((list, i) => list.forEach(n => {
      if (!run.dependents.has(n)) run.dependents.set(n, []);
      run.dependents.get(n).push(i);
    }));
  }
  return run.dependents.get(id) || [];
}

// --- what is shown --------------------------------------------------------------------------------

let at = 0;                       // which run
let run = null;
let from = 0, to = 1, scroll = 0; // visible time, and pixels scrolled down
let selected = -1, hovered = -1, related = null;
let found = null, foundAt = -1;     // tasks that were searched, and which of them is selected
let span = null;                  // measured: from and to, ps
let below = false, paneTop = 0, paneHeight = 0;  // all runs below each other; where this one is
let showPath = true, dark = matchMedia('(prefers-color-scheme: dark)').matches;
let colours = {}, stripes = null, dots = null, frames = 0;

const width = () => canvas.clientWidth - LEFT - RIGHT;
const x = ps => LEFT + (ps - from) / (to - from) * width();
const time = px => from + (px - LEFT) / width() * (to - from);
function rows() {
  const space = paneHeight - TOP - BOTTOM;
  const pitch = Math.max(7, Math.min(64, space / run.workers));
  const lanes = run.moves && pitch >= 16;
  const compute = lanes ? pitch * 0.54 : pitch * 0.78;
  const lane = lanes ? (pitch * 0.9 - compute) / 2 - 1 : 0;
  return {pitch, compute, lane, total: pitch * run.workers, space};
}
const top_ = (r, worker) => paneTop + TOP + worker * r.pitch - scroll;
// What is drawn or asked from here on is of this run, in its place on the page.
function enter(which) {
  const shown = below ? runs.length : 1;
  run = runs[at = which];
  if (!run.lanes) prepare(run);
  const head = below || isIncomplete() ? HEAD : 0;
  paneHeight = canvas.clientHeight / shown - head;
  paneTop = (below ? which * (paneHeight + head) : 0) + head;
}

const isIncomplete = () => run.facts.startsWith('INCOMPLETE');

function clamp() {
  const span = Math.min(Math.max(to - from, 1), whole() * 1.2);
  const middle = (from + to) / 2;
  from = middle - span / 2;
  to = middle + span / 2;
  const low = -0.1 * whole(), high = 1.1 * whole();
  if (from < low) { to += low - from; from = low; }
  if (to > high) { from -= to - high; to = high; }
  const r = rows();
  scroll = Math.max(0, Math.min(scroll, r.total - r.space));
}
// Runs of about the same length share one time scale, so that they can be compared.
const longestRun = Math.max(...runs.map(r => r.makespan)), shortestRun = Math.min(...runs.map(r => r.makespan));
let sameScale = runs.length > 1 && longestRun <= 4 * shortestRun;
const whole = () => sameScale || below ? longestRun : run.makespan;
function fit() { from = 0; to = whole(); scroll = 0; redraw(); }
function zoom(factor, px) {
  const t = time(px);
  from = t - (t - from) * factor;
  to = t + (to - t) * factor;
  redraw();
}
function show(which) {
  const all = !run || (from === 0 && to === whole());
  enter(which);
  selected = hovered = -1;
  related = null;
  search();
  tell();
  if (all) fit(); else redraw();
}
// The words around the chart, of what it shows. Runs below each other have their figures beside their names.
function tell() {
  const shown = below ? runs : [run], once = list => [...new Set(list)].join(' and ');
  $('title').textContent = once(shown.map(r => r.title));
  $('problem').textContent = once(shown.map(r => r.problem));
  $('facts').textContent = below ? '' : run.facts;
  for (const b of $('runs').children)
    if (b.dataset.run) b.setAttribute('aria-pressed', b.dataset.run === String(at));
  legend();
  tip.hidden = true;
}

// --- drawing --------------------------------------------------------------------------------------

function style() {
  document.documentElement.classList.toggle('dark', dark);
  $('theme').textContent = dark ? 'light' : 'dark';
  const css = getComputedStyle(document.documentElement);
  for (const name of ['paper', 'ink', 'pale', 'rule', 'wait', 'dot', 'overhead', 'stripe', 'line'])
    colours[name] = css.getPropertyValue('--' + name).trim();
  stripes = pattern(8, p => {
    p.strokeStyle = colours.stripe;
    p.lineWidth = 2;
    for (const d of [-8, 0, 8]) { p.moveTo(d - 1, 9); p.lineTo(d + 9, -1); }
    p.stroke();
  });
  dots = pattern(4, p => { p.fillStyle = colours.dot; p.fillRect(1, 1, 1, 1); });
}
function pattern(size, draw) {
  const c = document.createElement('canvas');
  c.width = c.height = size;
  draw(c.getContext('2d'));
  return screen_.createPattern(c, 'repeat');
}
const cargo = makes => run.cargo[makes];
const lightness = c => parseInt(c.slice(1, 3), 16) * 0.299 + parseInt(c.slice(3, 5), 16) * 0.587 +
                       parseInt(c.slice(5, 7), 16) * 0.114;
const BLOCK = 1e6;  // ps; times on the machine ideal count blocks
function duration(ps) {
  if (run.unit === 'blocks') return Number((ps / BLOCK).toPrecision(4)) + (ps === BLOCK ? ' block' : ' blocks');
  for (const [unit, size] of [['s', 1e12], ['ms', 1e9], ['µs', 1e6], ['ns', 1e3]])
    if (Math.abs(ps) >= size) return Number((ps / size).toPrecision(4)) + ' ' + unit;
  return Math.round(ps) + ' ps';
}
const quantity = (n, step, units) => {
  let u = 0;
  while (n >= step && u + 1 < units.length) { n /= step; ++u; }
  return (u ? n.toFixed(1) : n) + ' ' + units[u];
};

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
// The first of a list sorted by start that can still be visible.
function firstVisible(list, startOf, longest) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (startOf(list[middle]) + longest < from) low = middle + 1; else high = middle;
  }
  return low;
}
const faded = id => found ? !found.has(id) : related && at === selectedRun ? !related.has(id) : false;

function draw() {
  ++frames;
  const scale = devicePixelRatio || 1;
  const w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
  }
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.fillStyle = colours.paper;
  ctx.fillRect(0, 0, w, h);
  const current = at;
  for (let which = 0; which < runs.length; ++which)
    if (below || which === current) { enter(which); drawRun(w, which === current); }
  enter(current);
  drawSpan(h);
}
function drawRun(w, current) {
  const h = paneTop + paneHeight;
  const marked = [found, selected, hovered];
  if (current) clamp(); else hovered = -1;
  if (at !== selectedRun) selected = -1;
  found = run.found || null;
  const r = rows();
  const first = Math.max(0, Math.floor(scroll / r.pitch));
  const last = Math.min(run.workers, Math.ceil((scroll + r.space) / r.pitch));
  drawAxis(h);
  ctx.save();
  ctx.beginPath();
  ctx.rect(LEFT - 1, paneTop + TOP, w - LEFT - RIGHT + 2, paneHeight - TOP);
  ctx.clip();
  drawExchanges(r);
  for (let worker = first; worker < last; ++worker) drawWorker(worker, r);
  if (showPath) drawPath(r);
  if (selected >= 0) drawDependencies(r);
  ctx.restore();
  drawNames(first, last, r);
  drawScrollbar(r, w);
  if (below || isIncomplete()) drawHead(w, current);
  [found, selected, hovered] = marked;
}
// The name and the figures of a run, above its axis. The heading of the page is not part of a saved picture.
function drawHead(w, current) {
  ctx.fillStyle = colours.paper;
  ctx.fillRect(0, paneTop - HEAD, w, HEAD);
  ctx.fillStyle = colours.ink;
  ctx.font = (current ? 'bold ' : '') + '12px Helvetica, Arial, sans-serif';
  ctx.textAlign = 'left';
  let text = isIncomplete() ? run.facts : `${run.name}: ${run.facts}`;
  while (text.length > 9 && ctx.measureText(text).width > w - 8 - RIGHT) text = text.slice(0, -8) + '...';
  ctx.fillText(text, 8, paneTop - 5);
}
// What was measured: a pale band, and how long it is.
function drawSpan(h) {
  if (!span) return;
  const top = TOP + (below || isIncomplete() ? HEAD : 0);
  const x0 = x(Math.min(...span)), x1 = x(Math.max(...span));
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = colours.line;
  ctx.fillRect(x0, top, x1 - x0, h - top);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.line;
  for (const px of [x0, x1]) ctx.fillRect(px - 0.5, top - 6, 1, h - top + 6);
  const text = measured();
  ctx.font = 'bold 12px Helvetica, Arial, sans-serif';
  ctx.textAlign = 'center';
  const tw = ctx.measureText(text).width, middle = Math.max(LEFT + tw / 2, Math.min(canvas.clientWidth - tw / 2 - 4, (x0 + x1) / 2));
  ctx.fillStyle = colours.paper;
  ctx.fillRect(middle - tw / 2 - 4, top - 20, tw + 8, 16);
  ctx.fillStyle = colours.ink;
  ctx.fillText(text, middle, top - 8);
}
function measured() {
  if (!span) return '';
  const ps = Math.abs(span[1] - span[0]);
  return `${duration(ps)} (${Number((ps / run.makespan * 100).toPrecision(3))}% of the makespan)`;
}

function drawAxis(h) {
  const wanted = (to - from) / Math.max(1, width() / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= wanted);
  const [unit, size] = run.unit === 'blocks' ? ['blocks', BLOCK] :
      [['s', 1e12], ['ms', 1e9], ['µs', 1e6], ['ns', 1e3], ['ps', 1]].find(u => run.makespan >= u[1]) || ['ps', 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  ctx.font = '11px Helvetica, Arial, sans-serif';
  ctx.textAlign = 'center';
  for (let k = Math.ceil(from / step); k * step <= to; ++k) {
    const px = x(k * step);
    ctx.fillStyle = colours.rule;
    ctx.fillRect(px, paneTop + TOP - 4, 1, h - paneTop - TOP + 4);
    ctx.fillStyle = colours.pale;
    ctx.fillText((k * step / size).toFixed(digits) + (k === Math.ceil(from / step) ? ' ' + unit : ''), px, paneTop + 14);
  }
}

function drawWorker(worker, r) {
  const lane = run.lanes[worker], y = top_(r, worker);
  const long = lane.longest;
  // Waiting, under everything: from the first visible task on.
  let until = -1, kind = null;
  const begin = firstVisible(lane.compute, i => run.start[i], long.compute);
  let done = begin > 0 ? run.end[lane.compute[begin - 1]] : 0;
  ctx.font = Math.min(12, r.compute * 0.62) + 'px Helvetica, Arial, sans-serif';
  ctx.textAlign = 'center';
  for (let k = begin; k < lane.compute.length; ++k) {
    const i = lane.compute[k];
    if (done > to) break;
    if (run.start[i] > done) drawWaiting(x(done), x(run.start[i]), y, r.compute);
    done = Math.max(done, run.end[i]);
    if (run.start[i] > to) break;
    const attends = isAttend(i);
    const x0 = x(run.start[i]), x1 = x(run.end[i]);
    const look = attends ? run.queries[i] : -1;
    if (x1 - x0 < 0.6 && x1 < until && (look === kind || look < 0)) continue;  // nothing new to see
    until = Math.max(x1, x0 + 0.6);
    kind = look;
    drawBar(i, worker, attends, x0, x1, y, r.compute);
  }
  if (lane.lastEnd < to && lane.lastEnd < run.makespan) {  // out of work: a line, and no colour
    ctx.fillStyle = colours.rule;
    for (let px = Math.max(LEFT, x(lane.lastEnd)) + 3; px < x(run.makespan); px += 6)
      ctx.fillRect(px, y + r.compute / 2, 3, 1);
  }
  if (!r.lane) return;
  drawMessages(lane.in, long.in, y + r.compute + 1, r.lane);
  drawMessages(lane.out, long.out, y + r.compute + r.lane + 2, r.lane);
}

function drawWaiting(x0, x1, y, height) {
  if (x1 - x0 < 0.3) return;
  x0 = Math.max(x0, LEFT - 2);
  x1 = Math.min(x1, canvas.clientWidth);
  ctx.fillStyle = colours.wait;
  ctx.fillRect(x0, y, x1 - x0, height);
  if (height < 9) return;
  ctx.fillStyle = dots;
  ctx.fillRect(x0, y, x1 - x0, height);
}

function drawBar(i, worker, attends, x0, x1, y, height) {
  const w = Math.max(x1 - x0 - (x1 - x0 > 4 ? 0.8 : 0), 0.6);
  const fill = attends ? run.colours[run.queries[i]] : colours.overhead;
  ctx.globalAlpha = faded(i) ? 0.22 : 1;
  ctx.fillStyle = fill;
  ctx.fillRect(x0, y, w, height);
  if (attends && run.queries[i] !== worker && w > 3) {
    ctx.fillStyle = stripes;
    ctx.fillRect(x0, y, w, height);
  }
  const left = Math.max(x0, LEFT), room = Math.min(x1, canvas.clientWidth - RIGHT) - left;
  if (attends && height >= 10 && room > 34) {
    const text = name(i), tw = ctx.measureText(text).width;
    if (tw + 8 < room) {
      const middle = left + room / 2;
      if (run.queries[i] !== worker && !faded(i)) {  // words on stripes are hard to read
        ctx.fillStyle = fill;
        ctx.fillRect(middle - tw / 2 - 3, y + 2, tw + 6, height - 4);
      }
      ctx.fillStyle = faded(i) ? colours.pale : lightness(fill) > 110 ? '#1a1a1a' : '#fff';
      if (faded(i)) ctx.globalAlpha = 0.7;
      ctx.fillText(text, middle, y + height / 2 + Math.min(12, height * 0.62) * 0.36);
    }
  }
  if ((showPath && run.onPath.has(i) && w > 2) || i === selected || i === hovered) {
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = i === selected ? 3 : height < 10 ? 1 : 2;
    ctx.strokeRect(x0 + 1, y + 1, Math.max(w - 2, 0.5), height - 2);
  }
  ctx.globalAlpha = 1;
}

// A pale band between the members of an exchange, behind the rows; a line past the rows of others.
function drawExchanges(r) {
  if (!r.lane) return;
  for (const [first, members] of run.exchanges) {
    const ids = Array.from({length: members}, (_, k) => first + k).sort((a, b) => run.worker[a] - run.worker[b]);
    const start = Math.max(...ids.map(i => run.from[i])), end = Math.max(...ids.map(i => run.until[i]));
    if (end <= start || end < from || start > to) continue;
    const x0 = x(start), x1 = x(end), line = Math.min(x0 + 2 + 3 * (run.worker[ids[0]] % 8), (x0 + x1) / 2);
    ctx.fillStyle = cargo(run.makes[first]);
    ctx.globalAlpha = ids.some(faded) ? 0.22 : 1;
    for (const i of ids)  // both lanes are one bar
      ctx.fillRect(x0, top_(r, run.worker[i]) + r.compute + 1 + r.lane * 0.8, x1 - x0, r.lane * 0.3 + 1);
    for (let k = 1; k < members; ++k) {
      const a = run.worker[ids[k - 1]], b = run.worker[ids[k]], next = b === a + 1;
      const y0 = top_(r, a) + r.compute + 2 * r.lane + 2, y1 = top_(r, b) + r.compute + 1;
      ctx.globalAlpha = (next ? 0.35 : 1) * (ids.some(faded) ? 0.22 : 1);
      ctx.fillRect(next ? x0 : line, y0, next ? x1 - x0 : 1.2, y1 - y0);
    }
  }
  ctx.globalAlpha = 1;
}

function drawMessages(list, long, y, height) {
  let until = -1, makes = -1, row = -1;
  for (let k = firstVisible(list, s => run.start[s[0]], long); k < list.length; ++k) {
    const [i, sub, subs] = list[k];
    if (run.start[i] > to) break;
    const x0 = x(run.start[i]), moving = x(run.from[i]), moved = x(run.until[i]), x1 = x(run.end[i]);
    if (x1 - x0 < 0.6 && x1 < until && makes === run.makes[i] && row === sub) continue;
    until = Math.max(x1, x0 + 0.6); makes = run.makes[i]; row = sub;
    const tall = height / subs, top = y + sub * tall;
    ctx.globalAlpha = faded(i) ? 0.22 : 1;
    ctx.fillStyle = cargo(run.makes[i]);
    if (moving - x0 > 1) ctx.fillRect(x0, top + tall / 2, moving - x0, Math.min(1, tall));  // not moving yet
    if (x1 - moved > 1) ctx.fillRect(moved, top + tall / 2, x1 - moved, Math.min(1, tall));  // its group goes on
    // Queries are striped, as helping is, and results half as tall.
    const load = run.loads[run.makes[i]], thin = load === 'result' ? 0.5 : 1;
    const bar = [moving, top + tall * 0.45 * (1 - thin), Math.max(moved - moving, 0.6), tall * 0.9 * thin];
    ctx.fillRect(...bar);
    if (load === 'query') {
      ctx.fillStyle = stripes;
      ctx.fillRect(...bar);
    }
    if (i === selected || i === hovered || (isExchange(i) && showPath && run.onPath.has(i))) {
      ctx.strokeStyle = colours.line;
      ctx.lineWidth = 1.5;
      ctx.strokeRect(x0, top, Math.max(x1 - x0, 1), tall * 0.9);
    }
    ctx.globalAlpha = 1;
  }
}

// Where a task stands: its box on the canvas.
function place(i) {
  const r = rows(), y = top_(r, run.worker[i]);
  const box = {x0: x(run.start[i]), x1: x(run.end[i]), y0: y, y1: y + r.compute};
  if (isExchange(i) && r.lane) {
    box.y0 = y + r.compute + 1;
    box.y1 = box.y0 + 2 * r.lane + 1;
  } else if (isTransfer(i) && r.lane) {
    const out = role(run, i) === 'send';
    const found = run.lanes[run.worker[i]][out ? 'out' : 'in'].find(s => s[0] === i) || [i, 0, 1];
    box.y0 = y + r.compute + 1 + (out ? r.lane + 1 : 0) + r.lane / found[2] * found[1];
    box.y1 = box.y0 + r.lane / found[2] * 0.9;
  }
  return box;
}

function arrow(x0, y0, x1, y1, colour, thick) {
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = thick;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
  ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 4, y1);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 7, y1 - 4);
  ctx.lineTo(x1 - 7, y1 + 4);
  ctx.fill();
}
function drawPath(r) {
  if (!r.lane) return;
  for (const [leaves, arrives, start, end] of run.hops) {
    if (end < from || start > to) continue;
    const a = place(leaves), b = place(arrives);
    arrow(x(start), (a.y0 + a.y1) / 2, x(end), (b.y0 + b.y1) / 2, colours.line, 1);
  }
}
function drawDependencies() {
  const here = place(selected);
  const mid = b => (b.y0 + b.y1) / 2;
  for (const n of run.needs[selected] || []) {
    const b = place(n);
    arrow(b.x1, mid(b), here.x0, mid(here), '#d1495b', 2);
  }
  for (const n of neededBy(run, selected)) {
    const b = place(n);
    arrow(here.x1, mid(here), b.x0, mid(b), '#2a9d8f', 2);
  }
}

function drawNames(first, last, r) {
  ctx.fillStyle = colours.paper;
  ctx.fillRect(0, paneTop + TOP, LEFT - 1, paneHeight - TOP);
  const size = Math.min(13, Math.max(9, r.pitch * 0.5));
  const every = Math.max(1, Math.ceil((size + 2) / r.pitch));
  ctx.font = size + 'px Helvetica, Arial, sans-serif';
  ctx.textAlign = 'left';
  for (let worker = first; worker < last; ++worker) {
    const y = top_(r, worker);
    ctx.fillStyle = run.colours[worker];
    ctx.fillRect(8, y, 8, r.compute);
    if (worker % every) continue;
    ctx.fillStyle = colours.ink;
    ctx.fillText('worker ' + worker, 22, y + r.compute / 2 + size * 0.36);
  }
}
function drawScrollbar(r, w) {
  if (r.total <= r.space) return;
  ctx.fillStyle = colours.rule;
  ctx.fillRect(w - 9, paneTop + TOP, 5, r.space);
  ctx.fillStyle = colours.pale;
  ctx.fillRect(w - 9, paneTop + TOP + scroll / r.total * r.space, 5, Math.max(12, r.space / r.total * r.space));
}

// The signs of this run, as pairs of a style and words.
function signs() {
  const has = test => run.kind.some((_, i) => run.took[i] && test(i));
  const stripe = 'repeating-linear-gradient(135deg, transparent 0 4px, var(--stripe) 4px 7px), ';
  const several = i => run.spanOf.has(i) && !/^\d+$/.test(run.spanOf.get(i)[1]);
  const ownHeads = has(i => isAttend(i) && several(i)), ownQueries = has(i => isAttend(i) && !several(i));
  const items = [[`background:${run.colours[0]}`,
                  run.decodes ? 'attend: new tokens' : 'attend: own ' + (ownHeads ? (ownQueries ? 'queries or heads' : 'heads') : 'queries')]];
  if (has(i => isAttend(i) && run.queries[i] !== run.worker[i]))
    items.push([`background:${stripe}${run.colours[run.workers > 1 ? 1 : 0]}`, "help: another worker's queries"]);
  if (has(i => !isAttend(i) && !isTransfer(i)))
    items.push(['background:var(--overhead)', 'merge and other overhead']);
  if (run.waits) items.push(['background:radial-gradient(var(--dot) 1px, transparent 1px) 0 0/4px 4px, var(--wait)', 'wait']);
  if (run.ends) items.push(['height:0;border-top:1px dashed var(--pale);vertical-align:4px', 'done']);
  const moved = new Map();  // what comes in, and its colour
  for (const i of run.kind.keys())
    if (['receive', 'exchange'].includes(role(run, i)) && run.took[i]) moved.set(run.loads[run.makes[i]], cargo(run.makes[i]));
  const messages = has(i => isTransfer(i) && !isExchange(i));
  let where = messages ? ' transfer (top: receive, bottom: send)' : ' transfer';  // only in the first entry
  for (const [load, text] of [['keys', 'K/V'], ['query', 'query'], ['result', 'result']])
    if (moved.has(load)) {
      items.push([`height:${load === 'result' ? 3 : 6}px;vertical-align:${load === 'result' ? 4 : 2}px;` +
                  `background:${load === 'query' ? stripe : ''}${moved.get(load)}`, text + where]);
      where = '';
    }
  if (has(isExchange))
    items.push([`background:linear-gradient(${[...moved.values()][0]} 3px, transparent 3px 8px, ${[...moved.values()][0]} 8px)`,
                'exchange among the joined workers']);
  if (has(i => isTransfer(i) && (run.from[i] > run.start[i] || run.until[i] < run.end[i])))
    items.push(['height:1px;vertical-align:4px;background:var(--pale)',
                messages ? 'waiting for the other side' : 'waiting for the other workers']);
  if (run.path.length) items.push(['border:2px solid var(--line)', 'critical path']);
  return items;
}
// Of all runs that are shown.
function legend() {
  const current = at, items = new Map();
  for (let which = 0; which < runs.length; ++which)
    if (below || which === current) {
      enter(which);
      for (const sign of signs()) {
        const what = sign[1].split(' transfer (')[0];  // that is said of the first message
        if (!items.has(what)) items.set(what, sign);
      }
    }
  enter(current);
  $('legend').replaceChildren(...[...items.values()].map(([css, text]) => {
    const span = document.createElement('span'), icon = document.createElement('i');
    icon.style.cssText = css;
    span.append(icon, text);
    return span;
  }));
}

// --- what a task is, in words ---------------------------------------------------------------------

function name(i) {
  if (isExchange(i)) return `${run.exchangeOf.get(i)[2]} ${run.symbols[run.makes[i]]}`;
  const [, q, o, heads] = run.spanOf.get(i) || [i, run.queries[i], run.other[i], ''], h = heads && ' h' + heads;
  const [, qPart, kPart] = run.partOf.get(i) || [i, '', ''];
  const what = `${run.kinds[run.kind[i]]} ${run.symbols[run.makes[i]]}${q}${qPart}${h}`;
  if (isAttend(i)) return run.decodes ? `k${o}${kPart}${h}` : `${role(run, i) === 'backward' ? 'd' : ''}q${q}${qPart} k${o}${kPart}${h}`;
  return isTransfer(i) ? `${what} ${role(run, i) === 'send' ? 'to' : 'from'} ${o}` : what;
}
function describe(i) {
  const lines = [name(i)];
  lines.push(`worker ${run.worker[i]}, step ${run.step[i]}, task ${i}`);
  const [, q, o, heads] = run.spanOf.get(i) || [i, String(run.queries[i]), String(run.other[i]), ''];
  const [, qPart, kPart] = run.partOf.get(i) || [i, '', ''];
  const of = (list, part) => (part && `part ${part.replace('.', '')} of `) + (/^\d+$/.test(list) ? 'worker ' : 'workers ') + list;
  if (isAttend(i))
    lines.push(`${run.decodes ? 'the new tokens' : `queries of ${of(q, qPart)}`}, keys of ${of(o, kPart)}` + (run.queries[i] !== run.worker[i] ? ': helping' : ''));
  if (heads) lines.push((heads.includes('-') ? 'heads ' : 'head ') + heads);
  if (isExchange(i)) lines.push(`among ${run.exchangeOf.get(i)[1]} workers`);
  if (run.pairs) {
    if (isAttend(i)) lines.push(quantity(run.pairs[i], 1000, ['pairs', 'thousand pairs', 'million pairs', 'billion pairs']) + ' of one head');
    if (run.bytes[i]) lines.push(quantity(run.bytes[i], 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']) + (isExchange(i) ? ' got, its own included' : isTransfer(i) ? ' carried' : ' made'));
  }
  lines.push(`${duration(run.start[i])} to ${duration(run.end[i])}: ${duration(run.took[i])}`);
  const waited = run.from[i] - run.start[i];
  if (isTransfer(i) && waited > 0)
    lines.push(`waited ${duration(waited)} for ${isExchange(i) ? 'the others' : 'worker ' + run.other[i]}, then moved for ${duration(run.end[i] - run.from[i])}`);
  if (run.cause) lines.push(why(i));
  if (run.onPath.has(i)) lines.push('on the critical path');
  return lines;
}
function why(i) {
  const b = run.because[i];
  const other = b >= 0 ? `task ${b} (${name(b)}${run.worker[b] !== run.worker[i] ? ', worker ' + run.worker[b] : ''})` : '';
  switch (run.causes[run.cause[i]]) {
    case 'data': return `started when its data arrived: after ${other}`;
    case 'lane': return `started when its lane was free: after ${other}`;
    case 'buffers': return `started when a buffer was free: after ${other}`;
    case 'kernel': return `started when a kernel released the SMs or the core: ${other}`;
    case 'host': return 'started when the host had issued it';
    default: return 'started at once';
  }
}

// The task under a pixel: the shortest of those there.
function taskAt(px, py) {
  const r = rows();
  const worker = Math.floor((py - paneTop - TOP + scroll) / r.pitch);
  if (px < LEFT || py < paneTop + TOP || worker < 0 || worker >= run.workers) return -1;
  const lane = run.lanes[worker], inRow = py - top_(r, worker), t = time(px), reach = 2 / width() * (to - from);
  let list = lane.compute, long = lane.longest.compute, pick = i => i;
  if (r.lane && inRow > r.compute) {
    const out = inRow > r.compute + r.lane + 1.5;
    list = (out ? lane.out : lane.in).filter(s => {
      const sub = (inRow - r.compute - 1 - (out ? r.lane + 1 : 0)) / (r.lane / s[2]);
      return sub >= s[1] - 0.2 && sub < s[1] + 1.1;
    });
    long = out ? lane.longest.out : lane.longest.in;
    pick = s => s[0];
  } else if (inRow > r.compute) {
    return -1;
  }
  let best = -1;
  let low = 0, high = list.length;
  while (low < high) {
    const m = (low + high) >> 1;
    if (run.start[pick(list[m])] + long < t - reach) low = m + 1; else high = m;
  }
  for (let k = low; k < list.length && run.start[pick(list[k])] <= t + reach; ++k) {
    const i = pick(list[k]);
    const exact = run.start[i] <= t && t < run.end[i];
    const near = run.end[i] >= t - reach && run.took[i] < 4 * reach;
    if ((exact || near) && (best < 0 || run.took[i] < run.took[best])) best = i;
  }
  return best;
}
let selectedRun = 0;
function select(i) {
  selected = i;
  selectedRun = at;
  related = i < 0 ? null : new Set([i, ...(run.needs[i] || []), ...neededBy(run, i)]);
  redraw();
}
// Of several runs, the one under the pointer is the current one.
function point(py) {
  if (!below) return;
  const which = Math.max(0, Math.min(runs.length - 1, Math.floor(py / (canvas.clientHeight / runs.length))));
  if (which === at) return;
  enter(which);
  hovered = -1;
  found = run.found || null;
  tell();
  redraw();
}
function hover(px, py, clientX, clientY) {
  point(py);
  const i = taskAt(px, py);
  if (i !== hovered) { hovered = i; redraw(); }
  tip.hidden = i < 0;
  if (i < 0) return;
  const [head, ...rest] = describe(i);
  const b = document.createElement('b');
  b.textContent = head;
  tip.replaceChildren(b, ...rest.flatMap((line, k) => k ? [document.createElement('br'), line] : [line]));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(clientX + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = Math.max(4, clientY + 18 + box.height > innerHeight ? clientY - box.height - 10 : clientY + 18) + 'px';
}

// --- finding tasks, and measuring -----------------------------------------------------------------

// The tasks whose words have all that was asked for: "q3", "merge", "worker 2", "step 1".
function matches() {
  const wanted = $('find').value.toLowerCase().trim();
  if (!wanted) return null;
  run.texts ||= run.kind.map((_, i) => `${name(i)}, worker ${run.worker[i]}, step ${run.step[i]}, task ${i},`.toLowerCase());
  // A number ends where it is asked to: "worker 1" is not worker 12.
  const parts = wanted.split(/\s*,\s*/).filter(p => p)
      .map(p => new RegExp('(^|[^a-z0-9])' + p.replace(/[^a-z0-9 ]/g, '\\$&') + (/\d$/.test(p) ? '(?![0-9])' : '')));
  return new Set([...run.kind.keys()].filter(i => run.took[i] && parts.every(p => p.test(run.texts[i]))));
}
function search() {
  const current = at;
  for (let which = 0; which < runs.length; ++which)
    if (which === current || runs.length <= 4) { enter(which); run.found = matches(); }
  enter(current);
  found = run.found;
  foundAt = -1;
  $('found').textContent = found ? `${found.size} of ${run.kind.filter((_, i) => run.took[i]).length} tasks` : '';
  redraw();
}
// The next task that was found, in order of time; the view moves to it.
function next(back) {
  if (!found || !found.size) return;
  const order = [...found].sort((a, b) => run.start[a] - run.start[b] || a - b);
  foundAt = (foundAt + (back ? order.length - 1 : 1) + (foundAt < 0 && back ? 1 : 0)) % order.length;
  const i = order[foundAt], wide = to - from;
  select(i);
  if (run.start[i] < from || run.end[i] > to) {
    from = (run.start[i] + run.end[i] - wide) / 2;
    to = from + wide;
  }
  const r = rows(), y = run.worker[i] * r.pitch;
  if (y < scroll || y + r.pitch > scroll + r.space) scroll = y - r.space / 2;
  $('found').textContent = `${foundAt + 1} of ${order.length}: ${name(i)}, worker ${run.worker[i]}, ${duration(run.took[i])}`;
  redraw();
}
// The begin or end of a task nearby in this row, or where the pointer is.
function snapped(px, py) {
  const r = rows(), worker = Math.floor((py - paneTop - TOP + scroll) / r.pitch), lane = run.lanes[worker];
  let best = Math.max(0, Math.min(run.makespan, time(px))), near = 6;
  for (const i of lane ? lane.compute : [])
    for (const t of [run.start[i], run.end[i]])
      if (Math.abs(x(t) - px) < near) { near = Math.abs(x(t) - px); best = t; }
  return best;
}

// --- saving ---------------------------------------------------------------------------------------

function asSvg() {
  const stripe = `<path d="M-1 9L9 -1M-9 9L1 -1M7 9L17 -1" stroke="${colours.stripe}" stroke-width="2"/>`;
  const defs = `<pattern id="stripes" width="8" height="8" patternUnits="userSpaceOnUse">${stripe}</pattern>` +
      `<pattern id="dots" width="4" height="4" patternUnits="userSpaceOnUse"><rect x="1" y="1" width="1" height="1" fill="${colours.dot}"/></pattern>`;
  const paper = new SvgCanvas(screen_, new Map([[stripes, 'stripes'], [dots, 'dots']]), defs);
  ctx = paper;
  draw();
  ctx = screen_;
  redraw();
  return paper.svg(canvas.clientWidth, canvas.clientHeight, below ? $('title').textContent : `${run.title}: ${run.facts}`);
}
function save() {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([asSvg()], {type: 'image/svg+xml'}));
  link.download = run.name.replace(/[^A-Za-z0-9.-]+/g, '-').slice(0, 60) + '.svg';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// --- the pointer and the keyboard -----------------------------------------------------------------

let drag = null;
const inside = e => { const b = canvas.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
canvas.addEventListener('wheel', e => {
  e.preventDefault();
  const [px] = inside(e), move = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.deltaY;
  if (e.shiftKey) { scroll += move; redraw(); }
  else zoom(Math.exp(Math.max(-1, Math.min(1, move / 400))), Math.max(LEFT, px));
  tip.hidden = true;
}, {passive: false});
canvas.addEventListener('pointerdown', e => {
  const [px, py] = inside(e);
  point(py);
  const measures = px >= LEFT && (e.shiftKey || py < paneTop + TOP);
  drag = {x: e.clientX, y: e.clientY, from, to, scroll, moved: false, measures};
  if (measures) { const t = snapped(px, py); span = [t, t]; redraw(); }
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener('pointermove', e => {
  if (!drag) { const [px, py] = inside(e); hover(px, py, e.clientX, e.clientY); return; }
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
  if (!drag.moved) return;
  if (drag.measures) { span[1] = snapped(...inside(e)); tip.hidden = true; redraw(); return; }
  const shift = dx / width() * (drag.to - drag.from);
  from = drag.from - shift;
  to = drag.to - shift;
  scroll = drag.scroll - dy;
  tip.hidden = true;
  redraw();
});
canvas.addEventListener('pointerup', e => {
  if (drag && drag.measures) { if (span[0] === span[1]) span = null; redraw(); }
  else if (drag && !drag.moved) { const [px, py] = inside(e); select(taskAt(px, py)); }
  drag = null;
});
canvas.addEventListener('pointerleave', () => { hovered = -1; tip.hidden = true; redraw(); });
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === $('find')) {
    if (e.key === 'Enter') next(e.shiftKey);
    if (e.key === 'Escape') { $('find').value = ''; search(); select(-1); $('find').blur(); }
    return;
  }
  const wide = to - from, middle = LEFT + width() / 2;
  const keys = {
    ArrowLeft: () => { from -= wide / 8; to -= wide / 8; }, ArrowRight: () => { from += wide / 8; to += wide / 8; },
    ArrowUp: () => { scroll -= 60; }, ArrowDown: () => { scroll += 60; },
    '+': () => zoom(0.8, middle), '=': () => zoom(0.8, middle), '-': () => zoom(1.25, middle), '0': fit,
    p: togglePath, b: toggleStack, '?': toggleHelp, '/': () => $('find').focus(),
    Escape: () => { span = null; $('find').value = ''; search(); select(-1); }};
  if (keys[e.key]) { keys[e.key](); e.preventDefault(); redraw(); }
  else if (e.key >= '1' && e.key <= '9' && Number(e.key) <= runs.length) show(Number(e.key) - 1);
});
function togglePath() {
  showPath = !showPath;
  $('path').setAttribute('aria-pressed', showPath);
  redraw();
}
function toggleHelp() {
  $('keys').hidden = !$('keys').hidden;
  $('help').setAttribute('aria-pressed', !$('keys').hidden);
}
function toggleStack() {
  if (runs.length < 2) return;
  below = !below;
  $('stack').setAttribute('aria-pressed', below);
  enter(at);
  tell();
  fit();
}
$('path').onclick = togglePath;
$('help').onclick = toggleHelp;
$('save').onclick = save;
$('find').oninput = search;
$('fit').onclick = fit;
$('theme').onclick = () => { dark = !dark; style(); redraw(); };
if (runs.length > 1)
  $('runs').replaceChildren(...runs.map((r, i) => {
    const b = document.createElement('button');
    b.textContent = `${i + 1} ${r.name}`;
    b.dataset.run = i;
    b.onclick = () => show(i);
    return b;
  }), stackButton(), scaleButton());
function stackButton() {
  const b = document.createElement('button');
  b.id = 'stack';
  b.textContent = 'one below the other';
  b.setAttribute('aria-pressed', false);
  b.onclick = toggleStack;
  return b;
}
function scaleButton() {
  const b = document.createElement('button');
  b.textContent = 'same time scale';
  const tell = () => b.setAttribute('aria-pressed', sameScale);
  b.onclick = () => { sameScale = !sameScale; tell(); fit(); };
  tell();
  return b;
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', e => { dark = e.matches; style(); redraw(); });
new ResizeObserver(redraw).observe(canvas);

style();
show(0);

// For those who drive the page from a program: where a task is on the screen, and what is shown.
window.ringsched = {
  svg: asSvg,
  edges: i => { const b = canvas.getBoundingClientRect(), p = place(i);
    return {left: b.left + p.x0, right: b.left + p.x1, y: b.top + (p.y0 + p.y1) / 2}; },
  where: i => { const b = canvas.getBoundingClientRect(), p = place(i);
    return {x: b.left + (p.x0 + p.x1) / 2, y: b.top + (p.y0 + p.y1) / 2}; },
  state: () => ({run: at, from, to, scroll, selected, hovered, related: related ? [...related].sort((a, b) => a - b) : [],
    showPath, dark, sameScale, frames, stacked: below, found: found ? [...found] : null, span, measured: measured(), tip: tip.hidden ? '' : tip.innerText})};
})();
