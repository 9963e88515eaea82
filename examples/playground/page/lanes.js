"use strict";
// What the page draws with: elements, colours of the theme, canvases at the screen's resolution, patterns.
const byId = id => document.getElementById(id);

// el makes an element. What is put in as a text stays one: names come from others.
function el(tag, cls, ...inside) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  for (const i of inside) if (i !== null && i !== undefined && i !== "") e.append(i);
  return e;
}

// themed reads the colours of these names, as they are in the theme that is on.
function themed(names) {
  const css = getComputedStyle(document.documentElement);
  patterns.clear();
  return Object.fromEntries(names.map(name => [name, css.getPropertyValue("--" + name).trim()]));
}

// surface returns what to draw on a canvas with, of that size in CSS pixels.
const contexts = new Map();
function surface(id, w, h) {
  const canvas = byId(id), ratio = devicePixelRatio || 1, W = Math.round(w * ratio), H = Math.round(h * ratio);
  if (canvas.width !== W || canvas.height !== H) {
    canvas.width = W;
    canvas.height = H;
    canvas.style.height = h + "px";
  }
  let c = contexts.get(id);
  if (!c) contexts.set(id, c = canvas.getContext("2d"));
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, h);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  return c;
}

// hatch is a pattern of slanted lines.
const patterns = new Map();
function hatch(c, ink, gap = 7, thick = 2.2) {
  const key = ink + gap + thick;
  let p = patterns.get(key);
  if (!p) {
    const tile = document.createElement("canvas"), t = tile.getContext("2d"), n = gap * 4;
    tile.width = tile.height = n;
    t.strokeStyle = ink;
    t.lineWidth = thick;
    for (let i = -n; i < 2 * n; i += gap) {
      t.beginPath();
      t.moveTo(i, n);
      t.lineTo(i + n, 0);
      t.stroke();
    }
    patterns.set(key, p = c.createPattern(tile, "repeat"));
  }
  return p;
}

// The lanes: what clients and nodes were like in the last seconds, and until when what they have now is valid.
const lanesOf = {client: 30, node: 21, gap: 8, head: 18};
let selected = 0, marksAt = []; // The number of the selected mark; where marks were drawn.

const theme = () => themed(["card", "line", "text", "dim", "lane", "node", "fault", "grey", "warn-bar", "bad-bar", "ink", "A", "B", "C", "D"]);
let color = theme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { color = theme(); });

// layout says where each lane is, and how time becomes place: the last fifth is the future.
function layout(s, t, width) {
  const places = {};
  let y = lanesOf.head;
  for (const k of s.clients) {
    places[k.name] = {y, h: lanesOf.client, label: "Client " + k.name, ground: color.lane};
    y += lanesOf.client + 2;
  }
  y += lanesOf.gap;
  for (const n of s.nodes) {
    places[n.name] = {y, h: lanesOf.node, label: "Node " + n.name, ground: color.node};
    y += lanesOf.node + 2;
  }
  const gutter = width > 560 ? 62 : 20, past = width > 700 ? 30000 : 15000;
  const at = gutter + (width - gutter) * (1 - Math.min(.26, s.ttl / (past + s.ttl))), scale = (at - gutter) / past;
  return {places, gutter, height: y, at, past, x: ms => at + (ms - t) * scale};
}

function drawLanes(s, t) {
  const width = Math.max(byId("lanes").parentElement.clientWidth - 24, 200);
  const l = layout(s, t, width), c = surface("lanes", width, l.height);
  drawGround(c, s, l, t, width);
  c.save();
  c.beginPath();
  c.rect(l.gutter, 0, width - l.gutter, l.height);
  c.clip();
  for (const p of s.spans) if (p.row === "fault" && l.places[p.lane]) drawFault(c, p, l, t);
  for (const p of s.spans) if (p.row === "bar") drawBar(c, p, l, t);
  drawFuture(c, s, l, t);
  for (const p of s.spans) if (p.row === "fault" && l.places[p.lane]) drawFaultName(c, p, l, t);
  for (const p of s.spans) if (p.lane === "all") drawTwo(c, p, l, t, s);
  c.fillStyle = color.text;
  c.fillRect(Math.round(l.at), lanesOf.head - 4, 1.5, l.height);
  drawMarks(c, s, l);
  c.restore();
}

function drawGround(c, s, l, t, width) {
  for (const [name, p] of Object.entries(l.places)) {
    c.fillStyle = p.ground;
    c.fillRect(l.gutter, p.y, width - l.gutter, p.h);
    c.font = "600 11.5px system-ui, sans-serif";
    c.textAlign = "left";
    c.fillStyle = color[name] || color.text;
    c.fillText(l.gutter > 30 ? p.label : name, 4, p.y + p.h / 2);
  }
  c.font = "11px system-ui, sans-serif";
  c.textAlign = "center";
  c.fillStyle = color.dim;
  c.fillText("now", l.at, 7);
  const step = width > 700 ? 5000 : 2500;
  for (let ms = step; l.x(t - ms) > l.gutter + 16; ms += step) {
    c.fillStyle = color.line;
    c.fillRect(Math.round(l.x(t - ms)), lanesOf.head - 3, 1, l.height);
    c.fillStyle = color.dim;
    if (l.gutter > 30 || ms % 5000 === 0) c.fillText(ms / 1000 + " s ago", l.x(t - ms), 7);
  }
  c.textAlign = "left";
}

const ends = (p, l, t) => [Math.max(l.x(p.from), l.gutter - 6), l.x(p.to || t)];

function drawFault(c, p, l, t) {
  const {y, h} = l.places[p.lane], [a, b] = ends(p, l, t), w = Math.max(b - a, 2);
  if (b < l.gutter) return;
  c.fillStyle = color.fault;
  c.globalAlpha = .13;
  c.fillRect(a, y, w, h);
  c.globalAlpha = .3;
  c.fillStyle = hatch(c, color.fault);
  c.fillRect(a, y, w, h);
  c.globalAlpha = 1;
  c.fillStyle = color.fault;
  c.fillRect(a, y, w, 2);
}

// drawFaultName writes it over the bars, where there is room.
function drawFaultName(c, p, l, t) {
  const {y, h} = l.places[p.lane], [a, b] = ends(p, l, t), left = Math.max(a, l.gutter) + 3;
  c.font = "600 10.5px system-ui, sans-serif";
  const w = c.measureText(p.what).width;
  if (b - left < w + 8) return;
  c.fillStyle = color.card;
  c.globalAlpha = .88;
  c.fillRect(left, y + h / 2 - 7, w + 6, 14);
  c.globalAlpha = 1;
  c.fillStyle = color.fault;
  c.fillText(p.what, left + 3, y + h / 2 + .5);
}

// drawBar draws what a client did, or whose key a node had.
function drawBar(c, p, l, t) {
  const {y, h} = l.places[p.lane], [a, b] = ends(p, l, t), ink = color[p.what] || color[p.lane], w = Math.max(b - a, 1.5);
  if (b < l.gutter) return;
  c.fillStyle = ink;
  if (p.what === "waits") {
    for (let s = Math.max(l.x(p.from), l.gutter - 6 + (l.x(p.from) % 7)); s < b; s += 7) c.fillRect(s, y + h / 2 - 2, Math.min(4, b - s), 4);
  } else if (p.what === "asks") {
    c.fillStyle = color.grey;
    c.fillRect(a, y + h / 2 - 1, w, 2);
  } else if (p.what === "believes") {
    c.fillStyle = hatch(c, ink, 5, 1.8);
    c.fillRect(a, y + 5, w, h - 10);
  } else c.fillRect(a, y + (p.what === "holds" ? 5 : 4), w, h - (p.what === "holds" ? 10 : 8));
}

// drawFuture shows until when locks and keys are valid if nobody extends them.
function drawFuture(c, s, l, t) {
  c.globalAlpha = .28;
  for (const k of s.clients) if (k.state === "holds" && k.until > t) {
    c.fillStyle = color[k.name];
    c.fillRect(l.at, l.places[k.name].y + 5, l.x(k.until) - l.at, l.places[k.name].h - 10);
  }
  for (const n of s.nodes) if (n.holder && n.expires > t) {
    c.fillStyle = color[n.holder];
    c.fillRect(l.at, l.places[n.name].y + 4, l.x(n.expires) - l.at, l.places[n.name].h - 8);
  }
  c.globalAlpha = 1;
}

function drawTwo(c, p, l, t, s) {
  const [a, b] = ends(p, l, t), top = lanesOf.head - 2, h = s.clients.length * (lanesOf.client + 2) + 2;
  if (b < l.gutter) return;
  c.fillStyle = color["bad-bar"];
  c.globalAlpha = .18;
  c.fillRect(a, top, b - a, h);
  c.globalAlpha = 1;
  c.strokeStyle = color["bad-bar"];
  c.lineWidth = 2;
  c.strokeRect(a, top, b - a, h);
  c.font = "700 11px system-ui, sans-serif";
  if (b - a > 80) c.fillText(p.what, a + 5, top + h - 8);
}

function drawMarks(c, s, l) {
  marksAt = [];
  for (const m of s.marks) {
    const x = l.x(m.at), p = l.places[m.lane];
    if (!p || x < l.gutter) continue;
    const y = p.y + p.h / 2, failed = m.what.startsWith("no ");
    c.fillStyle = failed ? color["warn-bar"] : color.card;
    c.strokeStyle = failed ? color.card : color.text;
    c.lineWidth = failed ? 1 : 2;
    c.beginPath();
    if (m.what.endsWith("write")) {
      c.fillStyle = failed ? color["warn-bar"] : color.text;
      c.strokeStyle = color.card;
      c.moveTo(x, y - 7);
      c.lineTo(x + 7, y);
      c.lineTo(x, y + 7);
      c.lineTo(x - 7, y);
      c.closePath();
    } else {
      c.arc(x, y, 4.5, 0, 7);
      marksAt.push({m, x, y});
    }
    c.fill();
    c.stroke();
    if (m.n === selected) {
      c.strokeStyle = color.text;
      c.lineWidth = 2;
      c.beginPath();
      c.arc(x, y, 9, 0, 7);
      c.stroke();
    }
  }
  showVotes(s);
}

const titles = {lock: "got the lock", "no lock": "did not get the lock", extend: "extended its lock", "no extend": "could not extend its lock",
  unlock: "released its lock", "no unlock": "released its lock, but too few nodes agree", release: "released its lock"};
let shownVotes = "";
function showVotes(s) {
  const rounds = s.marks.filter(k => k.votes), m = rounds.find(k => k.n === selected) || rounds.at(-1), key = JSON.stringify([m, selected]);
  if (key === shownVotes) return;
  shownVotes = key;
  if (!m) {
    byId("votes").replaceChildren(el("h3", "", "Votes"), el("p", "", "What each node has said stands here as soon as a client asks."));
    return;
  }
  const rows = (m.votes || []).map(v => {
    const own = v.says === "yes" ? m.lane : v.says === "taken" ? v.who : "";
    const says = {yes: "yes", taken: v.who ? "no, " + v.who + " has it" : "no, the next in line comes", "has no such key": "no, it has no such key"};
    return el("li", "", el("i", own, own), el("span", "", "node " + v.node + ": " + (says[v.says] || v.says)), el("span", "after", v.says === "not waited for" ? "" : v.took + " ms"));
  });
  const how = m.n === selected ? "Click beside it to see the latest votes again." : "These are the latest votes. Click a circle on the lanes to see others, or go there with the arrow keys.";
  byId("votes").replaceChildren(el("h3", "", "Client " + m.lane + " " + (titles[m.what] || m.what)), el("ul", "", ...rows), el("p", "", how));
}

document.addEventListener("DOMContentLoaded", () => {
  const canvas = byId("lanes");
  canvas.onclick = e => {
    const box = canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
    let best = null, least = 18;
    for (const k of marksAt) {
      const d = Math.hypot(k.x - x, k.y - y);
      if (d < least) [best, least] = [k, d];
    }
    selected = best ? best.m.n : 0;
    if (state) drawLanes(state, now());
  };
  canvas.onkeydown = e => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!step || !marksAt.length) return;
    e.preventDefault();
    const all = marksAt.map(k => k.m).sort((a, b) => a.at - b.at), i = all.findIndex(m => m.n === selected);
    selected = all[i < 0 ? all.length - 1 : Math.min(Math.max(i + step, 0), all.length - 1)].n;
    drawLanes(state, now());
  };
});
