/* What HTMX does not do: move values within a part, say how the connection is, copy, count ages on. */
(() => {
  "use strict";
  const stream = document.getElementById("stream");
  const connection = document.getElementById("connection");
  const said = document.getElementById("said");
  const title = document.title;

  function show(name, value) {
    if (name === "title") {
      document.title = value || title;
      return;
    }
    for (const element of document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`)) {
      if (element.tagName === "PROGRESS") {
        if (value === null) element.removeAttribute("value");
        else element.value = value;
      } else if (element.getAttribute("role") === "meter") {
        const percent = 100 * (value ?? 0);
        element.setAttribute("aria-valuenow", Math.round(percent));
        element.firstElementChild.setAttribute("width", percent.toFixed(1));
      } else if (element.textContent !== (value ?? "")) {
        element.textContent = value ?? "";
        // A word that has a colour of its own.
        if ("word" in element.dataset) element.dataset.word = value ?? "";
      }
    }
  }

  function connected(state, text) {
    if (!connection || connection.dataset.state === state) return;
    if (state === "lost") said.textContent = "The connection to Sitrep is lost.";
    else if (connection.dataset.state === "lost") said.textContent = "Connected to Sitrep again.";
    connection.dataset.state = state;
    connection.querySelector("[data-text]").textContent = text;
  }

  if (stream) {
    stream.addEventListener("live", (event) => {
      for (const [name, value] of Object.entries(JSON.parse(event.detail.data))) show(name, value);
    });
    stream.addEventListener("reload", () => location.reload());
    stream.addEventListener("htmx:sse:after:connection", () => connected("live", "live"));
    stream.addEventListener("htmx:sse:error", (event) => {
      if (event.detail.status === 401) location.reload();
      connected("lost", "connection lost");
    });
    stream.addEventListener("htmx:sse:before:connection", (event) => {
      if (event.detail.connection.attempt > 1) connected("lost", "connection lost");
    });
    // The extension tries again by itself only after a first success.
    stream.addEventListener("htmx:error", () => {
      connected("lost", "connection lost");
      setTimeout(() => stream.dispatchEvent(new CustomEvent("again")), 3000);
    });
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      said.textContent = "Copied.";
    } catch {
      // Without TLS a browser may refuse: then it is at least selected.
      getSelection().selectAllChildren(source);
      said.textContent = "Selected; copy it with your keyboard.";
    }
    const before = button.innerHTML;
    button.textContent = said.textContent === "Copied." ? "Copied" : "Selected";
    setTimeout(() => { button.innerHTML = before; said.textContent = ""; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button && !button.dataset.busy) {
      button.dataset.busy = "1";
      copy(button).finally(() => setTimeout(() => delete button.dataset.busy, 1600));
    }
  });

  const SIZES = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

  function age(seconds) {
    if (seconds < 5) return "just now";
    const [size, name] = SIZES.find(([size]) => seconds >= size);
    return `${Math.floor(seconds / size)} ${name} ago`;
  }

  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-ago]")) {
      const text = age((Date.now() - Date.parse(element.dateTime)) / 1000);
      if (element.textContent !== text) element.textContent = text;
    }
  }, 5000);
})();
