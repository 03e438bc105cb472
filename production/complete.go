package production

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

//go:embed complete.sql
var completeSQL string

// Definitions are the SQL functions of production runs: complete_run_2, which calls use_filament of inventory.
var Definitions = []db.Definition{{Name: "production/complete", Version: 1, SQL: completeSQL}}

// Completion is the response to complete.
type Completion struct {
	ID               server.UUID      `json:"id" rule:"notNull"`
	Status           string           `json:"status" rule:"notNull,enum=completed"`
	CompletedAt      server.Timestamp `json:"completed_at" rule:"notNull"`
	InventoryUpdated bool             `json:"inventory_updated" rule:"notNull"`
	SpoolsUpdated    []SpoolDeduction `json:"spools_updated"`
}

// SpoolDeduction is what was deducted from one spool.
type SpoolDeduction struct {
	SpoolID  server.UUID    `json:"spool_id" rule:"notNull"`
	Previous server.Decimal `json:"previous_weight" rule:"notNull"`
	New      server.Decimal `json:"new_weight" rule:"notNull"`
	Deducted server.Decimal `json:"deducted" rule:"notNull"`
}

// The problems of complete_run_2, apart from NOT_FOUND.
var (
	errDeducted = server.BadRequest("RUN_ALREADY_COMPLETED", "The run was completed before; its filament is deducted")

	errNoMaterials = server.BadRequest("RUN_HAS_NO_MATERIALS",
		"The run has no materials, so there is nothing to deduct")

	errUsageMissing = server.BadRequest("ACTUAL_USAGE_MISSING",
		"Record actual_weight_grams, or spool_weight_before_grams and spool_weight_after_grams, first for: %s",
		"PLA Black (Polymaker) (material 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a53)")

	errInsufficient = server.BadRequest("INSUFFICIENT_FILAMENT",
		"Too little filament is left, or the spool was removed: %s",
		"PLA Black (Polymaker) (spool 0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41) has 100 g of the 155 g needed")
)

var completeDoc = &server.Doc{
	ID: "completeProductionRun", Tag: tag, Summary: "Complete a run and deduct its filament",
	Description: "Deducts the actual weight of each material from its spool and adds an entry to each spool's " +
		"usage ledger, all or nothing. A run is completed only once: later requests return " +
		"`RUN_ALREADY_COMPLETED`.\n\n" +
		"The request fails and changes nothing if the run has no materials (`RUN_HAS_NO_MATERIALS`), if a " +
		"material lacks `actual_weight_grams` (`ACTUAL_USAGE_MISSING`), or if a spool has too little filament " +
		"or was removed (`INSUFFICIENT_FILAMENT`). The `detail` of the last two names the materials or " +
		"spools.\n\n" +
		"Sets `status`, `completed_at` (to the current time, unless it is set), `actual_total_filament_grams` (to " +
		"the sum) and `actual_print_time_hours` (to the time from start to completion, unless it is set). The " +
		"weights include purged filament, so purge is not deducted separately.",
	Errors: []*server.Error{errNoMaterials, errUsageMissing, errInsufficient, errDeducted},
}

func (h handlers) complete(ctx context.Context, r *server.Request[struct{}]) (server.OK[Completion], error) {
	var problem *string
	var completedAt *time.Time
	var details []byte
	err := h.db.Write(ctx, db.SQL(`select problem, finished_at, details from complete_run_2($1)`, r.ID("id")).
		Into(&problem, &completedAt, &details))
	switch {
	case db.Violates(err, "production_runs_actual_total_filament_grams_check"):
		return nil, server.Invalid("actual_total_filament_grams", "would be more than 999,999,999").Because(err)
	case err != nil:
		return nil, err
	case problem != nil:
		return nil, completeError(*problem, details)
	}
	return fmt.Appendf(nil,
		`{"id":"%s","status":"completed","completed_at":"%s","inventory_updated":true,"spools_updated":%s}`,
		r.ID("id"), completedAt.UTC().Format(time.RFC3339Nano), details), nil
}

// completeError returns the error for a problem of complete_run_2 and its details.
func completeError(problem string, details []byte) error {
	var rows []struct {
		MaterialID string      `json:"material_id"`
		SpoolID    string      `json:"spool_id"`
		SpoolName  string      `json:"spool_name"`
		Remaining  json.Number `json:"remaining"`
		Needed     json.Number `json:"needed"`
		Enough     bool        `json:"enough"`
	}
	if details != nil {
		if err := json.Unmarshal(details, &rows); err != nil {
			return fmt.Errorf("details of complete_run_2: %w", err)
		}
	}
	var list []string
	switch problem {
	case "NOT_FOUND":
		return server.ErrNotFound
	case errDeducted.Code:
		return errDeducted
	case errNoMaterials.Code:
		return errNoMaterials
	case errUsageMissing.Code:
		for _, row := range rows {
			list = append(list, fmt.Sprintf("%s (material %s)", row.SpoolName, row.MaterialID))
		}
		return errUsageMissing.With(strings.Join(list, ", "))
	case errInsufficient.Code:
		for _, row := range rows {
			what := "was removed"
			if !row.Enough {
				what = fmt.Sprintf("has %s g of the %s g needed", row.Remaining, row.Needed)
			}
			list = append(list, fmt.Sprintf("%s (spool %s) %s", row.SpoolName, row.SpoolID, what))
		}
		return errInsufficient.With(strings.Join(list, ", "))
	}
	return fmt.Errorf("complete_run_2 returned the problem %q", problem)
}
