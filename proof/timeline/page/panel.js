// The panel tells the story of what was clicked.
function button(name, act) {
  const b = el("button", "", name);
  b.type = "button";
  b.onclick = act;
  return b;
}
const hint = byId("panel").firstElementChild;
function fill(...inside) {
  byId("panel").replaceChildren(...inside.filter(Boolean));
  byId("panel").scrollTop = 0;
}
const say = s => { byId("said").textContent = s; };

function nothing() {
  selected = selectedFault = selectedViolation = -1;
  fill(hint);
  redraw();
}

function names(set) {
  const all = el("p", "names");
  for (const r of S.sets[set]) {
    const swatch = el("i"), one = el("span", "", swatch, S.resources[r]);
    swatch.style.background = colorOf(r);
    all.append(one);
  }
  return all;
}

function votesTable(attempt, began) {
  const table = el("div", "votes");
  for (const v of votesOf(attempt)) table.append(el("span", "", "node " + v.node),
    el("span", kindClass[kindOf(v.says)], v.says), el("span", "after", "after " + span(v.at - began)));
  return table;
}

// more shows the beginning of a long text, and the rest if one asks for it.
function more(s) {
  return s.length < 120 ? el("div", "error", s) : el("details", "error", el("summary", "", s.slice(0, 90) + "…"), s);
}

const did = {lock: "Lock", trylock: "TryLock", extend: "Extend", unlock: "Unlock", release: "Release"};
function callStory(n) {
  const k = S.calls[n], op = text(k[CA.op]), outcome = text(k[CA.outcome]), title = did[op] || op;
  const attempts = attemptsOf(n), who = text(S.threads[k[CA.thread]][TH.process]);
  const line = el("li", outcome === "ok" ? "good" : outcome === "taken" || outcome === "lost" ? "warn" : "", el("time", "", clock(k[CA.from], 1)),
    el("b", "", title), " by ", who, k[CA.to] < 0 ? ": never returned" : ": " + outcome + " after " + span(k[CA.to] - k[CA.from]));
  if (k[CA.waits] >= 0) line.append(el("div", "", "waited since " + clock(k[CA.waits], 1)));
  if (outcome === "ok" && k[CA.until] && op !== "unlock" && op !== "release") line.append(el("div", "", "until " + clock(k[CA.until], 1) + ", " + span(k[CA.until] - k[CA.to]) + " left",
    k[CA.fence] ? ", fence " + k[CA.fence] : ""));
  if (k[CA.err]) line.append(more(text(k[CA.err])));
  if (attempts.length > 1) {
    const earlier = el("details", "error", el("summary", "", attempts.length === 2 ? "1 earlier attempt" : attempts.length - 1 + " earlier attempts"));
    attempts.slice(0, -1).forEach((m, i) => earlier.append(el("div", "", "attempt " + (i + 1)), votesTable(m, k[CA.from])));
    line.append(earlier);
  }
  if (attempts.length) line.append(votesTable(attempts.at(-1), k[CA.from]));
  return {at: k[CA.from], line};
}

// story is all that belongs to a thread, in the order of time.
function story(i) {
  const all = [], add = (at, cls, ...inside) => all.push({at, line: el("li", cls, el("time", "", clock(at, 1)), ...inside)});
  for (const n of new Set([...callsIn(i), ...callsOf(i)])) all.push(callStory(n));
  for (const n of holdsOf(i)) {
    const h = S.holds[n], how = text(h[3]);
    add(h[2], how.startsWith("released") ? "good" : "warn", "The holder's time is over after " + span(h[2] - h[1]) + ": ", how);
    if (h[4] >= 0) add(h[4], "", "The lock of the dead process is over");
  }
  for (const n of sectionsOf(i)) {
    const s = S.sections[n];
    add(s[1], "good", "Enters the critical section");
    if (s[2] >= 0) add(s[2], "good", "Leaves it after " + span(s[2] - s[1]));
  }
  for (const n of accessesOf(i)) {
    const a = S.accesses[n];
    add(a[3], a[7] ? "good" : "warn", (text(a[1]) === "read" ? "Reads " : "Writes ") + (a[7] || text(a[1]) === "write" ? a[5] : "") +
      " at the register of " + S.resources[a[2]], a[7] ? "" : ": refused, its fence " + a[6] + " is behind");
  }
  for (const n of lossesOf(i)) add(S.losses[n][1], "warn", el("b", "", "Loss signal"), S.losses[n][2] ? ": " + text(S.losses[n][2]) : "");
  return all.sort((a, b) => a.at - b.at);
}

function select(i) {
  selected = i;
  selectedFault = selectedViolation = -1;
  const t = S.threads[i], steps = story(i), of = S.calls[callsIn(i)[0]];
  const kind = did[text(of[CA.op])] || text(of[CA.op]);
  fill(el("h3", "", kind + " by " + text(t[TH.process])), names(t[TH.set]),
    el("div", "actions", button("zoom to it", () => frame(from[i], to[i])), button("only " + (S.sets[t[TH.set]].length > 1 ? "these resources" : "this resource"), () => only(t[TH.set]))),
    el("ol", "story", ...steps.map(s => s.line)));
  say(kind + " by " + text(t[TH.process]) + " on " + namesOf(t[TH.set]) + ", at " + clock(from[i]) + ", " +
    (held[i] ? "held for " + span(held[i]) : text(of[CA.outcome]) || "never returned"));
  redraw();
}

function selectFault(n) {
  selected = selectedViolation = -1;
  selectedFault = n;
  const f = S.faults[n], lane = S.lanes[f[0]].name;
  fill(el("h3", "", text(f[3])), el("p", "", "on " + lane),
    el("ol", "story", el("li", "fault", el("time", "", clock(f[1], 1)), f[2] < 0 ? "At this instant" : "Begins"),
      f[2] < 0 ? null : el("li", "fault", el("time", "", clock(f[2], 1)), "Ends after " + span(f[2] - f[1]))),
    f[4] ? el("p", "", text(f[4])) : null,
    el("div", "actions", button("zoom to it", () => frame(f[1], faultEnd(f), .6))));
  say("Fault " + text(f[3]) + " on " + lane + " at " + clock(f[1]) + (f[2] < 0 ? "" : " for " + span(f[2] - f[1])));
  redraw();
}

function selectViolation(n) {
  selected = selectedFault = -1;
  selectedViolation = n;
  const v = S.violations[n], there = about[n].slice(0, 12);
  aboutSelected = new Set(about[n]);
  fill(el("h3", "", "Violation " + (n + 1) + ": " + v.rule), el("p", "", v.text),
    el("ol", "story", el("li", "bad", el("time", "", clock(v.from, 1)), v.to > v.from ? "From here, for " + span(v.to - v.from) : "Here")),
    there.length ? el("p", "", "Calls and locks that are there:") : null,
    el("div", "actions", ...there.map(i => button(text(S.threads[i][TH.process]) + " " + clock(from[i]), () => select(i)))));
  say("Violation " + (n + 1) + ", " + v.rule + ": " + v.text);
  redraw();
}

// The chips of the resources: those that are used most, and a field if there are many.
const CHIPS = 12;
function only(set) {
  chosen.clear();
  for (const r of S.sets[set]) chosen.add(r);
  chips();
  filter();
}
function chips() {
  const bar = byId("resources"), uses = new Map();
  if (S.resources.length < 2) return;
  for (const t of S.threads) for (const r of S.sets[t[TH.set]]) uses.set(r, (uses.get(r) || 0) + 1);
  const all = [...S.resources.keys()].filter(r => chosen.has(r) || S.resources[r].toLowerCase().includes(sought))
    .sort((a, b) => chosen.has(b) - chosen.has(a) || (uses.get(b) || 0) - (uses.get(a) || 0)).slice(0, CHIPS).sort((a, b) => S.resources[a] < S.resources[b] ? -1 : 1);
  for (const old of bar.querySelectorAll("button")) old.remove();
  for (const r of all) {
    const swatch = el("i"), b = button("", () => {
      if (!chosen.delete(r)) chosen.add(r);
      b.setAttribute("aria-pressed", chosen.has(r));
      filter();
    });
    swatch.style.background = colorOf(r);
    b.append(swatch, el("span", "", S.resources[r]));
    b.title = "Show only " + S.resources[r];
    b.setAttribute("aria-pressed", chosen.has(r));
    bar.append(b);
  }
  if (S.resources.length > CHIPS && !bar.querySelector("input")) {
    const field = el("input");
    field.type = "search";
    field.placeholder = S.resources.length + " resources";
    field.setAttribute("aria-label", "Show only resources whose names contain");
    field.oninput = () => {
      sought = field.value.toLowerCase();
      chips();
      filter();
    };
    bar.prepend(field);
  }
}
