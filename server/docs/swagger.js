// A token or an API key lives in the session storage: it survives a reload, and not the tab.
const stored = "spoolwright-authorization";

// remember stores what Authorize sets, and logging out there removes it.
const remember = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (original) => (authorization) => {
          const others = JSON.parse(sessionStorage.getItem(stored) ?? "{}");
          sessionStorage.setItem(stored, JSON.stringify({ ...others, ...authorization }));
          return original(authorization);
        },
        logout: (original) => (names) => {
          const left = JSON.parse(sessionStorage.getItem(stored) ?? "{}");
          for (const name of names) delete left[name];
          sessionStorage.setItem(stored, JSON.stringify(left));
          return original(names);
        },
      },
    },
  },
});

document.body.style.margin = "0";
const ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false, // that would be the local storage
  tryItOutEnabled: true,
  validatorUrl: null, // the default sends the description to a public service
  plugins: [remember],
  onComplete: () => {
    const authorization = sessionStorage.getItem(stored);
    if (authorization) ui.authActions.authorize(JSON.parse(authorization));
  },
  responseInterceptor: (response) => {
    // A login with "Try it out" authorizes the other operations.
    if (response.ok && new URL(response.url).pathname.endsWith("/api/v1/auth/login")) {
      ui.preauthorizeApiKey("bearerAuth", response.obj.access_token);
    }
    return response;
  },
});
