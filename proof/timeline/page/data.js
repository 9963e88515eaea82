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
