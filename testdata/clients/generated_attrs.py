"""A script of a farm that uses the client of openapi-python-client.

It logs in, creates a spool, deducts from it, completes a run that uses it, and prints the results.
"""

import json
import os
import uuid

from farm import AuthenticatedClient, Client
from farm.api.auth import login
from farm.api.production_runs import (
    add_production_run_material,
    complete_production_run,
    create_production_run,
    get_production_run,
    update_production_run_material,
)
from farm.api.spools import create_spool, create_spool_batch, deduct_spool, list_spools
from farm.models import (
    CompleteRequest,
    CreatedSpools,
    Credentials,
    Deduction,
    MaterialType,
    RunCreate,
    RunMaterialCreate,
    RunMaterialUpdate,
    RunStatus,
    SpoolBatchCreate,
    SpoolCreate,
)

url = os.environ["FARM_URL"]
credentials = Credentials(email=os.environ["FARM_EMAIL"], password=os.environ["FARM_PASSWORD"])
tokens = login.sync(client=Client(base_url=url), body=credentials)
farm = AuthenticatedClient(base_url=url, token=tokens.access_token)

brand = f"Brand {uuid.uuid4()}"
entry = dict(
    material_type=MaterialType.PETG, color="Jet Black", diameter_mm=1.75, net_weight_grams=1000, purchase_price=29.99
)
spool = create_spool.sync(client=farm, body=SpoolCreate(brand=brand, **entry))
several = create_spool_batch.sync(client=farm, body=SpoolBatchCreate(quantity=2, **entry))
assert isinstance(several, CreatedSpools) and len(several.items) == 2, several
assert spool.diameter_mm == 1.75, spool
found = list_spools.sync(client=farm, brand=brand, in_stock=True)

deducted = deduct_spool.sync(spool.id, client=farm, body=Deduction(weight_grams=45.5, reason="Test print"))
refused = deduct_spool.sync(spool.id, client=farm, body=Deduction(weight_grams=2000))

run = create_production_run.sync(
    client=farm, body=RunCreate(status=RunStatus.IN_PROGRESS, estimated_total_filament_grams=150)
)
material = add_production_run_material.sync(
    run.id, client=farm, body=RunMaterialCreate(spool_id=spool.id, estimated_weight_grams=150)
)
update_production_run_material.sync(
    run.id,
    material.id,
    client=farm,
    body=RunMaterialUpdate(spool_weight_before_grams=deducted.remaining_weight_grams, spool_weight_after_grams=799.25),
)
completion = complete_production_run.sync(run.id, client=farm, body=CompleteRequest())
done = get_production_run.sync(run.id, client=farm)

print(
    json.dumps(
        {
            "listed": found.total == 1 and found.items[0].id == spool.id,
            "cost_per_gram": spool.cost_per_gram,
            "left": deducted.remaining_weight_grams,
            "refused": refused.code,
            "deducted": [s.deducted for s in completion.spools_updated],
            "status": done.status,
            "variance": done.variance_analysis.material_variance_grams,
            "rating": done.quality_rating,
        }
    )
)
