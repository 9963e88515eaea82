// The lanes: from the back to the front, ground, faults, threads, votes, violations, what is selected.
function drawLanes() {
  layout();
  const c = surface("lanes", width, height);
  c.save();
  c.beginPath();
  c.rect(gutter, 0, width - gutter, height);
  c.clip();
  S.lanes.forEach((l, i) => drawGround(c, l, i));
  c.fillStyle = color.line;
  c.globalAlpha = .6;
  for (const t of steps().all) c.fillRect(Math.round(x(t)), 0, 1, height);
  c.globalAlpha = 1;
  S.lanes.forEach((l, i) => {
    if (l.kind === "client") drawLives(c, i);
    drawFaults(c, i);
  });
  S.lanes.forEach((l, i) => tracks[i].forEach(([a, b], track) =>
    drawTrack(c, a, b, places[i].y + HEAD + track * rowHeight, rowHeight - 3)));
  drawVotes(c);
  drawViolations(c);
  if (selected >= 0) drawSelected(c);
  S.lanes.forEach((_, i) => drawFaultNames(c, i));
  c.restore();
  S.lanes.forEach((l, i) => drawName(c, l, i));
}

function drawGround(c, l, i) {
  c.fillStyle = l.kind === "node" ? color.node : i % 2 ? color.lane : color.lane2;
  c.fillRect(gutter, places[i].y, width - gutter, places[i].h);
}

function drawName(c, l, i) {
  const {y, h} = places[i];
  c.font = "600 11.5px system-ui, sans-serif";
  if (gutter > 20) label(c, l.name, 2, l.kind === "client" ? y + 8 : y + h / 2, gutter - 6, color.text);
  else {
    const w = c.measureText(l.name).width;
    c.fillStyle = color.card;
    c.globalAlpha = .8;
    c.fillRect(gutter, y, w + 8, 14);
    c.globalAlpha = 1;
    c.fillStyle = color.text;
    c.fillText(l.name, gutter + 4, y + 7);
  }
  c.font = "11px system-ui, sans-serif";
}

// drawLives marks the times in which a client has no process.
function drawLives(c, i) {
  const {y, h} = places[i];
  let last = 0;
  const gap = (a, b) => {
    if (b <= view.t0 || a >= view.t1 || b <= a) return;
    c.fillStyle = color.grey;
    c.globalAlpha = .16;
    c.fillRect(x(a), y, Math.max(1, x(b) - x(a)), h);
    c.globalAlpha = 1;
    if (x(b) - x(a) > 64) label(c, "no process", Math.max(x(a), gutter) + 5, y + h - 8, Math.min(x(b), width) - Math.max(x(a), gutter) - 8, color.dim);
  };
  const lives = livesOf(i);
  if (!lives.length) return;
  for (const n of lives) {
    gap(last, S.lives[n][1]);
    last = Math.max(last, S.lives[n][2] < 0 ? END : S.lives[n][2]);
  }
  gap(last, END);
}

const faultEnd = f => f[2] < 0 ? f[1] : f[2];
function drawFaults(c, i) {
  const {y, h} = places[i], strong = hatch(c, color.fault);
  for (const n of faultsOf(i)) {
    const f = S.faults[n];
    if (faultEnd(f) < view.t0 || f[1] > view.t1) continue;
    const a = Math.max(x(f[1]), gutter - 2), w = Math.max(1.5, Math.min(x(faultEnd(f)), width + 2) - a);
    c.fillStyle = color.fault;
    if (f[2] < 0) {
      c.fillRect(a - .75, y, 1.5, h);
      c.beginPath();
      c.moveTo(a - 5, y);
      c.lineTo(a + 5, y);
      c.lineTo(a, y + 8);
      c.fill();
      continue;
    }
    c.globalAlpha = n === selectedFault ? .32 : .13;
    c.fillRect(a, y, w, h);
    if (w > 3) {
      c.fillStyle = strong;
      c.globalAlpha = .2;
      c.fillRect(a, y, w, h);
    }
    c.globalAlpha = .9;
    c.fillStyle = color.fault;
    c.fillRect(a, y, w, 2);
    c.globalAlpha = 1;
  }
}

// drawFaultNames writes the names over bars, where no other name is.
function drawFaultNames(c, i) {
  const {y} = places[i];
  let free = gutter + (gutter > 20 ? 0 : 50);
  for (const n of faultsOf(i)) {
    const f = S.faults[n], end = x(f[2] < 0 ? f[1] : f[2]);
    if (end < gutter || f[1] > view.t1) continue;
    const a = Math.max(x(f[1]) + (f[2] < 0 ? 7 : 3), free), name = text(f[3]);
    const room = f[2] < 0 ? 120 : Math.min(end, width) - a - 4;
    if (x(f[1]) + 8 < free && f[2] < 0) continue;
    c.font = "600 10.5px system-ui, sans-serif";
    const w = c.measureText(name).width;
    if (w > room) {
      c.font = "11px system-ui, sans-serif";
      continue;
    }
    c.fillStyle = S.lanes[i].kind === "node" ? color.node : color.lane;
    c.globalAlpha = .82;
    c.fillRect(a - 1, y + 2.5, w + 3, 12);
    c.globalAlpha = 1;
    label(c, name, a, y + 9, room, color["fault-text"]);
    free = a + w + 6;
    c.font = "11px system-ui, sans-serif";
  }
}

// drawTrack draws threads that follow each other. Where several fall on a pixel, the longest lock stands for all.
function drawTrack(c, a, b, y, h) {
  let column = -1, best = -1;
  const flush = () => {
    if (best < 0) return;
    const t = S.threads[best];
    c.globalAlpha = shown[t[TH.set]] ? held[best] ? 1 : .3 : .08;
    c.fillStyle = held[best] ? colorsOf(t[TH.set])[0] : color.grey;
    if (held[best]) c.fillRect(column, y, 1.2, h); else c.fillRect(column, y + h / 2 - 1.5, 1.2, 3);
    best = -1;
  };
  for (let i = lowerBound(to, view.t0, a, b); i < b && from[i] <= view.t1; i++) {
    const x0 = x(from[i]), w = (to[i] - from[i]) * scale;
    if (w >= 2) {
      flush();
      drawThread(c, i, y, h, w);
      continue;
    }
    const px = Math.floor(x0);
    if (px !== column) {
      flush();
      column = px;
    }
    if (best < 0 || held[i] + shown[S.threads[i][TH.set]] * 1e9 > held[best] + shown[S.threads[best][TH.set]] * 1e9) best = i;
  }
  flush();
  c.globalAlpha = 1;
}

const edge = h => Math.max(2, Math.round(h * .25)); // The height of a critical section.
const clip = (a, b) => [Math.max(x(a), gutter - 4), Math.min(x(b), width + 4)];
function drawThread(c, i, y, h, w) {
  const t = S.threads[i], colors = colorsOf(t[TH.set]), mid = y + h / 2;
  c.globalAlpha = !shown[t[TH.set]] ? .08 : selectedViolation < 0 || aboutSelected.has(i) ? 1 : .3;
  for (const n of callsIn(i)) drawCall(c, S.calls[n], i, mid, colors[0]);
  for (const n of holdsOf(i)) drawHold(c, S.holds[n], t, colors, y, h);
  for (const n of sectionsOf(i)) {
    const s = S.sections[n], [a, b] = clip(s[1], s[2] < 0 ? to[i] : s[2]);
    c.fillStyle = color.core;
    if (b >= gutter && a <= width) c.fillRect(a, y + h - edge(h), Math.max(b - a, 1), edge(h));
  }
  drawMarks(c, i, y, h, w);
  c.globalAlpha = 1;
}

function drawHold(c, h, t, colors, y, rows) {
  const [a, b] = clip(h[1], h[2]), bands = colors.slice(0, 3), each = rows / bands.length;
  if (b >= gutter && a <= width) bands.forEach((k, n) => {
    c.fillStyle = k;
    c.fillRect(a, y + n * each, Math.max(b - a, 1.2), each);
  });
  if (h[4] >= 0) {
    const [p, q] = clip(h[2], h[4]), was = c.globalAlpha;
    c.globalAlpha = was * .7;
    c.fillStyle = hatch(c, colors[0], 5, 1.6);
    if (q > p) c.fillRect(p, y, q - p, rows);
    c.globalAlpha = was;
  }
  if (b - a > 46 && rows > 8) {
    const left = Math.max(a, gutter) + 5;
    label(c, namesOf(t[TH.set]), left, y + (rows - edge(rows)) / 2 + .5, b - left - 5, inks[(S.sets[t[TH.set]][0] || 0) % inks.length]);
  }
}

// drawCall draws the time of a call, and how it ended if it failed.
function drawCall(c, k, i, mid, ink) {
  const op = text(k[CA.op]), end = k[CA.to] < 0 ? to[i] : k[CA.to];
  const [a, b] = clip(k[CA.from], end);
  if (b < gutter || a > width) return;
  if (op === "extend") return;
  c.fillStyle = color.grey;
  c.fillRect(a, mid - 1, Math.max(b - a, 1), 2);
  if (k[CA.waits] >= 0) {
    const p = Math.max(x(k[CA.waits]), gutter - 4);
    c.fillStyle = color.lane;
    c.fillRect(p, mid - 2, b - p, 4);
    c.fillStyle = ink;
    if (b - p < 12) c.fillRect(p, mid - 2, Math.max(b - p, 1), 4);
    else for (let s = x(k[CA.waits]) + Math.max(0, Math.floor((p - x(k[CA.waits])) / 7)) * 7; s < b; s += 7) c.fillRect(s, mid - 2, Math.min(4, b - s), 4);
  }
  const outcome = text(k[CA.outcome]);
  if (k[CA.to] >= 0 && outcome !== "ok" && b - a > 9) {
    c.fillStyle = outcome === "taken" ? color["warn-bar"] : color.grey;
    c.beginPath();
    c.arc(x(k[CA.to]), mid, 3.2, 0, 7);
    c.fill();
  }
}

// drawMarks draws what happens at an instant.
function drawMarks(c, i, y, h, w) {
  for (const n of callsOf(i)) {
    const k = S.calls[n];
    if (text(k[CA.op]) !== "extend" || k[CA.to] < 0) continue;
    c.fillStyle = text(k[CA.outcome]) === "ok" ? color.lane : color["warn-bar"];
    if (w > 10) c.fillRect(x(k[CA.to]) - .8, y, 1.8, h * .5);
  }
  for (const n of accessesOf(i)) {
    const a = S.accesses[n], px = x(a[3]), mid = y + h / 2;
    if (a[7]) {
      c.fillStyle = color.mark;
      if (w > 60) c.fillRect(px - .5, y + h - edge(h) + 1, text(a[1]) === "write" ? 2.5 : 1, edge(h) - 2);
      continue;
    }
    c.fillStyle = color["warn-bar"];
    c.strokeStyle = color.lane;
    c.beginPath();
    c.moveTo(px, mid - 5.5);
    c.lineTo(px + 5.5, mid);
    c.lineTo(px, mid + 5.5);
    c.lineTo(px - 5.5, mid);
    c.closePath();
    c.fill();
    c.stroke();
  }
  for (const n of lossesOf(i)) {
    const px = x(S.losses[n][1]);
    c.fillStyle = color["warn-bar"];
    c.strokeStyle = color.lane;
    c.beginPath();
    c.moveTo(px - 5, y - 2);
    c.lineTo(px + 5, y - 2);
    c.lineTo(px, y + 8);
    c.closePath();
    c.fill();
    c.stroke();
  }
}
// Votes, violations and the selection over the lanes; and the overview of the whole run above them.

// drawVotes draws what nodes said as columns: how much in a column of two pixels, and of which kind.
function drawVotes(c) {
  const bin = 2 / scale, n = Math.ceil((view.t1 - view.t0) / bin) + 1, first = Math.floor(view.t0 / bin);
  let most = 1;
  const all = ballots.map(b => {
    const counts = new Uint32Array(3 * n);
    for (let i = lowerBound(b.at, first * bin); i < b.at.length && b.at[i] < view.t1; i++) {
      const col = Math.floor(b.at[i] / bin) - first, call = S.calls[b.call[i]];
      if (col < 0 || col >= n || !shown[S.threads[call[CA.thread]][TH.set]]) continue;
      counts[3 * col + b.kind[i]]++;
    }
    for (let col = 0; col < n; col++) most = Math.max(most, counts[3 * col] + counts[3 * col + 1] + counts[3 * col + 2]);
    return counts;
  });
  const kinds = [color["good-bar"], color["warn-bar"], color.grey];
  all.forEach((counts, i) => {
    const {y, h} = places[nodeLanes[i]], room = h - 6;
    for (let col = 0; col < n; col++) {
      const total = counts[3 * col] + counts[3 * col + 1] + counts[3 * col + 2];
      if (!total) continue;
      let low = y + h - 2;
      const tall = room * (most === 1 ? .6 : Math.sqrt(total / most));
      for (let k = 0; k < 3; k++) if (counts[3 * col + k]) {
        const part = tall * counts[3 * col + k] / total;
        c.fillStyle = kinds[k];
        c.fillRect(x((first + col) * bin), low - part, 1.9, part);
        low -= part;
      }
    }
  });
}

// drawViolations marks their times over the lanes that they concern, and the locks; more of the one that is selected, as
// there may be very many.
function drawViolations(c) {
  S.violations.forEach((v, i) => {
    const a = Math.max(x(v.from), gutter - 3), w = Math.max(2, Math.min(x(v.to), width + 3) - a), mine = i === selectedViolation;
    if (a > width || a + w < gutter) return;
    c.fillStyle = c.strokeStyle = color["bad-bar"];
    if (mine) {
      c.globalAlpha = .13;
      c.fillRect(a, 0, w, height);
      c.globalAlpha = 1;
    }
    for (const l of v.lanes) c.fillRect(a, places[l].y, w, mine ? 4 : 3);
    if (!v.lanes.length) c.fillRect(a, 0, 2, height);
    if (selectedViolation >= 0 && !mine) return;
    c.lineWidth = mine ? 2.5 : 1.6;
    for (const n of about[i]) {
      const t = S.threads[n], y = places[t[TH.lane]].y + HEAD + t[TH.track] * rowHeight;
      for (const h of holdsOf(n)) {
        const [p, q] = clip(S.holds[h][1], S.holds[h][2]);
        if (q - p > 2) c.strokeRect(p, y - 1, q - p, rowHeight - 1);
      }
    }
    c.lineWidth = 1;
  });
}

// drawSelected frames a thread, and shows when which node answered its calls.
function drawSelected(c) {
  const t = S.threads[selected], y = places[t[TH.lane]].y + HEAD + t[TH.track] * rowHeight - 1.5;
  for (const n of callsOf(selected)) attemptsOf(n).forEach((m, nth) => {
    const all = votesOf(m), asked = nth ? Math.min(...all.map(v => v.at)) : S.calls[n][CA.from];
    for (const v of all) drawVote(c, v, asked, y + rowHeight);
  });
  const [a, b] = clip(from[selected], to[selected]);
  c.strokeStyle = color.text;
  c.lineWidth = 1.6;
  c.strokeRect(a - 2, y, Math.max(b - a, 1) + 4, rowHeight);
  c.lineWidth = 1;
}

// drawVote draws a line from the call to what a node said.
function drawVote(c, v, asked, y) {
  const p = places[nodeLanes[v.node]], px = x(v.at);
  if (!p || px < gutter || px > width) return;
  c.strokeStyle = c.fillStyle = [color["good-bar"], color["warn-bar"], color.grey][kindOf(v.says)];
  c.globalAlpha = .6;
  c.beginPath();
  c.moveTo(x(asked), y);
  c.lineTo(px, p.y + p.h / 2);
  c.stroke();
  c.globalAlpha = 1;
  c.strokeStyle = color.text;
  c.beginPath();
  c.arc(px, p.y + p.h / 2, 4.5, 0, 7);
  c.fill();
  c.stroke();
}

// The overview is drawn once: who held what, a thin row for each client, and the faults of nodes below.
let picture = null;
function paintOverview(w, h) {
  picture = document.createElement("canvas");
  const ratio = devicePixelRatio || 1, c = picture.getContext("2d"), px = t => t / MAX * w;
  picture.width = Math.round(w * ratio);
  picture.height = Math.round(h * ratio);
  c.scale(ratio, ratio);
  c.fillStyle = color.lane2;
  c.fillRect(0, 0, w, h);
  const rows = S.lanes.map((l, i) => i).filter(i => S.lanes[i].kind !== "all"), each = (h - 4) / Math.max(1, rows.length);
  rows.forEach((lane, row) => {
    const y = 2 + row * each;
    c.fillStyle = color.fault;
    c.globalAlpha = .45;
    for (const n of faultsOf(lane)) c.fillRect(px(S.faults[n][1]), y, Math.max(1, px(faultEnd(S.faults[n])) - px(S.faults[n][1])), each);
    c.globalAlpha = 1;
    for (const [a, b] of tracks[lane]) for (let i = a, last = -1; i < b; i++) for (const n of holdsOf(i)) {
      const s = S.holds[n], p = px(s[1]), q = px(s[2]);
      if (q - last < .4 || !shown[S.threads[i][TH.set]]) continue;
      c.fillStyle = colorsOf(S.threads[i][TH.set])[0];
      c.fillRect(p, y + each * .2, Math.max(.6, q - p), each * .6);
      last = q;
    }
  });
  c.fillStyle = color["bad-bar"];
  for (const v of S.violations) c.fillRect(px(v.from) - 1, 0, Math.max(2.5, px(v.to) - px(v.from)), 4);
  if (S.violations.length < 30) for (const v of S.violations) c.fillRect(px(v.from) - 1, 0, 2.5, h);
  overviewStale = false;
}

function drawOverview() {
  const w = byId("overview").clientWidth || 50, h = 54, c = surface("overview", w, h), ratio = devicePixelRatio || 1;
  if (overviewStale || !picture || picture.width !== Math.round(w * ratio)) paintOverview(w, h);
  c.drawImage(picture, 0, 0, w, h);
  const a = view.t0 / MAX * w, b = Math.max(a + 3, view.t1 / MAX * w);
  c.fillStyle = color.ground;
  c.globalAlpha = .62;
  c.fillRect(0, 0, a, h);
  c.fillRect(b, 0, w - b, h);
  c.globalAlpha = 1;
  c.strokeStyle = color.accent;
  c.lineWidth = 2;
  c.strokeRect(a + 1, 1, Math.max(2, b - a - 2), h - 2);
  c.lineWidth = 1;
}
