package testkit

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"time"
)

// TOTP returns the code that an app with the secret shows at the time: that of RFC 6238.
func TOTP(secret string, at time.Time) string {
	key, err := base32.StdEncoding.DecodeString(secret)
	if err != nil {
		panic(err)
	}
	step := at.Unix() / 30
	message := make([]byte, 8)
	for i := range message {
		message[i] = byte(step >> (8 * (7 - i)))
	}
	mac := hmac.New(sha1.New, key)
	mac.Write(message)
	sum := mac.Sum(nil)
	code := 0
	for _, b := range sum[sum[19]&0xf:][:4] {
		code = code<<8 | int(b)
	}
	return fmt.Sprintf("%06d", (code&0x7fffffff)%1000000)
}
