// Live parts, times in the viewer's zone, and buttons that copy. Pages can be read without it.
"use strict";

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

// The viewer's own time first, with UTC beside, unless both are the same.
function localise(place) {
  for (const time of place.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    time.title = moment.toISOString();
    if (!moment.getTimezoneOffset()) continue;
    const utc = document.createElement("small");
    utc.textContent = time.dateTime.slice(11, 16) + " UTC";
    time.replaceChildren(LOCAL.format(moment), " ", utc);
  }
}

function addCopyButton(code) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy " + code.textContent);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  });
  code.after(button);
}

function follow(place) {
  const source = new EventSource(place.dataset.events);
  source.addEventListener("message", (event) => {
    place.innerHTML = event.data;
    localise(place);
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
}

localise(document);
if (navigator.clipboard) document.querySelectorAll("code[data-copy]").forEach(addCopyButton);
document.querySelectorAll("[data-events]").forEach(follow);
