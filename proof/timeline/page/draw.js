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
