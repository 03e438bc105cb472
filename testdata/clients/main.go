// A script of a farm, in Go: it logs in, creates a spool, deducts from it, completes a run that uses it, and prints
// the results.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/uuid"

	"farm/api"
)

func must[T any](answer T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return answer
}

// ok returns the data of a successful response, and exits on an error.
func ok[T any](data *T, body []byte) T {
	if data == nil {
		log.Fatalf("the response is %s", body)
	}
	return *data
}

func main() {
	ctx := context.Background()
	token := ""
	authorize := func(_ context.Context, r *http.Request) error {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	}
	client := must(api.NewClientWithResponses(os.Getenv("FARM_URL"), api.WithRequestEditorFn(authorize)))
	login := must(client.LoginWithResponse(ctx,
		api.Credentials{Email: os.Getenv("FARM_EMAIL"), Password: os.Getenv("FARM_PASSWORD")}))
	token = ok(login.JSON200, login.Body).AccessToken

	brand, key := "Brand "+uuid.NewString(), uuid.NewString()
	entry := api.SpoolCreate{
		MaterialType: new(api.PETG), Brand: &brand, Color: new("Jet Black"), DiameterMm: new(1.75),
		NetWeightGrams: new(1000.0), PurchasePrice: new(29.99),
	}
	created := must(client.CreateSpoolWithResponse(ctx, &api.CreateSpoolParams{IdempotencyKey: &key}, entry))
	spool := ok(created.JSON201, created.Body)
	repeated := must(client.CreateSpoolWithResponse(ctx, &api.CreateSpoolParams{IdempotencyKey: &key}, entry))
	location := created.HTTPResponse.Header.Get("Location")
	same := ok(repeated.JSON201, repeated.Body)
	if same.Id != spool.Id || location != "/api/v1/spools/"+spool.Id.String() {
		log.Fatal("a repeated request has created another spool, or its Location is wrong")
	}

	several := must(client.CreateSpoolBatchWithResponse(ctx, &api.CreateSpoolBatchParams{}, api.SpoolBatchCreate{
		MaterialType: new(api.PETG), Color: new("Jet Black"), DiameterMm: new(1.75), NetWeightGrams: new(1000.0),
		Quantity: 2,
	}))
	if items := ok(several.JSON201, several.Body).Items; len(items) != 2 {
		log.Fatalf("%d spools were created, want 2", len(items))
	}

	found := must(client.ListSpoolsWithResponse(ctx, &api.ListSpoolsParams{
		Brand: &brand, InStock: new(true), SortBy: new(api.ListSpoolsParamsSortByRemainingWeightGrams),
		SortOrder: new(api.Asc), Limit: new(5),
	}))
	list := ok(found.JSON200, found.Body)

	used := must(client.DeductSpoolWithResponse(ctx, spool.Id, &api.DeductSpoolParams{},
		api.Deduction{WeightGrams: 45.5, Reason: new("Test print")}))
	left := ok(used.JSON200, used.Body).RemainingWeightGrams
	tooMuch := must(client.DeductSpoolWithResponse(ctx, spool.Id, &api.DeductSpoolParams{},
		api.Deduction{WeightGrams: 2000}))
	refused := ok(tooMuch.JSON400, tooMuch.Body).Code

	started := must(client.CreateProductionRunWithResponse(ctx, &api.CreateProductionRunParams{}, api.RunCreate{
		Status: new(api.RunStatusInProgress), PrinterName: new("Printer 1"), EstimatedTotalFilamentGrams: new(150.0),
	}))
	run := ok(started.JSON201, started.Body)
	added := must(client.AddProductionRunMaterialWithResponse(ctx, run.Id, &api.AddProductionRunMaterialParams{},
		api.RunMaterialCreate{SpoolId: &spool.Id, EstimatedWeightGrams: new(150.0)}))
	material := ok(added.JSON201, added.Body)
	weighed := must(client.UpdateProductionRunMaterialWithResponse(ctx, run.Id, material.Id,
		api.RunMaterialUpdate{SpoolWeightBeforeGrams: &left, SpoolWeightAfterGrams: new(799.25)}))
	ok(weighed.JSON200, weighed.Body)
	completed := must(client.CompleteProductionRunWithResponse(ctx, run.Id, &api.CompleteProductionRunParams{},
		api.CompleteRequest{}))
	var deducted []float64
	for _, spool := range ok(completed.JSON200, completed.Body).SpoolsUpdated {
		deducted = append(deducted, spool.Deducted)
	}
	shown := must(client.GetProductionRunWithResponse(ctx, run.Id, &api.GetProductionRunParams{}))
	done := ok(shown.JSON200, shown.Body)

	b := must(json.Marshal(map[string]any{
		"listed":        len(list.Items) == 1 && list.Items[0].Id == spool.Id && list.Total == 1,
		"cost_per_gram": spool.CostPerGram, "left": left, "refused": refused, "deducted": deducted,
		"status": done.Status, "variance": done.VarianceAnalysis.MaterialVarianceGrams, "rating": done.QualityRating,
	}))
	fmt.Println(string(b))
}
