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

function isBusy() {
  const active = document.activeElement;
  const writes = view.contains(active) && active.matches("input, select, textarea");
  const selection = document.getSelection();
  return writes || (!selection.isCollapsed && view.contains(selection.anchorNode));
}

function put(html) {
  const next = document.createElement("template");
  next.innerHTML = html;
  // What a reader has opened, scrolled and focused stays so, if it is still there.
  const opened = new Map([...view.querySelectorAll("details > summary")].map((each) => [each.textContent, each.parentElement.open]));
  for (const summary of next.content.querySelectorAll("details > summary")) {
    summary.parentElement.open = opened.get(summary.textContent) ?? summary.parentElement.open;
  }
  // Half a form stays as it was typed.
  for (const typed of view.querySelectorAll("form[id] [id]:is(input, select, textarea)")) {
    const same = next.content.getElementById(typed.id);
    if (same && (!same.options || [...same.options].some((each) => each.value === typed.value))) same.value = typed.value;
  }
  const scrolled = [...view.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const focused = view.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  view.replaceChildren(next.content);
  view.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
  if (focused !== null) {
    [...view.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === focused)?.focus();
  }
}

function follow() {
  if (source !== null || paused || document.hidden) return;
  say("waiting", "connecting");
  source = new EventSource(view.dataset.live);
  source.addEventListener("view", (event) => {
    say("live", "live");
    warn("");
    if (!isBusy()) put(event.data);
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
