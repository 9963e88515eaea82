// The data as the drawing needs them: what there is very much of in typed arrays.
const S = JSON.parse(byId("data").textContent);
const TH = {lane: 0, track: 1, from: 2, to: 3, set: 4, process: 5};
const CA = {thread: 0, of: 1, op: 2, from: 3, to: 4, outcome: 5, err: 6, until: 7, fence: 8, waits: 9};
const none = [];
for (const key of ["lanes", "resources", "sets", "threads", "calls", "attempts", "holds", "sections", "accesses", "losses", "lives", "faults", "violations"]) S[key] ||= none;
const END = Math.max(S.end, 1);
const text = n => S.texts[n];

// group lists, for each of n, the rows whose column names it.
function group(rows, column, n) {
  const start = new Int32Array(n + 1), items = new Int32Array(rows.length);
  for (const r of rows) if (r[column] >= 0) start[r[column] + 1]++;
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const at = start.slice();
  rows.forEach((r, i) => { if (r[column] >= 0) items[at[r[column]]++] = i; });
  return i => items.subarray(start[i], start[i + 1]);
}
const threads = S.threads.length;
const callsOf = group(S.calls, CA.of, threads), callsIn = group(S.calls, CA.thread, threads);
const holdsOf = group(S.holds, 0, threads), sectionsOf = group(S.sections, 0, threads);
const accessesOf = group(S.accesses, 0, threads), lossesOf = group(S.losses, 0, threads);
const attemptsOf = group(S.attempts, 0, S.calls.length);
const faultsOf = group(S.faults, 0, S.lanes.length), livesOf = group(S.lives, 0, S.lanes.length);

const from = Float64Array.from(S.threads, t => t[TH.from]), to = Float64Array.from(S.threads, t => t[TH.to]);
const held = new Float64Array(threads);
for (const h of S.holds) held[h[0]] += h[2] - h[1];

// The threads of a track follow each other: tracks[lane][track] is [first, beyond the last].
const tracks = S.lanes.map(l => Array.from({length: l.tracks || 0}, () => [0, 0]));
S.threads.forEach((t, i) => {
  const r = tracks[t[TH.lane]][t[TH.track]];
  if (r[1] === 0) r[0] = i;
  r[1] = i + 1;
});

// votesOf reads the votes of an attempt: the node's number, when, and what it said.
function votesOf(attempt) {
  const a = S.attempts[attempt], all = [];
  let at = 0;
  for (let n = 0; 2 * n + 2 < a.length; n++) {
    at += a[2 * n + 1];
    if (a[2 * n + 2]) all.push({node: n, at, says: text(a[2 * n + 2])});
  }
  return all;
}
const kindOf = says => says === "yes" ? 0 : says === "taken" ? 1 : 2;
const kindClass = ["good", "warn", "dim"];

// What each node said, in the order of time.
const nodeLanes = S.lanes.flatMap((l, i) => l.kind === "node" ? [i] : []);
const votesAt = nodeLanes.map(() => []);
S.attempts.forEach((a, i) => { for (const v of votesOf(i)) votesAt[v.node]?.push([v.at, kindOf(v.says), a[0]]); });
const ballots = votesAt.map(all => {
  all.sort((a, b) => a[0] - b[0]);
  return {at: Float64Array.from(all, v => v[0]), kind: Uint8Array.from(all, v => v[1]), call: Int32Array.from(all, v => v[2])};
});
votesAt.length = 0;

// lowerBound is the first index in [a, b) whose value is not below x.
function lowerBound(values, x, a = 0, b = values.length) {
  while (a < b) {
    const mid = (a + b) >> 1;
    if (values[mid] < x) a = mid + 1; else b = mid;
  }
  return a;
}

// What n and p go to: violations, and faults that are not at the same place.
const stops = [...S.violations.map((v, i) => ({kind: "v", i, from: v.from, to: v.to})),
  ...S.faults.map((f, i) => ({kind: "f", i, from: f[1], to: f[2] < 0 ? f[1] : f[2]}))].sort((a, b) => a.from - b.from);

// clock formats a time of the run; digits follow from what one can tell apart.
function clock(us, step = 1000) {
  const digits = Math.min(6, Math.max(0, Math.ceil(6 - Math.log10(Math.max(step, 1)) - 1e-9)));
  return (us / 1e6).toFixed(digits) + " s";
}
function span(us) {
  if (us < 0) return "−" + span(-us);
  if (us < 1000) return us.toFixed(0) + " µs";
  if (us < 1e5) return (us / 1000).toFixed(1) + " ms";
  if (us < 1e6) return (us / 1000).toFixed(0) + " ms";
  return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
}
// concerns says whether a thread may have to do with a violation.
const concerns = (i, v) => v.of < 0 || S.sets[S.threads[i][TH.set]].includes(v.of);
// about has the threads of each violation: those that were there, in its lanes, with its resource.
const about = S.violations.map(v => {
  const all = [];
  S.lanes.forEach((_, l) => {
    if (v.lanes.length && !v.lanes.includes(l)) return;
    for (const r of tracks[l]) for (let i = lowerBound(to, v.from, ...r); i < r[1] && from[i] <= v.to; i++) if (concerns(i, v)) all.push(i);
  });
  return all;
});
const namesOf = set => S.sets[set].map(r => S.resources[r]).join(", ");
// What is shown of the run: times on the screen, the layout of the lanes, what is selected and filtered.
const view = {t0: 0, t1: END * 1.005};
const MIN = 20, MAX = END * 1.005; // Microseconds on a screen.
let width = 0, gutter = 0, scale = 1; // Of the lanes, in CSS pixels; pixels for a microsecond.
const x = t => gutter + (t - view.t0) * scale;
const timeAt = px => view.t0 + (px - gutter) / scale;

let selected = -1, selectedFault = -1, selectedViolation = -1;
let aboutSelected = new Set(); // The threads of the violation that is selected: others are faint.
const chosen = new Set(); // Resources; none: all.
let sought = "";
let shown = new Uint8Array(S.sets.length).fill(1); // By set.
function filter() {
  const names = S.resources.map(r => r.toLowerCase().includes(sought));
  const match = r => chosen.size ? chosen.has(r) : names[r];
  shown = Uint8Array.from(S.sets, set => chosen.size || sought ? +set.some(match) : 1);
  overviewStale = true;
  redraw();
}

// A lane's place: y, h, and the height of its rows.
let places = [], height = 0, rowHeight = 20;
const HEAD = 15; // Above a client's rows, for its name.
function layout() {
  const total = S.lanes.reduce((n, l) => n + (l.tracks || 0), 0);
  rowHeight = total > 90 ? 9 : total > 45 ? 13 : 20;
  let y = 0;
  places = S.lanes.map((l, i) => {
    const h = l.kind === "client" ? HEAD + Math.max(1, l.tracks || 0) * rowHeight + 5 : l.kind === "node" ? 34 : 28;
    if (i && S.lanes[i - 1].kind !== l.kind) y += 6;
    const p = {y, h};
    y += h + 2;
    return p;
  });
  height = y;
}

// show goes to a range of times, at once or in a short move.
let move = 0;
const still = matchMedia("(prefers-reduced-motion: reduce)");
function show(t0, t1, quick = true) {
  const length = Math.min(MAX, Math.max(MIN, t1 - t0)), mid = (t0 + t1) / 2;
  const start = Math.max(0, Math.min(mid - length / 2, MAX - length));
  cancelAnimationFrame(move);
  if (quick || still.matches) return set(start, start + length);
  const a0 = view.t0, a1 = view.t1, began = performance.now();
  const step = now => {
    const p = Math.min(1, Math.max(0, (now - began) / 220)), e = 1 - (1 - p) ** 3;
    // Lengths in equal ratios: a zoom looks as fast at its end as at its beginning.
    const len = (a1 - a0) * (length / (a1 - a0)) ** e, share = Math.abs(a1 - a0 - length) < 1 ? e : (a1 - a0 - len) / (a1 - a0 - length);
    const s = p === 1 ? start : a0 + (start - a0) * share;
    set(s, s + (p === 1 ? length : len));
    if (p < 1) move = requestAnimationFrame(step);
  };
  move = requestAnimationFrame(step);
}
function set(t0, t1) {
  view.t0 = t0;
  view.t1 = t1;
  redraw();
}
const zoom = (factor, at = (view.t0 + view.t1) / 2, quick = true) =>
  around(at, Math.min(MAX, Math.max(MIN, (view.t1 - view.t0) * factor)), quick);
// around zooms so that a time stays where it is.
function around(at, length, quick) {
  const share = Math.max(0, Math.min(1, (at - view.t0) / (view.t1 - view.t0))), t0 = Math.max(0, at - share * length);
  show(t0, t0 + length, quick);
}
const pan = (us, quick = true) => {
  const length = view.t1 - view.t0, t0 = Math.max(0, Math.min(view.t0 + us, MAX - length));
  show(t0, t0 + length, quick);
};
const whole = () => view.t1 - view.t0 >= MAX * .999;

// frame shows something with what is around it.
function frame(a, b, around = 1.2, least = 2000) {
  const pad = Math.max((b - a) * around, least);
  show(a - pad, b + pad, false);
}

let wanted = 0, overviewStale = true;
function redraw() { wanted ||= requestAnimationFrame(() => { wanted = 0; draw(); }); }
// The colours of the theme and of resources, and texts.
let color = {}, palette = [], inks = [];
function theme() {
  color = themed(["ground", "card", "line", "text", "dim", "good-bar", "warn-bar", "bad-bar", "accent", "lane", "lane2", "node", "core", "mark", "fault", "fault-text", "grey", "bad", "warn"]);
  palette = Object.values(themed(Array.from({length: 10}, (_, i) => "r" + i)));
  inks = palette.map(c => luminance(c) > .3 ? "#0b1220" : "#fff");
  overviewStale = true;
  redraw();
}
function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map(i => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  return .2126 * r + .7152 * g + .0722 * b;
}
const colorOf = resource => palette[resource % palette.length];
const colorsOf = set => S.sets[set].length ? S.sets[set].map(colorOf) : [color.grey];

// label writes as much of a text as there is room for.
const widths = new Map();
function label(c, s, px, y, room, ink) {
  if (room < 14) return 0;
  let w = widths.get(c.font + s);
  if (w === undefined) widths.set(c.font + s, w = c.measureText(s).width);
  if (w > room) {
    const n = Math.floor(s.length * (room - 6) / w);
    if (n < 2) return 0;
    s = s.slice(0, n) + "…";
  }
  c.fillStyle = ink;
  c.fillText(s, px, y);
  return Math.min(w, room);
}

function draw() {
  const box = byId("lanes").getBoundingClientRect();
  width = Math.max(box.width, 50);
  gutter = width > 560 ? 64 : 4;
  scale = (width - gutter) / (view.t1 - view.t0);
  drawOverview();
  drawRuler();
  drawLanes();
  byId("range").textContent = clock(view.t0, (view.t1 - view.t0) / 100) + " to " + clock(Math.min(END, view.t1), (view.t1 - view.t0) / 100) +
    " · " + span(Math.min(END, view.t1) - view.t0) + " shown";
}

// steps are the times at which the ruler has lines.
function steps() {
  const least = 95 / scale, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(n => n * power).find(s => s >= least), all = [];
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) all.push(t);
  return {step, all};
}

function drawRuler() {
  const c = surface("ruler", width, 26), {step, all} = steps();
  c.textAlign = "center";
  for (const t of all) {
    c.fillStyle = color.line;
    c.fillRect(Math.round(x(t)), 17, 1, 7);
    c.fillStyle = color.dim;
    const s = clock(t, step), half = c.measureText(s).width / 2;
    c.fillText(s, Math.min(Math.max(x(t), gutter + half), width - half), 9);
  }
  c.textAlign = "left";
  let last = -99; // Where flags would cover each other, the first one stands for all, or the one that is selected.
  const flags = stops.filter(s => s.kind === "v" && s.i !== selectedViolation).map(s => s.i);
  if (selectedViolation >= 0) flags.push(selectedViolation);
  for (const i of flags) {
    const px = x(S.violations[i].from);
    if (px < gutter - 6 || px > width + 6 || px - last < 18 && i !== selectedViolation) continue;
    last = px;
    c.fillStyle = color["bad-bar"];
    c.beginPath();
    c.moveTo(px - 8, 0);
    c.lineTo(px + 8, 0);
    c.lineTo(px + 8, 13);
    c.lineTo(px, 22);
    c.lineTo(px - 8, 13);
    c.fill();
    c.fillStyle = color.card;
    c.textAlign = "center";
    c.fillText(i + 1, px, 8);
    c.textAlign = "left";
  }
}
