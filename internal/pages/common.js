"use strict";
// What pages with lanes draw with: elements, colours of the theme, canvases at the screen's resolution, patterns.
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
