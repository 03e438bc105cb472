# Verifies a request to a webhook with the Python library of Standard Webhooks: {"secret", "headers", "body"} on stdin.
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

request = json.load(sys.stdin)
webhook = Webhook(request["secret"])
event = webhook.verify(request["body"], request["headers"])
try:
    webhook.verify(request["body"] + " ", request["headers"])
except WebhookVerificationError:
    print(event["type"])
