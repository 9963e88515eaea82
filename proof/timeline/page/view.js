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
