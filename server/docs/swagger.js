// The page follows the light or dark mode of the browser.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

// What Authorize and the login set lives in the session storage: it survives a reload, and not the tab.
const read = (name) => JSON.parse(sessionStorage.getItem(name));
const write = (name, value) => sessionStorage.setItem(name, JSON.stringify(value));

const [form, account, message] = ["login", "account", "message"].map((id) => document.getElementById(id));

// session returns the login whose access token is the one that authorizes requests, or null.
const session = () => {
  const login = read("login");
  return login && login.access_token === read("authorization")?.bearerAuth?.value ? login : null;
};

const show = (text = "") => {
  const login = session();
  form.hidden = Boolean(login);
  account.hidden = !login;
  account.firstElementChild.textContent = login?.email ? `Logged in as ${login.email}` : "Logged in";
  message.textContent = text;
};

const post = (path, body, token) =>
  fetch(`api/v1/auth/${path}`, {
    method: "POST",
    keepalive: true, // a logout also ends the session if the page is left at once
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });

// start authorizes requests with the tokens of a login or a refresh.
const start = (tokens, email) => {
  write("login", { ...tokens, email, expires: Date.now() + tokens.expires_in * 1000 });
  const schema = { type: "http", scheme: "bearer" };
  ui.authActions.authorize({ bearerAuth: { name: "bearerAuth", schema, value: tokens.access_token } });
};

// renew gets new tokens shortly before the access token expires.
const renew = async () => {
  const login = session();
  if (!login || Date.now() < login.expires - 30_000) return;
  const response = await post("refresh", { refresh_token: login.refresh_token });
  if (response.ok) {
    start(await response.json(), login.email);
  } else if (response.status === 401) {
    ui.authActions.logout(["bearerAuth"]);
    show("Your login has expired. Log in again.");
  }
};
let renewal = null; // concurrent requests share one, because a refresh token is valid once
const renewed = () => (renewal ??= renew().finally(() => (renewal = null)));

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { email, password } = form.elements;
  const response = await post("login", { email: email.value, password: password.value }).catch(() => null);
  if (!response) return show("The service does not answer.");
  const body = await response.json();
  if (!response.ok) return show(body.detail);
  password.value = "";
  start(body, email.value);
});
account.lastElementChild.addEventListener("click", () => ui.authActions.logout(["bearerAuth"]));

// introduction is the description of the document up to its first section. /redoc shows all sections.
const introduction = (text) => {
  const api = JSON.parse(text);
  api.info.description = api.info.description.split("\n## ")[0];
  return JSON.stringify(api);
};

// matches returns the tags with those of their operations that contain the text of the filter.
const matches = (tags, text) =>
  tags
    .map((tag, name) =>
      tag.update("operations", (operations) =>
        operations.filter((o) =>
          [name, ...["method", "path"].map((key) => o.get(key)), o.getIn(["operation", "summary"])]
            .join(" ").toLowerCase().includes(text.trim().toLowerCase()),
        ),
      ),
    )
    .filter((tag) => tag.get("operations").size > 0);

const plugin = ({ React }) => ({
  // Swagger UI has no component of its own for an entry of a list of ids, and says so in the console.
  components: {
    JsonSchema_string_uuid: (props) => React.createElement(props.getComponent("JsonSchema_string"), props),
  },
  fn: { opsFilter: matches },
  wrapComponents: {
    // A filter opens the tags that it leaves.
    OperationTag: (original, { React }) => (props) => {
      const filtered = ![true, "true", "", undefined].includes(props.layoutSelectors.currentFilter());
      const docExpansion = filtered ? "list" : "none";
      return React.createElement(original, { ...props, getConfigs: () => ({ ...props.getConfigs(), docExpansion }) });
    },
  },
  statePlugins: {
    spec: { wrapActions: { updateSpec: (original) => (text) => original(introduction(text)) } },
    auth: {
      wrapActions: {
        // A token replaces a key, and the reverse: the service rejects a request with both.
        authorize: (original, system) => (authorization) => {
          const others = Object.keys(read("authorization") ?? {}).filter((name) => !(name in authorization));
          if (others.length > 0) system.authActions.logout(others);
          write("authorization", authorization);
          show();
          return original(authorization);
        },
        logout: (original) => (names) => {
          const login = session();
          const left = Object.entries(read("authorization") ?? {}).filter(([name]) => !names.includes(name));
          write("authorization", left.length > 0 ? Object.fromEntries(left) : null);
          if (login && names.includes("bearerAuth")) {
            post("logout", { refresh_token: login.refresh_token }, login.access_token).catch(() => {});
            write("login", null);
          }
          show();
          return original(names);
        },
      },
    },
  },
});

const ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false, // that would be the local storage
  tryItOutEnabled: true,
  validatorUrl: null, // the default sends the description to a public service
  plugins: [plugin],
  onComplete: () => {
    const authorization = read("authorization");
    if (authorization) ui.authActions.authorize(authorization);
    show();
    document.querySelector(".operation-filter-input").placeholder = "Filter operations, such as: deduct";
  },
  requestInterceptor: async (request) => {
    if (request.headers?.Authorization === `Bearer ${session()?.access_token}`) {
      await renewed();
      const login = session();
      if (login) request.headers.Authorization = `Bearer ${login.access_token}`;
    }
    return request;
  },
  responseInterceptor: (response) => {
    // "Try it out" of these operations authorizes the others too.
    if (response.ok && /\/api\/v1\/auth\/(login|refresh)$/.test(new URL(response.url).pathname)) start(response.obj);
    return response;
  },
});
