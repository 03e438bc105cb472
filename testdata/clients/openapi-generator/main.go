// A script of a farm that uses the Go client of openapi-generator: it logs in, creates a spool, deducts from it,
// completes a run that uses it, and prints the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"farm.example/farm/api"
)

// must returns the data of a successful response, and exits on an error.
func must[T, R any](data T, _ R, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return data
}

func main() {
	ctx := context.Background()
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Getenv("FARM_URL")}}
	client := api.NewAPIClient(configuration)
	credentials := *api.NewCredentials(os.Getenv("FARM_EMAIL"), os.Getenv("FARM_PASSWORD"))
	tokens := must(client.AuthAPI.Login(ctx).Credentials(credentials).Execute())
	configuration.AddDefaultHeader("Authorization", "Bearer "+tokens.AccessToken)

	entry := *api.NewSpoolCreate()
	entry.SetMaterialType(api.MATERIALTYPE_PETG)
	entry.SetColor("Jet Black")
	entry.SetDiameterMm(1.75)
	entry.SetNetWeightGrams(1000)
	brand := "Brand " + time.Now().Format(time.RFC3339Nano)
	entry.SetBrand(brand)
	entry.SetPurchasePrice(29.99)
	spool := must(client.SpoolsAPI.CreateSpool(ctx).SpoolCreate(entry).Execute())
	several := *api.NewSpoolBatchCreate(2)
	several.SetMaterialType(api.MATERIALTYPE_PETG)
	several.SetColor("Jet Black")
	several.SetDiameterMm(1.75)
	several.SetNetWeightGrams(1000)
	list := must(client.SpoolsAPI.CreateSpoolBatch(ctx).SpoolBatchCreate(several).Execute())
	if len(list.Items) != 2 || spool.DiameterMm != 1.75 {
		log.Fatalf("the spools are %+v and %+v", spool, list)
	}
	found := must(client.SpoolsAPI.ListSpools(ctx).Brand(brand).InStock(true).Execute())

	deduction := *api.NewDeduction(45.5)
	deduction.SetReason("Test print")
	deducted := must(client.SpoolsAPI.DeductSpool(ctx, spool.Id).Deduction(deduction).Execute())
	_, _, err := client.SpoolsAPI.DeductSpool(ctx, spool.Id).Deduction(*api.NewDeduction(2000)).Execute()
	var refused *api.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatal(err)
	}

	create := *api.NewRunCreate()
	create.SetStatus("in_progress")
	create.SetEstimatedTotalFilamentGrams(150)
	run := must(client.ProductionRunsAPI.CreateProductionRun(ctx).RunCreate(create).Execute())
	planned := *api.NewRunMaterialCreate()
	planned.SetSpoolId(spool.Id)
	planned.SetEstimatedWeightGrams(150)
	material := must(client.ProductionRunsAPI.AddProductionRunMaterial(ctx,
		run.Id).RunMaterialCreate(planned).Execute())
	weights := *api.NewRunMaterialUpdate()
	weights.SetSpoolWeightBeforeGrams(deducted.RemainingWeightGrams)
	weights.SetSpoolWeightAfterGrams(799.25)
	must(client.ProductionRunsAPI.UpdateProductionRunMaterial(ctx, run.Id, material.Id).RunMaterialUpdate(weights).
		Execute())
	completion := must(client.ProductionRunsAPI.CompleteProductionRun(ctx, run.Id).
		CompleteRequest(*api.NewCompleteRequest()).Execute())
	grams := []float64{}
	for _, s := range completion.SpoolsUpdated {
		grams = append(grams, s.Deducted)
	}
	done := must(client.ProductionRunsAPI.GetProductionRun(ctx, run.Id).Execute())

	b, err := json.Marshal(map[string]any{
		"listed":        found.Total == 1 && found.Items[0].Id == spool.Id,
		"cost_per_gram": spool.CostPerGram, "left": deducted.RemainingWeightGrams, "refused": codeOf(refused),
		"deducted": grams, "status": done.Status, "variance": done.VarianceAnalysis.MaterialVarianceGrams,
		"rating": done.QualityRating,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(b))
}

// codeOf returns the code in the body of an error.
func codeOf(e *api.GenericOpenAPIError) string {
	var body struct{ Code string }
	if err := json.Unmarshal(e.Body(), &body); err != nil {
		log.Fatal(err)
	}
	return body.Code
}
