// What the reader does: mouse, fingers, keys and links.
const lanesCanvas = byId("lanes"), tip = byId("tip");

// at finds what is at a point of the lanes: a thread, or else a fault.
function at(px, py) {
  const lane = places.findIndex(p => py >= p.y && py < p.y + p.h + 2), t = timeAt(px), slack = 4 / scale;
  if (lane < 0 || px < gutter) return null;
  const kind = S.lanes[lane].kind;
  if (kind === "client") {
    const range = tracks[lane][Math.floor((py - places[lane].y - HEAD) / rowHeight)];
    if (range) {
      let best = -1, near = slack;
      for (let i = lowerBound(to, t - slack, ...range); i < range[1] && from[i] <= t + slack; i++) {
        const away = Math.max(0, from[i] - t, t - to[i]) - held[i] * 1e-9;
        if (away <= near) { best = i; near = away; }
      }
      if (best >= 0) return {thread: best};
    }
  }
  if (kind === "node") {
    const b = ballots[nodeLanes.indexOf(lane)], i = lowerBound(b.at, t), d = n => Math.abs((b.at[n] ?? Infinity) - t);
    const n = d(i) < d(i - 1) ? i : i - 1;
    if (d(n) <= slack && py > places[lane].y + 12) {
      const call = S.calls[b.call[n]];
      return {thread: call[CA.of] < 0 ? call[CA.thread] : call[CA.of], vote: b.kind[n], at: b.at[n]};
    }
  }
  let found = null;
  for (const n of faultsOf(lane)) if (S.faults[n][1] - slack <= t && faultEnd(S.faults[n]) + slack >= t) found = {fault: n};
  return found;
}

function hover(e) {
  const box = lanesCanvas.getBoundingClientRect(), px = e.clientX - box.left, py = e.clientY - box.top, a = e.pointerType === "mouse" && at(px, py);
  tip.hidden = !a;
  lanesCanvas.style.cursor = a ? "pointer" : "";
  if (!a) return;
  if (a.thread >= 0) {
    const t = S.threads[a.thread], k = S.calls[callsIn(a.thread)[0]], outcome = text(k[CA.outcome]);
    tip.textContent = (a.at === undefined ? "" : ["yes", "taken", "no answer"][a.vote] + " at " + clock(a.at, 1) + ", to ") + text(t[TH.process]) + ": " + namesOf(t[TH.set]) + "\n" +
      (held[a.thread] ? "held for " + span(held[a.thread]) : (did[text(k[CA.op])] || text(k[CA.op])) + ": " + (outcome || "never returned")) +
      (k[CA.waits] >= 0 ? ", waited for " + span((k[CA.to] < 0 ? to[a.thread] : k[CA.to]) - k[CA.waits]) : "");
  } else {
    const f = S.faults[a.fault];
    tip.textContent = "fault: " + text(f[3]) + (f[2] < 0 ? "" : " for " + span(f[2] - f[1])) + (f[4] ? "\n" + text(f[4]) : "");
  }
  const w = tip.offsetWidth, pad = lanesCanvas.offsetLeft;
  tip.style.left = Math.min(px + 14, box.width - w) + pad + "px";
  tip.style.top = py + 18 + lanesCanvas.offsetTop + "px";
}

const pointers = new Map();
let dragged = 0, pinch = 0;
lanesCanvas.onpointerdown = e => {
  if (e.button) return;
  pointers.set(e.pointerId, e);
  lanesCanvas.setPointerCapture(e.pointerId);
  dragged = pinch = 0;
};
lanesCanvas.onpointermove = e => {
  const was = pointers.get(e.pointerId);
  if (!was) return hover(e);
  pointers.set(e.pointerId, e);
  if (pointers.size === 2) {
    const [a, b] = [...pointers.values()], gap = Math.max(20, Math.abs(a.clientX - b.clientX));
    if (pinch) zoom(pinch / gap, timeAt((a.clientX + b.clientX) / 2 - lanesCanvas.getBoundingClientRect().left));
    pinch = gap;
    dragged = 99;
    return;
  }
  dragged += Math.abs(e.clientX - was.clientX);
  if (dragged > 3) {
    lanesCanvas.classList.add("dragged");
    tip.hidden = true;
    pan((was.clientX - e.clientX) / scale);
  }
};
lanesCanvas.onpointerup = lanesCanvas.onpointercancel = e => {
  const mine = pointers.delete(e.pointerId);
  lanesCanvas.classList.remove("dragged");
  if (!mine || dragged > 3 || e.type === "pointercancel") return;
  const box = lanesCanvas.getBoundingClientRect(), a = at(e.clientX - box.left, e.clientY - box.top);
  if (!a) nothing();
  else if (a.thread >= 0) select(a.thread);
  else selectFault(a.fault);
};
lanesCanvas.onpointerleave = () => { tip.hidden = true; };
lanesCanvas.ondblclick = e => {
  const box = lanesCanvas.getBoundingClientRect(), a = at(e.clientX - box.left, e.clientY - box.top);
  if (a?.thread >= 0) frame(from[a.thread], to[a.thread]);
  else zoom(.4, timeAt(e.clientX - box.left), false);
};

// The wheel zooms, and scrolls the page where there is nothing more to zoom out of.
function wheel(e) {
  const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1, dx = (e.shiftKey ? e.deltaX || e.deltaY : e.deltaX) * unit, dy = e.shiftKey ? 0 : e.deltaY * unit;
  if (dy > 0 && whole() && Math.abs(dx) < dy) return;
  e.preventDefault();
  if (Math.abs(dx) > Math.abs(dy)) return pan(dx / scale);
  const box = e.currentTarget.getBoundingClientRect(), px = e.clientX - box.left;
  zoom(Math.exp(Math.max(-300, Math.min(300, dy)) * .0022), e.currentTarget.id === "overview" ? px / box.width * MAX : timeAt(px));
}
for (const id of ["lanes", "ruler", "overview"]) byId(id).addEventListener("wheel", wheel, {passive: false});

const overview = byId("overview");
function dragOverview(e) {
  const box = overview.getBoundingClientRect(), mid = (e.clientX - box.left) / box.width * MAX, half = (view.t1 - view.t0) / 2;
  const t0 = Math.max(0, Math.min(mid - half, MAX - 2 * half));
  show(t0, t0 + 2 * half);
}
overview.onpointerdown = e => {
  overview.setPointerCapture(e.pointerId);
  if (whole()) zoom(.2);
  dragOverview(e);
};
overview.onpointermove = e => { if (e.buttons) dragOverview(e); };
byId("ruler").onclick = e => {
  const t = timeAt(e.clientX - byId("ruler").getBoundingClientRect().left);
  const n = S.violations.findIndex(v => Math.abs(v.from - t) < 9 / scale);
  if (n >= 0) go({kind: "v", i: n, from: S.violations[n].from, to: S.violations[n].to});
};

// go shows a violation or a fault.
let stop = -1;
function go(s) {
  stop = stops.findIndex(o => o.kind === s.kind && o.i === s.i);
  if (s.kind === "v") {
    // A violation is looked at with the locks that it is about, even if it lasts for an instant only.
    let a = s.from, b = s.to;
    for (const i of about[s.i]) if (held[i]) { a = Math.min(a, from[i]); b = Math.max(b, to[i]); }
    const most = Math.max(1e6, 20 * (s.to - s.from));
    frame(Math.max(a, s.from - most), Math.min(b, s.to + most), .3, 30e3);
    selectViolation(s.i);
  } else {
    frame(s.from, s.to, .6);
    selectFault(s.i);
  }
}
function next(by) {
  if (!stops.length) return say("There is no violation and no fault.");
  if (stop < 0 || selectedFault < 0 && selectedViolation < 0) {
    const mid = (view.t0 + view.t1) / 2, n = whole() ? 0 : stops.findIndex(s => s.from >= mid);
    stop = by > 0 ? (n < 0 ? 0 : n) : (n < 0 ? stops.length : n) - 1;
  } else stop += by;
  stop = (stop + stops.length) % stops.length;
  go(stops[stop]);
}

// The next lock of a track's lane, and the lane below.
function walk(by) {
  if (selected < 0) {
    const first = tracks.flat().map(r => lowerBound(to, view.t0, ...r)).find(i => i < threads && from[i] <= view.t1);
    return pick(first ?? 0);
  }
  const lane = S.threads[selected][TH.lane], all = tracks[lane].flatMap(([a, b]) => Array.from({length: b - a}, (_, i) => a + i)).sort((a, b) => from[a] - from[b]);
  pick(all[(all.indexOf(selected) + by + all.length) % all.length]);
}
function cross(by) {
  if (selected < 0) return walk(1);
  const clients = S.lanes.flatMap((l, i) => l.tracks ? [i] : []), now = clients.indexOf(S.threads[selected][TH.lane]);
  const lane = clients[(now + by + clients.length) % clients.length], t = from[selected];
  const near = tracks[lane].map(r => Math.min(lowerBound(to, t, ...r), r[1] - 1)).sort((a, b) => Math.abs(from[a] - t) - Math.abs(from[b] - t));
  pick(near[0]);
}
function pick(i) {
  if (!(i >= 0 && i < threads)) return;
  const length = view.t1 - view.t0;
  if (from[i] < view.t0 || from[i] > view.t1) show(from[i] - length / 3, from[i] + length * 2 / 3, false);
  select(i);
}

const part = share => (view.t1 - view.t0) * share;
const keys = {
  ArrowLeft: e => pan(-part(e.shiftKey ? .9 : .15), false), ArrowRight: e => pan(part(e.shiftKey ? .9 : .15), false),
  "+": () => zoom(.5, undefined, false), "=": () => zoom(.5, undefined, false), "-": () => zoom(2, undefined, false), "0": () => show(0, MAX, false),
  n: () => next(1), p: () => next(-1), j: () => walk(1), k: () => walk(-1), l: () => cross(1), L: () => cross(-1),
  Escape: nothing, "?": () => byId("help").showModal(),
};
onkeydown = e => {
  if (e.ctrlKey || e.metaKey || e.altKey || byId("help").open || e.target.closest("input")) return;
  if (e.key === "Enter" && e.target === lanesCanvas && selected >= 0) return frame(from[selected], to[selected]);
  const act = Object.hasOwn(keys, e.key) && keys[e.key];
  if (!act || e.key.startsWith("Arrow") && e.target.closest("code, #panel")) return;
  e.preventDefault();
  act(e);
};
byId("in").onclick = keys["+"];
byId("out").onclick = keys["-"];
byId("all").onclick = keys["0"];
byId("next").onclick = keys.n;
byId("previous").onclick = keys.p;
byId("keys").onclick = keys["?"];

// Links of the lists, #v1 for a violation and #f0 for a fault, work in the address, too.
function follow() {
  const m = /^#([vf])(\d+)$/.exec(location.hash);
  if (!m) return;
  const s = stops.find(o => o.kind === m[1] && o.i === (m[1] === "v" ? m[2] - 1 : +m[2]));
  if (!s) return;
  go(s);
  byId("timeline").scrollIntoView({block: "start"});
}
onhashchange = follow;
onclick = e => { if (e.target.closest("a")?.hash === location.hash && location.hash) follow(); };

new ResizeObserver(() => {
  document.documentElement.style.setProperty("--top", byId("top").offsetHeight + "px");
  redraw();
}).observe(byId("timeline"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chips);
theme();
chips();
draw();
follow();

// What tests look at.
window.timeline = {view, S, at, x, place: i => places[i], gutter: () => gutter, selected: () => ({selected, selectedFault, selectedViolation}), row: () => rowHeight, head: HEAD, show, draw, select};
