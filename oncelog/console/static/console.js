// Puts the updates of a page in its place: the server renders them, from the same template as the page.
// Nothing here makes markup of data, and every page works without this file.
"use strict";

const view = document.getElementById("view");
const button = document.getElementById("live");
const banner = document.getElementById("banner");
let source = null;
let paused = false;

function say(state, text) {
  button.dataset.state = state;
  document.getElementById("live-text").textContent = text;
}

function warn(text) {
  banner.textContent = text;
  banner.hidden = text === "";
  view.classList.toggle("stale", text !== "");
}

// --- an update changes what is different, and leaves everything else the element that it is ---------------------------
// So a button that is pressed is still pressed, and one with the focus has it; so are scrolled tables where they were.

const ROWS = "tr, li, .card";

// What an element is, among those beside it: rows by what they are about, so that another row above changes nothing.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return String(node.nodeType);
  const own = (each) => each.id || each.dataset.key || each.getAttribute("href") || each.getAttribute("action");
  let key = own(node) || (node.matches("option") ? node.value : "");
  if (!key && node.matches("details")) key = node.querySelector("summary")?.textContent ?? "";
  if (!key && node.matches(ROWS)) {
    const named = [...node.querySelectorAll("[id]")].map((each) => each.id).join(" ");
    key = named || node.querySelector("[href]")?.getAttribute("href") || "";
  }
  return `${node.tagName} ${key || node.className}`;
}

function isHeld(node) {
  return node.contains(document.activeElement);
}

function changeAttributes(from, to) {
  for (const { name } of [...from.attributes]) {
    // A reader opens and closes these; where the pointer is, batches of one producer are marked.
    if (!to.hasAttribute(name) && !(name === "open" && from.matches("details"))) from.removeAttribute(name);
  }
  const isKin = from.classList.contains("kin");
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(name === "open" && from.matches("details"))) from.setAttribute(name, value);
  }
  if (isKin) from.classList.add("kin");
}

function change(from, to) {
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return;
  }
  changeAttributes(from, to);
  changeChildren(from, to);
}

function changeChildren(from, to) {
  const unused = new Map();
  for (const each of from.childNodes) {
    const key = keyOf(each);
    unused.set(key, [...(unused.get(key) ?? []), each]);
  }
  const pairs = [...to.childNodes].map((each) => [each, unused.get(keyOf(each))?.shift()]);
  const kept = new Set(pairs.map(([, same]) => same));
  for (const each of [...from.childNodes]) if (!kept.has(each)) each.remove();
  let next = from.firstChild;
  for (const [wanted, same] of pairs) {
    if (same === undefined) {
      from.insertBefore(wanted, next);
      continue;
    }
    // What is moved loses the focus: so the others are.
    while (next !== same && isHeld(same)) {
      const other = next;
      next = next.nextSibling;
      other.remove();
    }
    if (next === same) next = next.nextSibling;
    else from.insertBefore(same, next);
    change(same, wanted);
  }
}

function put(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  const active = document.activeElement;
  const key = view.contains(active) && active !== view ? keyOf(active) : null;
  changeChildren(view, made.content);
  if (key !== null && !view.contains(document.activeElement)) {
    [...view.querySelectorAll("a[href], [id]")].find((each) => keyOf(each) === key)?.focus({ preventScroll: true });
  }
}

// While a button is pressed, text selected, or a list of choices open, an update waits for the end of that.
let pending = null;
let isPressed = false;
// The select whose list may be open: browsers do not say when it opens. The focus stays after a choice.
let opened = null;
const OPENS = [" ", "Enter", "F4", "ArrowDown", "ArrowUp"];

function isBusy() {
  const selection = document.getSelection();
  const selects = !selection.isCollapsed && view.contains(selection.anchorNode);
  return isPressed || selects || opened !== null;
}

function putPending() {
  if (pending === null) return;
  const isHeldBack = isBusy();
  if (!isHeldBack) {
    const html = pending;
    pending = null;
    put(html);
  }
  // Trouble and a pause stay said.
  if (source !== null && banner.hidden) say(isHeldBack ? "waiting" : "live", isHeldBack ? "held" : "live");
}

function open(select) {
  opened = select;
  if (select === null) setTimeout(putPending); // after the change that closes it
}

// What had the focus before may change, and lose it, after the press that opens.
function close(event) {
  if (event.target === opened) open(null);
}

function press(isDown) {
  isPressed = isDown;
  if (!isDown) setTimeout(putPending); // after the click that this is
}

// Another button opens a menu, and its release is not always heard of.
document.addEventListener("pointerdown", (event) => event.button === 0 && press(true), true);
for (const name of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(name, () => press(false), true);
window.addEventListener("blur", () => press(false));
document.addEventListener("selectionchange", () => setTimeout(putPending));
for (const name of ["change", "focusout"]) view.addEventListener(name, close);
view.addEventListener("pointerdown", (event) => event.button === 0 && open(event.target.closest("select")));
view.addEventListener("keydown", (event) => {
  if (event.key === "Escape" || (event.key === "Enter" && opened !== null)) open(null);
  else if (OPENS.includes(event.key) && event.target.matches("select")) open(event.target);
});

function follow() {
  if (source !== null || paused || document.hidden) return;
  say("waiting", "connecting");
  source = new EventSource(view.dataset.live);
  source.addEventListener("view", (event) => {
    warn("");
    pending = event.data;
    putPending();
  });
  source.addEventListener("trouble", (event) => {
    const said = document.createElement("template");
    said.innerHTML = event.data;
    say("waiting", "reconnecting");
    const text = (selector) => said.content.querySelector(selector)?.textContent.trim() ?? "";
    warn(`${text("h1")}: ${text(".said")}. Shown is what it was; this page keeps asking.`);
  });
  source.addEventListener("error", () => {
    say("waiting", "reconnecting");
    warn("This console itself does not respond. Shown is what it was; this page keeps asking.");
    if (source !== null && source.readyState === EventSource.CLOSED) {
      stop();
      setTimeout(follow, 2000);
    }
  });
}

function stop() {
  source?.close();
  source = null;
  pending = null;
}

if (view.dataset.live) {
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    if (paused) {
      stop();
      warn("");
      say("still", "paused");
    } else {
      follow();
    }
  });
  // A browser has six connections to one host: a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", follow);
}

// All batches of the producer under the pointer, or with the focus.
function mark(event, on) {
  const producer = event.target.dataset?.producer;
  if (!producer) return;
  for (const each of view.querySelectorAll("[data-producer]")) {
    each.classList.toggle("kin", on && each.dataset.producer === producer);
  }
}
for (const [name, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]) {
  view.addEventListener(name, (event) => mark(event, on));
}
