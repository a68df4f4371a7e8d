// Live parts, times in the viewer's zone, and buttons that copy. Pages can be read without it.
"use strict";

function localise(place) {
  for (const time of place.querySelectorAll("time[datetime]")) {
    time.title = new Date(time.dateTime).toLocaleString();
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
