const text = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const code = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";

// shorter leaves out of each operation what the page says once: the errors that many operations share, which the
// section "Errors" lists, and the events that a webhook gets, which have a section each.
const shorter = (api) => {
  api.servers = [{ url: new URL(".", location).href.replace(/\/$/, "") }];
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const responses = operation.responses;
      if (!responses) continue; // the parameters of the path
      operation["x-codeSamples"] = [{ lang: "Shell", label: "curl", source: curl(api, path, method, operation) }];
      for (const status of Object.keys(responses)) {
        if (responses[status].$ref) delete responses[status];
      }
      delete operation.callbacks;
    }
  }
  return api;
};

// curl returns the command that sends the example of an operation to this service.
const curl = (api, path, method, operation) => {
  const quote = (value) => `'${value.replaceAll("'", "'\\''")}'`;
  const filled = (api.paths[path].parameters ?? []).reduce(
    (url, parameter) => url.replace(`{${parameter.name}}`, parameter.example ?? `{${parameter.name}}`), path);
  const words = [`curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} ${api.servers[0].url}${filled}`];
  if ((operation.security ?? api.security).length > 0) words.push(`-H "Authorization: Bearer $TOKEN"`);
  for (const [media, content] of Object.entries(operation.requestBody?.content ?? {})) {
    words.push(`-H 'Content-Type: ${media}'`);
    const example = content.example ?? Object.values(content.examples ?? {})[0]?.value;
    if (content.schema?.format === "binary") words.push("--data-binary @FILE");
    else if (example !== undefined) {
      const body = typeof example === "string" ? example : JSON.stringify(example, null, 2);
      words.push(`--data-binary ${quote(body)}`);
    }
  }
  return words.join(" \\\n  ");
};

const paper = {
  text: { primary: "#e4e6e6", secondary: "#b6bcbf" },
  primary: { main: "#8ab4f8" },
  success: { main: "#7bc47f" },
  error: { main: "#ffb4ab" },
  border: { dark: "#4a5154", light: "#353b3e" },
  gray: { 50: "#24292b", 100: "#2c3235" },
};
const darkColors = {
  colors: {
    ...paper,
    responses: Object.fromEntries(
      [["success", paper.success.main], ["error", paper.error.main], ["redirect", "#e8c46b"], ["info", "#8ab4f8"]]
        .map(([kind, color]) => [kind, { color, backgroundColor: "#24292b", tabTextColor: color }])),
  },
  sidebar: { backgroundColor: "#24292b", textColor: "#e4e6e6", activeTextColor: "#8ab4f8" },
  rightPanel: { backgroundColor: "#15191a", textColor: "#e4e6e6" },
  codeBlock: { backgroundColor: "#0d1011" },
  schema: { nestedBackground: "#24292b", typeNameColor: "#b6bcbf", typeTitleColor: "#b6bcbf", linesColor: "#5f7d9c",
    requireLabelColor: "#ffb4ab" },
};

const spacing = { unit: 3, sectionHorizontal: 32, sectionVertical: 8 };
const typography = {
  fontSize: "13px",
  lineHeight: "1.35em",
  fontFamily: text,
  headings: { fontFamily: text },
  code: { fontFamily: code, fontSize: "12px" },
};

const dark = matchMedia("(prefers-color-scheme: dark)");
const element = document.getElementById("docs");

// show renders the page in the light or dark mode of the browser.
const show = (api) => {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
  const theme = { spacing, typography: { ...typography }, ...(dark.matches && darkColors) };
  if (dark.matches) {
    theme.typography.code = { ...typography.code, color: "#ffb4ab", backgroundColor: "#2c3235" };
    theme.typography.links = { color: "#8ab4f8", visited: "#8ab4f8", hover: "#c2d7fb" };
  }
  Redoc.init(structuredClone(api), { hideSchemaTitles: true, jsonSampleExpandLevel: 1, theme }, element);
};
fetch("openapi.json")
  .then((response) => response.json())
  .then((api) => {
    const page = shorter(api);
    show(page);
    dark.addEventListener("change", () => show(page));
  });
