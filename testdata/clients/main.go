// A farm's script in Go: logs in, enters a spool, uses some of it, prints a run from it, and shows what came of it.
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

// ok returns the data of a success, and ends the program on an error.
func ok[T any](data *T, body []byte) T {
	if data == nil {
		log.Fatalf("the answer is %s", body)
	}
	return *data
}

func main() {
	ctx := context.Background()
	token := ""
	client := must(api.NewClientWithResponses(os.Getenv("FARM_URL"), api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	})))
	login := must(client.LoginWithResponse(ctx, api.Credentials{Email: os.Getenv("FARM_EMAIL"), Password: os.Getenv("FARM_PASSWORD")}))
	token = ok(login.JSON200, login.Body).AccessToken

	brand, key := "Brand "+uuid.NewString(), uuid.NewString()
	entry := api.SpoolCreate{MaterialType: api.PETG, Brand: &brand, Color: "Jet Black", DiameterMm: api.N175, NetWeightGrams: 1000, PurchasePrice: new(29.99)}
	created := must(client.CreateSpoolWithResponse(ctx, &api.CreateSpoolParams{IdempotencyKey: &key}, entry))
	spool := ok(created.JSON201, created.Body)
	repeated := must(client.CreateSpoolWithResponse(ctx, &api.CreateSpoolParams{IdempotencyKey: &key}, entry))
	if again := ok(repeated.JSON201, repeated.Body); again.Id != spool.Id || created.HTTPResponse.Header.Get("Location") != "/api/v1/spools/"+spool.Id.String() {
		log.Fatal("a repeated request has entered another spool, or its place is wrong")
	}

	found := must(client.ListSpoolsWithResponse(ctx, &api.ListSpoolsParams{Brand: &brand, InStock: new(true), SortBy: new(api.ListSpoolsParamsSortByRemainingWeightGrams), SortOrder: new(api.Asc), Limit: new(5)}))
	list := ok(found.JSON200, found.Body)

	used := must(client.DeductFromSpoolWithResponse(ctx, spool.Id, &api.DeductFromSpoolParams{}, api.Deduction{WeightGrams: 45.5, Reason: new("Test print")}))
	left := ok(used.JSON200, used.Body).RemainingWeightGrams
	tooMuch := must(client.DeductFromSpoolWithResponse(ctx, spool.Id, &api.DeductFromSpoolParams{}, api.Deduction{WeightGrams: 2000}))
	refused := ok(tooMuch.JSON400, tooMuch.Body).Code

	entered := must(client.CreateProductionRunWithResponse(ctx, &api.CreateProductionRunParams{}, api.RunCreate{Status: new(api.RunStatusInProgress), PrinterName: new("Printer 1"), EstimatedTotalFilamentGrams: new(150.0)}))
	run := ok(entered.JSON201, entered.Body)
	added := must(client.AddProductionRunMaterialWithResponse(ctx, run.Id, &api.AddProductionRunMaterialParams{}, api.RunMaterialCreate{SpoolId: spool.Id, EstimatedWeightGrams: new(150.0)}))
	material := ok(added.JSON201, added.Body)
	weighed := must(client.UpdateProductionRunMaterialWithResponse(ctx, run.Id, material.Id, api.RunMaterialUpdate{SpoolWeightBeforeGrams: &left, SpoolWeightAfterGrams: new(799.25)}))
	ok(weighed.JSON200, weighed.Body)
	completed := must(client.CompleteProductionRunWithResponse(ctx, run.Id, &api.CompleteProductionRunParams{}))
	var deducted []float64
	for _, spool := range ok(completed.JSON200, completed.Body).SpoolsUpdated {
		deducted = append(deducted, spool.Deducted)
	}
	shown := must(client.GetProductionRunWithResponse(ctx, run.Id))
	done := ok(shown.JSON200, shown.Body)

	b := must(json.Marshal(map[string]any{
		"listed": len(list.Items) == 1 && list.Items[0].Id == spool.Id && list.Total == 1, "cost_per_gram": spool.CostPerGram, "left": left, "refused": refused,
		"deducted": deducted, "status": done.Status, "variance": done.VarianceAnalysis.MaterialVarianceGrams, "rating": done.QualityRating,
	}))
	fmt.Println(string(b))
}
