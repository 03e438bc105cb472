document.body.style.margin = "0";
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false, // a token must not outlive the tab
  tryItOutEnabled: true,
  validatorUrl: null, // the default sends the description to a public service
});
