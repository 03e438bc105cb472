"""Tests of the client against a real service. tests/blackbox/sdk_test.go starts the service and a proxy that breaks requests.

FARM_URL, FARM_EMAIL, FARM_PASSWORD: the service. FARM_PROXY: the proxy. FARM_TLS_URL, FARM_CA: a service with HTTPS,
and its certificate. FARM_DEDUCTIONS: the number of deductions through broken connections.
"""

import datetime
import inspect
import json
import os
import pickle
import random
import socket
import ssl
import threading
import time
import unittest
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from unittest import mock

import spoolwright
from spoolwright import _core

URL, PROXY = os.environ["FARM_URL"], os.environ["FARM_PROXY"]
ACCOUNT = os.environ["FARM_EMAIL"], os.environ["FARM_PASSWORD"]


def faults(*rules):
    body = json.dumps(rules).encode()
    urllib.request.urlopen(urllib.request.Request(PROXY + "/_faults", body, method="POST")).close()


def requests(method="", path=""):
    with urllib.request.urlopen(PROXY + "/_faults") as response:
        log = json.load(response)
    return [r for r in log if r["method"].startswith(method) and r["path"].startswith(path)]


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition was not met within 60 seconds")
        time.sleep(0.01)


def setUpModule():
    global DIRECT, KEY
    DIRECT = spoolwright.Client.login(URL, *ACCOUNT)
    KEY = DIRECT.api_keys.create(name="tests", role="operator").key
    unittest.addModuleCleanup(DIRECT.close)


class Case(unittest.TestCase):
    """``direct`` reaches the service, and ``farm`` reaches it through the proxy."""

    def setUp(self):
        faults()
        self.direct = DIRECT
        self.farm = spoolwright.Client(PROXY, api_key=KEY)
        self.addCleanup(self.farm.close)

    def login(self):
        self.farm = spoolwright.Client.login(PROXY, *ACCOUNT)
        self.addCleanup(self.farm.close)

    def spool(self, **fields):
        values = {"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
        return self.direct.spools.create(**{**values, **fields})

    def remaining(self, spool):
        return self.direct.spools.get(spool.id).remaining_weight_grams


class Calls(Case):
    def test_values(self):
        spool = self.spool(
            net_weight_grams=Decimal("999999.123456"),
            purchase_price=24.99,
            purchase_date=datetime.date(2024, 1, 10),
            notes="a\n\u00e4\U0001f9f5",
        )
        self.assertEqual(spool.net_weight_grams, 999999.123456)
        self.assertEqual(spool.net_weight_grams.decimal, Decimal("999999.123456"))
        self.assertIsInstance(spool.diameter_mm, spoolwright.Number)
        self.assertEqual(spool.purchase_date, datetime.date(2024, 1, 10))
        self.assertEqual(spool.created_at.tzinfo, datetime.timezone.utc)
        self.assertEqual(spool.notes, "a\n\u00e4\U0001f9f5")
        self.assertIsNone(spool.brand)
        with self.assertRaises(AttributeError):
            spool.brand = "x"
        self.assertEqual(self.direct.spools.get(spool.id), spool)
        for text in ("0.1", "0.000001", "123456789.987654", "5", "1E+2", "100000.000001"):
            self.assertEqual(spoolwright.Number(text).decimal, Decimal(text))

    def test_number_fields_are_sent_exactly(self):
        sent = {"a": Decimal("0.1"), "b": Decimal("1E-6"), "c": [Decimal("900000000.000001")], "d": spoolwright.UNSET}
        self.assertEqual(_core.encode(sent), '{"a":0.1,"b":0.000001,"c":[900000000.000001]}')
        with self.assertRaises(ValueError):
            _core.encode({"a": Decimal("NaN")})
        with self.assertRaises(ValueError):
            _core.encode({"a": float("inf")})

    def test_times(self):
        noon = datetime.datetime(2024, 1, 15, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        run = self.direct.production_runs.create(started_at=noon)
        self.assertEqual(run.started_at, noon)
        with self.assertRaises(ValueError):
            self.direct.production_runs.create(started_at=datetime.datetime(2024, 1, 15))
        for text, microsecond in (("10:00:00Z", 0), ("10:00:00.5Z", 500000), ("10:00:00.123456Z", 123456)):
            self.assertEqual(_core.timestamp("2024-01-15T" + text).microsecond, microsecond)

    def test_update_and_etag(self):
        spool = self.direct.spools.get(self.spool(brand="Polymaker", notes="keep").id)
        self.assertIsNotNone(spool.etag)
        changed = self.direct.spools.update(spool.id, brand=None, location="Shelf A3", if_match=spool.etag)
        self.assertEqual((changed.brand, changed.notes, changed.location), (None, "keep", "Shelf A3"))
        with self.assertRaises(spoolwright.PreconditionFailedError):
            self.direct.spools.update(spool.id, location="B", if_match=spool.etag)
        with self.assertRaises(spoolwright.PreconditionFailedError):
            self.direct.spools.delete(spool.id, if_match=spool.etag)
        self.direct.spools.delete(spool.id, if_match=changed.etag)
        with self.assertRaises(spoolwright.NotFoundError):
            self.direct.spools.get(spool.id)
        self.assertEqual(self.direct.spools.restore(spool.id).id, spool.id)

    def test_create_batch_lists_and_nested(self):
        color = "many " + str(uuid.uuid4())
        many = self.direct.spools.create_batch(
            quantity=3, material_type="PLA", color=color, diameter_mm=1.75, net_weight_grams=1000
        )
        self.assertEqual(len(many.items), 3)
        page = self.direct.spools.list(color=color, limit=2, in_stock=True, sort_by="number", sort_order="asc")
        self.assertEqual((page.total, [s.id for s in page.items]), (3, [s.id for s in many.items[:2]]))
        product = self.direct.products.create(
            name="Vase", materials=[{"material_type": "PLA", "color": color, "weight_grams": Decimal("45.5")}]
        )
        self.assertEqual(product.materials[0].weight_grams, 45.5)
        run = self.direct.production_runs.create(
            items=[{"product_id": product.id, "quantity": 2}],
            materials=[{"spool_id": many.items[0].id, "estimated_weight_grams": 91}],
        )
        self.direct.production_runs.update_material(run.id, run.materials[0].id, actual_weight_grams=92.5)
        done = self.direct.production_runs.complete(run.id)
        self.assertEqual([d.new_weight for d in done.spools_updated], [907.5])
        usage = list(self.direct.spools.iterate_usage(many.items[0].id))
        self.assertEqual([u.change_grams for u in usage], [-92.5, 1000])

    def test_csv(self):
        created = self.direct.spools.import_csv("material_type,color,diameter_mm,net_weight_grams\nPLA,Csv,1.75,750\n")
        self.assertEqual(created.created, 1)
        self.assertIn(",Csv,", self.direct.spools.export())

    def test_errors(self):
        spool = self.spool()
        with self.assertRaises(spoolwright.InsufficientFilamentError) as caught:
            self.direct.spools.deduct(spool.id, weight_grams=1001)
        error = caught.exception
        self.assertEqual((error.status, error.code), (400, "INSUFFICIENT_FILAMENT"))
        self.assertTrue(error.request_id)
        self.assertIn("1001", str(error))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), str(copy)), (type(error), str(error)))
        with self.assertRaises(spoolwright.ValidationError) as caught:
            self.direct.spools.create(material_type="wood", color="", diameter_mm=1.75, net_weight_grams=0)
        fields = [e.field for e in caught.exception.errors]
        self.assertEqual(fields, ["material_type", "color", "net_weight_grams"])
        with self.assertRaises(spoolwright.InvalidCredentialsError):
            spoolwright.Client.login(URL, "ada@farm.example", "wrong password")
        with self.assertRaises(spoolwright.InvalidApiKeyError), spoolwright.Client(URL, api_key="swk_wrong") as farm:
            farm.spools.list()
        with self.assertRaises(spoolwright.Error):
            spoolwright.Client(URL).spools.list()
        with self.assertRaises(ValueError):
            spoolwright.Client("farm.example", api_key="x")
        with self.assertRaises(ValueError):
            self.direct.spools.get("")

    def test_ids_are_quoted(self):
        with self.assertRaises(spoolwright.ApiError):
            self.farm.spools.get("../users?x=1#")
        self.assertEqual(requests()[0]["path"], "/api/v1/spools/../users?x=1#")

    def test_api_key(self):
        key = self.direct.api_keys.create(name="script", role="viewer")
        with spoolwright.Client(URL, api_key=key.key) as reader:
            self.assertGreaterEqual(reader.spools.list().total, 0)
            with self.assertRaises(spoolwright.ForbiddenError):
                reader.spools.create(material_type="PLA", color="x", diameter_mm=1.75, net_weight_grams=1)

    def test_docstrings(self):
        text = inspect.getdoc(self.direct.spools.deduct)
        self.assertIn("Deduct filament", text)
        self.assertIn(":param weight_grams: Grams to deduct.", text)

    def test_logout(self):
        self.login()
        self.farm.logout()
        faults({"fault": "status", "path": "/api/v1/spools", "status": 401, "times": 1, "body": "{}"})
        with self.assertRaises(spoolwright.ApiError):
            self.farm.spools.list()
        self.assertEqual(requests("POST", "/api/v1/auth/refresh"), [])

    def test_unknown_and_missing_fields(self):
        body = json.dumps({"id": "x", "surprise": 1, "net_weight_grams": 5})
        faults({"fault": "status", "path": "/api/v1/spools/", "status": 200, "body": body})
        spool = self.farm.spools.get("x")
        self.assertEqual((spool.id, spool.net_weight_grams, spool.created_at), ("x", 5.0, None))


class Retries(Case):
    def test_post_with_lost_answer_happens_once(self):
        for fault in ("before", "during", "after"):
            spool = self.spool()
            faults({"fault": fault, "path": f"/api/v1/spools/{spool.id}/deduct", "times": 2})
            left = self.farm.spools.deduct(spool.id, weight_grams=45.5).remaining_weight_grams
            self.assertEqual((left, self.remaining(spool)), (954.5, 954.5))
            keys = {r["key"] for r in requests("POST", "/api/v1/spools")}
            self.assertEqual((len(keys), len(requests("POST", "/api/v1/spools"))), (1, 3))
        faults()
        self.farm.spools.deduct(spool.id, weight_grams=1)
        self.farm.spools.deduct(spool.id, weight_grams=1)
        self.assertEqual(len({r["key"] for r in requests("POST")}), 2)
        self.farm.spools.deduct(spool.id, weight_grams=1, idempotency_key="mine")
        self.farm.spools.deduct(spool.id, weight_grams=1, idempotency_key="mine")
        self.assertEqual(self.remaining(spool), 951.5)

    def test_gives_up(self):
        faults({"fault": "after", "method": "GET", "path": "/api/v1/spools"})
        with self.assertRaises(spoolwright.TransportError) as caught:
            self.farm.spools.list()
        self.assertTrue(caught.exception.sent)
        self.assertEqual(len(requests("GET")), 3)
        faults({"fault": "after", "method": "GET", "path": "/api/v1/spools"})
        with self.assertRaises(spoolwright.TransportError):
            self.farm.with_options(retries=0).spools.list()
        self.assertEqual(len(requests("GET")), 1)

    def test_status(self):
        for status, header in ((429, {"Retry-After": "1"}), (502, {}), (503, {}), (504, {})):
            faults({"fault": "status", "path": "/api/v1/spools", "status": status, "headers": header, "times": 1})
            begin = time.monotonic()
            self.farm.spools.list()
            self.assertEqual(len(requests("GET")), 2)
            self.assertGreaterEqual(time.monotonic() - begin, 1 if header else 0.2)
        for status, header in ((500, {}), (429, {"Retry-After": "3600"})):
            faults({"fault": "status", "path": "/api/v1/spools", "status": status, "headers": header})
            with self.assertRaises(spoolwright.ApiError) as caught:
                self.farm.spools.list()
            self.assertEqual(caught.exception.retry_after, 3600 if header else None)
            self.assertEqual(len(requests("GET")), 1)

    def test_patch_and_delete_are_not_repeated(self):
        path = "/api/v1/spools"
        broken = [{"fault": f, "path": path} for f in ("before", "during", "after")]
        for rule in [*broken, {"fault": "status", "status": 503, "path": path}]:
            spool = self.spool()
            faults(rule)
            with self.assertRaises(spoolwright.Error):
                self.farm.spools.update(spool.id, location="A")
            if rule["fault"] != "during":  # a 204 has no body that could be cut off
                with self.assertRaises(spoolwright.Error):
                    self.farm.spools.delete(spool.id)
            self.assertEqual(len(requests("PATCH")), 1)
            self.assertLessEqual(len(requests("DELETE")), 1)
        spool = self.spool()
        faults({"fault": "after", "path": path, "times": 1})
        self.farm.with_options(repeat_writes=True).spools.update(spool.id, location="B")
        self.assertEqual(len(requests("PATCH")), 2)
        # A rejected request had no effect.
        faults({"fault": "status", "status": 429, "path": path, "times": 1})
        self.farm.spools.update(spool.id, location="C")
        self.assertEqual(self.direct.spools.get(spool.id).location, "C")

    def test_refused_connection_is_repeated_even_for_patch(self):
        # The socket does not listen. It is open during the calls, so that no other program gets its port.
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            farm = spoolwright.Client(f"http://127.0.0.1:{unused.getsockname()[1]}", api_key="x")
            with mock.patch.object(time, "sleep") as sleep:
                with self.assertRaises(spoolwright.TransportError) as caught:
                    farm.spools.update("x", location="A")
        self.assertEqual((sleep.call_count, caught.exception.sent), (2, False))

    def test_closed_idle_connection_is_not_used(self):
        spool = self.spool()
        for location in "ABC":
            faults({"fault": "idle", "path": "/api/v1/spools", "times": 1})
            self.farm.spools.get(spool.id)
            # The proxy closes the connection after the client has read the response.
            wait_until(lambda: _core.readable(self.farm._pool.idle[-1][0].sock))
            self.assertEqual(self.farm.spools.update(spool.id, location=location).location, location)
            self.assertEqual(len(requests("PATCH")), 1)

    def test_connections_are_reused(self):
        self.direct.spools.list()  # the connections of the tests before may be too old
        with mock.patch.object(_core.Pool, "connect", autospec=True, side_effect=_core.Pool.connect) as connect:
            for _ in range(5):
                self.direct.spools.list()
        self.assertEqual(connect.call_count, 0)

    def test_timeout(self):
        faults({"fault": "slow", "path": "/api/v1/spools", "milliseconds": 60_000})
        farm = self.farm.with_options(timeout=0.3, retries=1)
        begin = time.monotonic()
        with self.assertRaises(spoolwright.RequestTimeout):
            farm.spools.list()
        self.assertLess(time.monotonic() - begin, 30)
        # The proxy may read a request after the client has given up.
        wait_until(lambda: len(requests("GET")) >= 2)
        self.assertEqual(len(requests("GET")), 2)

    def test_timeout_includes_a_response_that_trickles(self):
        def trickle(server):
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                try:
                    for _ in range(1000):  # 50 seconds, unless the client leaves
                        connection.sendall(b" ")
                        time.sleep(0.05)
                except OSError:
                    pass

        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=trickle, args=(server,))
            thread.start()
            port = server.getsockname()[1]
            farm = spoolwright.Client(f"http://127.0.0.1:{port}", api_key="x", timeout=0.5, retries=0)
            begin = time.monotonic()
            with self.assertRaises(spoolwright.RequestTimeout):
                farm.spools.list()
            self.assertLess(time.monotonic() - begin, 30)
            thread.join()

    def test_deductions_through_broken_connections(self):
        count, threads = int(os.environ["FARM_DEDUCTIONS"]), 8
        spools = [self.spool(net_weight_grams=100000) for _ in range(4)]
        faults({"fault": "cut", "path": "/api/v1/spools", "every": 20})
        farm = self.farm.with_options(retries=5)  # six cuts in a row are one in 64 million

        def deduct(i):
            farm.spools.deduct(spools[i % len(spools)].id, weight_grams=Decimal("0.1"))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(deduct, range(count)))
        cuts = [r for r in requests() if r["fault"]]
        self.assertGreaterEqual(len(cuts), count // 20)
        total = Decimal(0)
        for spool in spools:
            ledger = [u.change_grams.decimal for u in self.direct.spools.iterate_usage(spool.id)]
            self.assertEqual(sum(ledger), self.remaining(spool).decimal)
            total += sum(ledger)
            self.assertEqual(len(ledger), 1 + count // len(spools))
        self.assertEqual(total, 400000 - count * Decimal("0.1"))


class Refreshes(Case):
    def setUp(self):
        super().setUp()
        self.login()

    def test_parallel_calls_refresh_once_after_401(self):
        token = self.farm._session.access
        expired = {"code": "TOKEN_EXPIRED", "detail": "the token has expired"}
        faults({"fault": "status", "token": token, "status": 401, "body": json.dumps(expired)})
        barrier = threading.Barrier(50)

        def call(_):
            barrier.wait()
            return self.farm.spools.list(limit=1).limit

        with ThreadPoolExecutor(50) as pool:
            self.assertEqual(list(pool.map(call, range(50))), [1] * 50)
        self.assertEqual(len(requests("POST", "/api/v1/auth/refresh")), 1)
        self.assertNotEqual(self.farm._session.access, token)

    def test_parallel_calls_refresh_once_before_expiry(self):
        self.farm._session.renew_at = 0
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda _: self.farm.spools.list(limit=1), range(50)))
        self.assertEqual(len(requests("POST", "/api/v1/auth/refresh")), 1)

    def test_lost_refresh_is_repeated(self):
        faults({"fault": "after", "path": "/api/v1/auth/refresh", "times": 1})
        self.farm._session.renew_at = 0
        self.farm.spools.list()
        self.assertEqual(len(requests("POST", "/api/v1/auth/refresh")), 2)
        self.farm._session.renew_at = 0
        self.farm.spools.list()

    def test_ended_login(self):
        faults({"fault": "status", "path": "/api/v1/", "status": 401, "body": '{"code":"INVALID_TOKEN","detail":"x"}'})
        for _ in range(3):
            with self.assertRaises(spoolwright.InvalidTokenError):
                self.farm.spools.list()
        self.assertEqual(len(requests("POST", "/api/v1/auth/refresh")), 1)


class Iterators(Case):
    def test_all_items_once_while_others_come_and_go(self):
        color = "iterate " + str(uuid.uuid4())
        fields = {"material_type": "PLA", "color": color, "diameter_mm": 1.75, "net_weight_grams": 1}
        ids = []
        for _ in range(6):
            ids += [s.id for s in self.direct.spools.create_batch(quantity=100, **fields).items]
        for order in ({}, {"sort_by": "brand", "sort_order": "asc"}):
            stay, doomed = set(ids), []
            random.seed(str(order))
            got = []
            for n, spool in enumerate(self.direct.spools.iterate(color=color, **order), 1):
                got.append(spool.id)
                if n % 90 == 0:  # shortly before a page ends, delete items before and behind it, and create some
                    victims = random.sample(sorted(stay), 30) if n < 400 else []
                    stay -= set(victims)
                    doomed += victims
                    with ThreadPoolExecutor(4) as pool:
                        list(pool.map(self.direct.spools.delete, victims))
                    if n < 400:
                        self.direct.spools.create_batch(quantity=7, **fields)
            self.assertEqual(len(got), len(set(got)))
            self.assertEqual(stay - set(got), set())
            self.assertTrue(doomed)
            ids = [s.id for s in self.direct.spools.iterate(color=color)]

    def test_most_items_deleted(self):
        color = "shrink " + str(uuid.uuid4())
        fields = {"material_type": "PLA", "color": color, "diameter_mm": 1.75, "net_weight_grams": 1}
        ids = []
        for _ in range(3):
            ids += [s.id for s in self.direct.spools.create_batch(quantity=100, **fields).items]
        ids.reverse()
        iterator = self.direct.spools.iterate(color=color)
        got = [next(iterator).id for _ in range(100)]
        self.assertEqual(got, ids[:100])
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.direct.spools.delete, ids[:99] + ids[100:120]))
        self.assertEqual([s.id for s in iterator], ids[120:])


class Platform(Case):
    def test_certificates_of_the_environment(self):
        url, ca = os.environ["FARM_TLS_URL"], os.environ["FARM_CA"]
        with self.assertRaises(spoolwright.TransportError):
            spoolwright.Client.login(url, *ACCOUNT)
        with mock.patch.dict(os.environ, {"SSL_CERT_FILE": ca}):
            farm = spoolwright.Client.login(url, *ACCOUNT)
        self.addCleanup(farm.close)
        self.assertEqual(farm.spools.list().skip, 0)
        other = spoolwright.Client.login(url, *ACCOUNT, ssl_context=ssl.create_default_context(cafile=ca))
        self.addCleanup(other.close)
        for _ in range(3):
            other.spools.list()

    def test_proxies_of_the_environment(self):
        proxy = PROXY.replace("://", "://ada:secret@")
        settings = {"http_proxy": proxy, "https_proxy": proxy, "SSL_CERT_FILE": os.environ["FARM_CA"]}
        with mock.patch.dict(os.environ, settings):
            plain = spoolwright.Client.login(URL, *ACCOUNT)
            secure = spoolwright.Client.login(os.environ["FARM_TLS_URL"], *ACCOUNT)
        self.addCleanup(plain.close)
        self.addCleanup(secure.close)
        plain.spools.list()
        secure.spools.list()
        self.assertEqual([r["proxied"] for r in requests("GET", "/api/v1/spools")], [True])
        self.assertEqual(len(requests("CONNECT")), 1)
        faults()
        with mock.patch.dict(os.environ, {"http_proxy": proxy, "no_proxy": "127.0.0.1"}):
            bypass = spoolwright.Client.login(URL, *ACCOUNT)
        self.addCleanup(bypass.close)
        self.assertEqual(requests(), [])


if __name__ == "__main__":
    unittest.main()
