package webhooks

// Vault encrypts secrets of other features in the database, as those of webhooks.
type Vault struct{ keys keys }

// NewVault returns the Vault of the configured secrets: the first encrypts, and all decrypt.
func NewVault(secrets []string) Vault { return Vault{newKeys(secrets)} }

// Seal encrypts the secret of the object with the id of a tenant.
func (v Vault) Seal(tenant, id string, secret []byte) []byte { return v.keys.seal(tenant, id, secret) }

// Open decrypts what Seal has returned for the same tenant and id. old reports whether the secret should be sealed
// again, because it was not encrypted with the first configured secret.
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
