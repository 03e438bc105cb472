//go:build ignore

// Command verify verifies a request to a webhook with the Go library of Standard Webhooks: {"secret", "headers",
// "body"} on stdin.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	var request struct {
		Secret, Body string
		Headers      map[string]string
	}
	check(json.NewDecoder(os.Stdin).Decode(&request))
	headers := http.Header{}
	for name, value := range request.Headers {
		headers.Set(name, value)
	}
	webhook, err := standardwebhooks.NewWebhook(request.Secret)
	check(err)
	check(webhook.Verify([]byte(request.Body), headers))
	if webhook.Verify([]byte(request.Body+" "), headers) == nil {
		panic("another body has the same signature")
	}
	var event struct{ Type string }
	check(json.Unmarshal([]byte(request.Body), &event))
	fmt.Println(event.Type)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
