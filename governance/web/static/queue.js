// Comfort for people with a keyboard. Everything here works without it; nothing here decides.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // Clocks: count down against the server's time, not this machine's.
  const skew = Date.now() - Number(document.body.dataset.now);
  const clocks = [...document.querySelectorAll("time.left")].map((element) => ({
    element,
    until: Date.parse(element.dateTime),
  }));
  const two = (number) => String(number).padStart(2, "0");
  const span = (seconds) => {
    if (seconds >= 86400) return `${Math.floor(seconds / 86400)} d ${two(Math.floor((seconds % 86400) / 3600))} h`;
    if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
    if (seconds >= 60) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
    return `${seconds} s`;
  };
  const tick = () => {
    for (const { element, until } of clocks) {
      const seconds = Math.max(0, Math.floor((until - (Date.now() - skew)) / 1000));
      element.textContent = span(seconds);
      element.classList.toggle("soon", seconds < 900);
    }
  };
  if (clocks.length) {
    tick();
    setInterval(tick, 1000);
  }

  // Approve stays disabled until its box is ticked; the server asks for the box as well.
  const box = $("read-all");
  const approve = $("approve");
  if (box && approve) {
    const follow = () => { approve.disabled = !box.checked; };
    box.addEventListener("change", follow);
    follow();
  }

  // One click, one answer.
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
  addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form")) delete form.dataset.sent;
  });

  const help = $("help");
  const opener = $("help-open");
  if (opener) {
    opener.hidden = false;
    opener.addEventListener("click", () => help.showModal());
  }

  const links = [...document.querySelectorAll(".line h3 a")];
  const move = (by) => {
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const to = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
    links[to].focus();
    links[to].closest(".line").scrollIntoView({ block: "nearest" });
  };
  const focus = (...ids) => {
    const target = ids.map($).find((element) => element && !element.disabled);
    if (!target) return;
    target.focus();
    target.scrollIntoView({ block: "center" });
  };

  const keys = {
    j: () => move(1),
    k: () => move(-1),
    a: () => focus("approve", "read-all"),
    r: () => focus("reject-note"),
    u: () => { if ($("exact")) location.assign("/"); },
    "?": () => { if (opener) help.showModal(); },
  };
  addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
