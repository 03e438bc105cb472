"""Prints the calls per second of spools.get, of bare http.client, and the median of their ratios.

The rounds alternate, so that other load of the machine affects both. FARM_URL, FARM_EMAIL, FARM_PASSWORD: the service.
"""

import http.client
import json
import os
import statistics
import time
import urllib.parse

import spoolwright

ROUNDS, CALLS = 15, 200

farm = spoolwright.Client.login(os.environ["FARM_URL"], os.environ["FARM_EMAIL"], os.environ["FARM_PASSWORD"])
key = farm.api_keys.create(name="bench", role="operator").key
farm = spoolwright.Client(os.environ["FARM_URL"], api_key=key)
spool = farm.spools.create(material_type="PLA", color="Black", diameter_mm=1.75, net_weight_grams=1000)
connection = http.client.HTTPConnection(urllib.parse.urlsplit(os.environ["FARM_URL"]).netloc)


def bare():
    connection.request("GET", "/api/v1/spools/" + spool.id, headers={"X-API-Key": key})
    response = connection.getresponse()
    assert json.loads(response.read())["id"] == spool.id


def rate(call):
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return CALLS / (time.perf_counter() - begin)


rate(bare)
rates = [(rate(lambda: farm.spools.get(spool.id)), rate(bare)) for _ in range(ROUNDS)]
client, direct = (statistics.median(r) for r in zip(*rates))
print(f"spools.get {client:.0f}/s, http.client {direct:.0f}/s, ratio {statistics.median(c / d for c, d in rates):.2f}")
