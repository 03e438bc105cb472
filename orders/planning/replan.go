package planning

import (
	"context"
	"encoding/json"

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value/language"
)

var (
	errStarted = server.Conflict("RUN_STARTED",
		"The run is printing or has used filament; only a run that is pending or has ended can be planned again")
	errNoItems    = server.Conflict("RUN_HAS_NO_ITEMS", "The run lacks no pieces; there is nothing to plan")
	errRemoved    = server.Conflict("PRODUCT_REMOVED", "A product of the run was removed; restore it, or remove the run")
	errIncomplete = server.Conflict("PLAN_INCOMPLETE",
		"The run was not changed, because %d of its pieces cannot be planned again: %s", 2,
		language.Sprintf("too little filament is left that is not reserved"))
)

var replanDoc = &server.Doc{
	ID: "replanProductionRun", Tag: production.Tag, Summary: "Plan a run again",
	Description: "Replaces a pending run by the runs of a new plan of its items, all or nothing: the run is removed, " +
		"and the new runs are created as `pending`. They print the pieces of the run; of an item of an order, they " +
		"print at most as many as the order still needs. If the order is cancelled, done or has enough pieces, the " +
		"run is removed without a replacement. If some of the pieces cannot be planned, the run stays " +
		"(`PLAN_INCOMPLETE`).\n\nThe new runs follow the current bills of materials, printers and spools. Changes " +
		"that people made to the run, such as its materials and `notes`, are lost, and the new runs are last in the " +
		"queues of their printers.\n\nA run that is completed, failed or cancelled stays as it is. The new runs print " +
		"the pieces that it lacks: its pieces less `successful_quantity`. A null `successful_quantity` counts as all " +
		"pieces of a completed run, and as none of any other run.",
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
		if plan, err = h.attempts(ctx, q); err == nil && was.IsPending {
			err = h.db.Write(ctx, production.Count(-1))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return server.Encode(plan)
}

// complete returns an error if the plan lacks pieces.
func (p *Plan) complete() error {
	if len(p.Unplanned) == 0 {
		return nil
	}
	reason := language.Sprintf("no available printer can print their materials with a slot for each")
	pieces := int64(0)
	for _, u := range p.Unplanned {
		if pieces += u.Quantity; u.Reason == "NO_FILAMENT" {
			reason = language.Sprintf("too little filament is left that is not reserved")
		}
	}
	return errIncomplete.With(pieces, reason)
}
