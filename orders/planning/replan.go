package planning

import (
	"context"
	"encoding/json"

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
)

var (
	errStarted = server.Conflict("RUN_STARTED",
		"The run prints, or has used filament; only a run that is pending or has ended can be planned again")
	errNoItems    = server.Conflict("RUN_HAS_NO_ITEMS", "The run lacks no pieces, so that there is nothing to plan")
	errRemoved    = server.Conflict("PRODUCT_REMOVED", "A product of the run was removed; restore it, or remove the run")
	errIncomplete = server.Conflict("PLAN_INCOMPLETE",
		"The run stays as it is, because %d of its pieces cannot be planned again: %s", 2,
		"too little filament is left that is not reserved")
)

var replanDoc = &server.Doc{
	ID: "replanProductionRun", Tag: production.Tag, Summary: "Plan a run again",
	Description: "Replaces a pending run by the runs that a plan of its items has now, all or nothing: the run is " +
		"removed, and the others are created as `pending`. They print the pieces of the run, of an item of an order " +
		"at most as many as the order still needs then. So if an order is cancelled, done or has enough, the run is " +
		"removed without another one. If some of the pieces cannot be planned, the run stays (`PLAN_INCOMPLETE`).\n\n" +
		"The new runs follow from the bills of materials, printers and spools as they are now. What people changed in " +
		"the run, such as its materials and `notes`, goes with it, and the new runs are the last ones in the queues of " +
		"their printers.\n\n" +
		"A run that is completed, failed or cancelled stays as it is. The new runs print the pieces that it lacks: those " +
		"that are not in `successful_quantity`, which counts as all pieces of a completed run and as none of another one " +
		"if it is null.",
	Errors: []*server.Error{errStarted, errNoItems, errRemoved, errIncomplete, errTooLarge, errOutdated},
}

func (h handlers) replan(ctx context.Context, r *server.Request[struct{}]) (server.OK[Plan], error) {
	id := r.ID("id")
	var plan Plan
	err := h.db.Tx(ctx, func(ctx context.Context) error {
		var was production.Replaced
		// Locks in the same order as a start and a plan.
		statements := production.Replace(id, &was, db.Lock("plan"), orders.Runs.Lock(id))
		if err := server.Found(statements[0], h.db.Write(ctx, statements...)); err != nil {
			return err
		}
		q := request{replan: true, create: true}
		if err := json.Unmarshal(was.Items, &q.items); err != nil {
			return err
		}
		switch {
		case !was.IsPending && !was.HasEnded:
			return errStarted
		case len(q.items) == 0:
			return errNoItems
		}
		var err error
		plan, err = h.attempts(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(plan)
}

// complete returns the error of a plan that must have all pieces, or nil.
func (p *Plan) complete() error {
	if len(p.Unplanned) == 0 {
		return nil
	}
	reason := "no available printer prints their materials, with a slot for each"
	pieces := int64(0)
	for _, u := range p.Unplanned {
		if pieces += u.Quantity; u.Reason == "NO_FILAMENT" {
			reason = "too little filament is left that is not reserved"
		}
	}
	return errIncomplete.With(pieces, reason)
}
