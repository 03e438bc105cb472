"""Tests of verify_webhook. WEBHOOK_VECTORS is testdata/webhooks.json."""

import json
import os
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

import spoolwright


class Webhooks(unittest.TestCase):
    def test_vectors(self):
        with open(os.environ["WEBHOOK_VECTORS"], encoding="utf-8") as file:
            vectors = json.load(file)
        for v in vectors:
            for body in (v["body"], v["body"].encode()):
                with self.subTest(v["name"]):
                    args = body, v["headers"], v["secrets"]
                    if v["valid"]:
                        event = spoolwright.verify_webhook(*args, now=v["now"])
                        self.assertEqual(event.type, json.loads(v["body"])["type"])
                    else:
                        self.assertRaises(spoolwright.WebhookError, spoolwright.verify_webhook, *args, now=v["now"])
        v = vectors[0]
        with self.assertRaises(spoolwright.WebhookError):  # too old by the clock
            spoolwright.verify_webhook(v["body"], v["headers"], v["secrets"])
        with self.assertRaises(ValueError):
            spoolwright.verify_webhook(v["body"], v["headers"], "whsec_?", now=v["now"])
        upper = {name.upper(): value for name, value in v["headers"].items()}
        event = spoolwright.verify_webhook(v["body"], upper, v["secrets"][0], tolerance=1, now=v["now"])
        self.assertIsInstance(event, spoolwright.WebhookTestEvent)
        self.assertEqual((event.data.message, event.timestamp.microsecond), ("This is a test.", 123456))

    def test_request_of_the_service(self):
        got = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                got.append((self.rfile.read(int(self.headers["Content-Length"])), self.headers))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args):
                pass

        def serve(server):
            while not got:  # the service repeats a request that it gave up before sending it
                server.handle_request()

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=serve, args=(server,))
            thread.start()
            url = f"http://127.0.0.1:{server.server_port}/"
            account = os.environ["FARM_EMAIL"], os.environ["FARM_PASSWORD"]
            with spoolwright.Client.login(os.environ["FARM_URL"], *account) as farm:
                webhook = farm.webhooks.create(url=url, events=["production_run.completed"])
                farm.webhooks.test(webhook.id)
                thread.join()
                farm.webhooks.delete(webhook.id)
        event = spoolwright.verify_webhook(*got[0], webhook.secret)
        self.assertEqual(event.data.webhook_id, webhook.id)
