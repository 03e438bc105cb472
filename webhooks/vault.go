package webhooks

// Vault encrypts secrets in the database as those of webhooks, for other features with secrets that the service needs
// in plain text.
type Vault struct{ keys keys }

// NewVault returns the Vault of the configured secrets: the first encrypts, and all decrypt.
func NewVault(secrets []string) Vault { return Vault{newKeys(secrets)} }

// Seal encrypts the secret of something of a tenant with the id.
func (v Vault) Seal(tenant, id string, secret []byte) []byte { return v.keys.seal(tenant, id, secret) }

// Open decrypts what Seal has returned for the same tenant and id. Old reports whether it should be sealed again,
// because another than the first configured secret has encrypted it.
func (v Vault) Open(tenant, id string, sealed []byte) (secret []byte, old bool, err error) {
	secret, key, err := v.keys.open(tenant, id, sealed)
	return secret, key > 0, err
}

// NewSecret returns a new secret in the form in which users see it.
func NewSecret() string { return encodeSecret(newSecret()) }

// Signature returns a signature as specified by Standard Webhooks, for the header webhook-signature.
func Signature(secret []byte, id string, timestamp int64, body []byte) string {
	return signature(secret, id, timestamp, body)
}
