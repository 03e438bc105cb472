const text = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const code = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

document.body.style.margin = "0";
Redoc.init(
  "openapi.json",
  {
    theme: {
      typography: {
        fontFamily: text,
        headings: { fontFamily: text },
        code: { fontFamily: code },
      },
    },
  },
  document.getElementById("docs"),
);
