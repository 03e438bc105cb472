const text = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const code = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

// shorter leaves out of each operation what the page says once: the errors that many operations share, which the
// section "Errors" lists, and the events that a webhook gets, which have a section each.
const shorter = (api) => {
  for (const path of Object.values(api.paths)) {
    for (const operation of Object.values(path)) {
      const responses = operation.responses ?? {};
      for (const status of Object.keys(responses)) {
        if (responses[status].$ref) delete responses[status];
      }
      delete operation.callbacks;
    }
  }
  return api;
};

const options = {
  hideSchemaTitles: true,
  jsonSampleExpandLevel: 1,
  theme: {
    spacing: { unit: 3, sectionHorizontal: 32, sectionVertical: 8 },
    typography: {
      fontSize: "13px",
      lineHeight: "1.35em",
      fontFamily: text,
      headings: { fontFamily: text },
      code: { fontFamily: code, fontSize: "12px" },
    },
  },
};

document.body.style.margin = "0";
fetch("openapi.json")
  .then((response) => response.json())
  .then((api) => Redoc.init(shorter(api), options, document.getElementById("docs")));
