"use strict";
// The page shows what the playground says, and has it do what its buttons are for. It decides nothing by itself.
let state = null, got = 0;

// now is the playground's time, in milliseconds.
const now = () => state.now + performance.now() - got;
const seconds = ms => (Math.max(0, ms) / 1000).toFixed(1) + " s";

async function act(what) {
  try {
    const answer = await fetch("do?" + new URLSearchParams({what}), {method: "POST"});
    if (!answer.ok) throw new Error(await answer.text());
  } catch (why) {
    byId("latest").textContent = "That did not work: " + why.message;
  }
}

// A button does what its current meaning is; setting that to nothing disables it.
function button(cls = "") {
  const b = el("button", cls);
  b.onclick = () => act(b.dataset.does);
  return b;
}
function means(b, text, does) {
  if (b.textContent !== text) b.textContent = text;
  b.disabled = !does;
  b.dataset.does = does || "";
}
function put(e, text) { if (e.textContent !== text) e.textContent = text; }

const faults = {down: "is down", frozen: "is frozen", delayed: "is slow"};

function nodeCard(n) {
  const c = {square: el("span", "square"), name: el("b", "", "Node " + n.name), note: el("small"), fill: el("i"),
    kill: button(), freeze: button(), delay: button(), empty: button()};
  const buttons = el("div", "buttons", c.kill, c.freeze, c.delay, c.empty);
  buttons.setAttribute("role", "group");
  buttons.setAttribute("aria-label", "Node " + n.name);
  c.card = el("div", "card", el("div", "head", c.square, el("div", "", c.name, c.note)), el("div", "meter", c.fill), buttons);
  c.empty.title = "Restarts the node without its keys, as a server without a disk does";
  return c;
}
function showNode(c, n) {
  c.card.className = "card" + (n.fault || n.abstains ? " fault" : "") + (n.fault === "down" ? " down" : "");
  c.square.className = "square " + n.holder;
  put(c.square, n.holder);
  c.square.setAttribute("aria-label", n.holder ? "stores the key of client " + n.holder : "stores no key");
  c.square.setAttribute("role", "img");
  const usable = n.fault === "" || n.fault === "delayed";
  means(c.kill, n.fault === "down" ? "Restart" : "Kill", (n.fault === "down" ? "restart " : "kill ") + n.name);
  means(c.freeze, n.fault === "frozen" ? "Thaw" : "Freeze", n.fault === "frozen" ? "thaw " + n.name : usable && "freeze " + n.name);
  means(c.delay, n.fault === "delayed" ? "Speed up" : "Delay", n.fault === "delayed" ? "hurry " + n.name : usable && "delay " + n.name);
  means(c.empty, "Empty", "empty " + n.name);
}
function ageNode(c, n, t) {
  const left = n.holder ? Math.max(0, n.expires - t) : 0;
  c.fill.className = n.holder;
  c.fill.style.width = 100 * Math.min(1, left / state.ttl) + "%";
  const parts = [];
  if (faults[n.fault]) parts.push(faults[n.fault]);
  if (n.abstains) parts.push("in quarantine, " + seconds(n.abstains - t));
  if (n.holder) parts.push(n.holder + "'s key, " + seconds(left));
  put(c.note, parts.join(" · ") || "up, no key");
}

function clientCard(k) {
  const c = {badge: el("span", "badge " + k.name, k.name), does: el("b"), note: el("small"), fill: el("i", k.name), squares: [],
    lock: button("main"), keep: button(), suspend: button(), write: button()};
  c.squares = state.nodes.map(n => el("i", "", n.name));
  const squares = el("div", "squares", ...c.squares), buttons = el("div", "buttons", c.lock, c.keep, c.suspend, c.write);
  squares.setAttribute("role", "img");
  c.row = squares;
  buttons.setAttribute("role", "group");
  buttons.setAttribute("aria-label", "Client " + k.name);
  c.card = el("div", "card", el("div", "head", c.badge, el("div", "", c.does, c.note)), squares, el("div", "meter", c.fill), buttons);
  return c;
}
const does = {holds: "has the lock", believes: "believes it has the lock", waits: "waits in line", asks: "asks the nodes", "": "is idle"};
function showClient(c, k) {
  const two = state.clients.filter(o => o.state === "holds").length > 1 && k.state === "holds";
  c.card.className = "card state-" + k.state + (k.suspended ? " fault" : "") + (two ? " two" : "");
  put(c.does, does[k.state]);
  let on = 0;
  state.nodes.forEach((n, i) => {
    const has = n.holder === k.name;
    on += has;
    c.squares[i].className = has ? "on " + k.name : "";
  });
  c.row.setAttribute("aria-label", on + " of 5 nodes store the key of client " + k.name);
  const has = k.state === "holds" || k.state === "believes", busy = k.state === "waits" || k.state === "asks";
  means(c.lock, has ? "Release" : busy ? "Give up" : "Lock", !k.suspended && (has ? "release " : busy ? "giveup " : "lock ") + k.name);
  means(c.keep, k.kept ? "Let it end" : "Keep alive", !k.suspended && has && (k.kept ? "let " : "keep ") + k.name);
  means(c.suspend, k.suspended ? "Resume" : "Suspend", (k.suspended ? "resume " : "suspend ") + k.name);
  means(c.write, "Write", !k.suspended && k.fence && "write " + k.name);
}
function ageClient(c, k, t) {
  const left = Math.max(0, k.until - t), parts = [];
  if (k.suspended) parts.push("suspended");
  if (k.state === "holds") parts.push(seconds(left) + " left" + (k.kept ? ", extends it" : ""));
  if (k.state === "believes") parts.push("ended " + seconds(t - k.until) + " ago");
  put(c.note, parts.join(" · ") + (k.fence ? (parts.length ? "\n" : "") + "fence " + k.fence : "") || "no lock so far");
  c.fill.style.width = 100 * Math.min(1, left / state.ttl) + "%";
}

// The cards are made once, so that a button keeps the focus.
let nodes = [], clients = [], register = null, switches = [];
function make() {
  nodes = state.nodes.map(nodeCard);
  clients = state.clients.map(clientCard);
  register = {by: el("span", "square"), what: el("b", "", "The register"), note: el("small")};
  const about = el("p", "note", "stands for what the lock protects. It refuses a write whose fence is smaller than one that it has seen.");
  byId("nodes").replaceChildren(...nodes.map(c => c.card));
  byId("clients").replaceChildren(...clients.map(c => c.card),
    el("div", "card register", el("div", "head", register.by, el("div", "", register.what, register.note)), about));
  const text = {auto: "Auto", quarantine: "Quarantine"};
  const title = {auto: "The clients lock and release by themselves",
    quarantine: "Nodes that have lost their keys abstain for a while. Switching it starts over"};
  switches = Object.keys(text).map(name => {
    const b = el("button", "switch", text[name]);
    b.setAttribute("role", "switch");
    b.title = title[name];
    b.name = name;
    b.onclick = () => act(name + (state[name] ? " off" : " on"));
    return b;
  });
  const reset = button();
  means(reset, "Start over", "reset");
  byId("switches").replaceChildren(...switches, reset);
}

function show(s) {
  const first = !state;
  state = s;
  got = performance.now();
  if (first) make();
  s.nodes.forEach((n, i) => showNode(nodes[i], n));
  s.clients.forEach((k, i) => showClient(clients[i], k));
  register.by.className = "square " + s.register.by;
  put(register.by, s.register.by || "–");
  put(register.note, s.register.writes ? s.register.writes + (s.register.writes > 1 ? " writes" : " write") + " · has seen fence " + s.register.fence : "nobody has written");
  switches.forEach(b => b.setAttribute("aria-checked", s[b.name]));
  showLog(s);
  age();
}

let newest = 0;
const badge = who => el("i", who || "", who || "");
function showLog(s) {
  const fresh = s.log.filter(e => e.n > newest);
  for (const e of fresh) {
    byId("log").prepend(el("li", e.kind, el("time", "", (e.at / 1000).toFixed(1) + " s"), badge(e.who), el("span", "", e.text)));
    newest = e.n;
  }
  while (byId("log").children.length > 100) byId("log").lastChild.remove();
  const last = s.log.at(-1);
  if (last) put(byId("latest"), last.text);
  byId("now").className = last ? last.kind : "";
}

// age shows what changes with time alone.
function age() {
  const t = now();
  state.nodes.forEach((n, i) => ageNode(nodes[i], n, t));
  state.clients.forEach((k, i) => ageClient(clients[i], k, t));
  drawLanes(state, t);
}
let aged = 0;
function frame(t) {
  if (state && t - aged > 40) {
    aged = t;
    age();
  }
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);

const events = new EventSource("events");
events.onmessage = e => {
  byId("gone").hidden = true;
  show(JSON.parse(e.data));
};
events.onerror = () => { byId("gone").hidden = false; };
