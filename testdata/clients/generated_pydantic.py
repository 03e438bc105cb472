"""A script of a farm that uses the Python client of openapi-generator.

It logs in, creates a spool, deducts from it, completes a run that uses it, and prints the results.
"""

import json
import os
import uuid

import farm

configuration = farm.Configuration(host=os.environ["FARM_URL"])
client = farm.ApiClient(configuration)
tokens = farm.AuthApi(client).login(
    farm.Credentials(email=os.environ["FARM_EMAIL"], password=os.environ["FARM_PASSWORD"])
)
configuration.access_token = tokens.access_token
spools, runs = farm.SpoolsApi(client), farm.ProductionRunsApi(client)

brand = f"Brand {uuid.uuid4()}"
entry = dict(material_type="PETG", color="Jet Black", diameter_mm=1.75, net_weight_grams=1000, purchase_price=29.99)
spool = spools.create_spool(farm.SpoolCreate(brand=brand, **entry))
several = spools.create_spool_batch(farm.SpoolBatchCreate(quantity=2, **entry))
assert isinstance(several, farm.CreatedSpools) and len(several.items) == 2, several
assert spool.diameter_mm == 1.75, spool
found = spools.list_spools(brand=brand, in_stock=True)

deducted = spools.deduct_spool(spool.id, farm.Deduction(weight_grams=45.5, reason="Test print"))
try:
    spools.deduct_spool(spool.id, farm.Deduction(weight_grams=2000))
    refused = None
except farm.exceptions.ApiException as e:
    refused = json.loads(e.body)["code"]

run = runs.create_production_run(farm.RunCreate(status="in_progress", estimated_total_filament_grams=150))
material = runs.add_production_run_material(
    run.id, farm.RunMaterialCreate(spool_id=spool.id, estimated_weight_grams=150)
)
weights = farm.RunMaterialUpdate(
    spool_weight_before_grams=deducted.remaining_weight_grams, spool_weight_after_grams=799.25
)
runs.update_production_run_material(run.id, material.id, weights)
completion = runs.complete_production_run(run.id, complete_request=farm.CompleteRequest())
done = runs.get_production_run(run.id)

print(
    json.dumps(
        {
            "listed": found.total == 1 and found.items[0].id == spool.id,
            "cost_per_gram": spool.cost_per_gram,
            "left": deducted.remaining_weight_grams,
            "refused": refused,
            "deducted": [s.deducted for s in completion.spools_updated],
            "status": done.status,
            "variance": done.variance_analysis.material_variance_grams,
            "rating": done.quality_rating,
        }
    )
)
