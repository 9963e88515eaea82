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
