// What rentals of every kind have in common: their fields, how they are ordered, awaited, read, changed and ended.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

const (
	rentals       = "/v2/rentals"
	rentalLimit   = 30 * time.Minute
	cleanUpLimit  = 30 * time.Second
	capacityPause = 5 * time.Second
)

// ownEnds are the ends that the customer has set or allowed: such a rental did what it was told to.
var ownEnds = map[string]bool{
	"auto_terminate": true, "term_expired": true, "balance_empty": true, "spending_limit": true,
	"budget_exceeded": true, "idle": true, "completed": true,
}

// rentalFields are the attributes of each kind.
type rentalFields struct {
	ID               types.String   `tfsdk:"id"`
	Name             types.String   `tfsdk:"name"`
	Label            types.String   `tfsdk:"label"`
	Running          types.Bool     `tfsdk:"running"`
	AutoTerminateAt  text           `tfsdk:"auto_terminate_at"`
	SpendingLimit    text           `tfsdk:"spending_limit_usd"`
	MaxCostPerHour   text           `tfsdk:"max_cost_per_hour_usd"`
	GPUCount         types.Int64    `tfsdk:"gpu_count"`
	TemplateID       types.String   `tfsdk:"template_id"`
	Env              types.Map      `tfsdk:"env"`
	OnStart          types.String   `tfsdk:"on_start"`
	Volumes          types.Set      `tfsdk:"volumes"`
	WaitForCapacity  types.String   `tfsdk:"wait_for_capacity"`
	RecreateAfterEnd types.Bool     `tfsdk:"recreate_after_end"`
	ClientToken      types.String   `tfsdk:"client_token"`
	EndedBy          types.String   `tfsdk:"ended_by"`
	PricePerHour     text           `tfsdk:"price_per_hour_usd"`
	SSHUser          types.String   `tfsdk:"ssh_user"`
	SSHHost          types.String   `tfsdk:"ssh_host"`
	SSHPort          types.Int64    `tfsdk:"ssh_port"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`
}

// rentalKind is what one kind adds. M is its model, with rentalFields in it.
type rentalKind[M any] struct {
	name, about string
	attributes  attributes
	// replacing are the attributes of which a change orders another rental.
	replacing []string
	common    func(*M) *rentalFields
	order     func(*M) fields
	// fill sets what only this kind has, for an import from its order.
	fill func(m *M, record rentalRecord, order *orderRecord)
	// demand is what its price and its place depend on.
	demand func(*M) demand
	// movesVolumes tells whether volumes are attached and detached while it runs.
	movesVolumes bool
}

func (k rentalKind[M]) definition() definition[M] {
	return definition[M]{
		name: k.name, about: k.about, attributes: with(rentalAttributes(k.movesVolumes), k.attributes), limit: rentalLimit,
		id:       func(m *M) string { return k.common(m).ID.ValueString() },
		timeouts: func(m *M) timeouts.Value { return k.common(m).Timeouts },
		create:   k.create, ready: k.ready, read: k.read, update: k.update, plan: k.plan,
		remove: func(ctx context.Context, s *session, m *M) error {
			return endRental(ctx, s, k.common(m).ID.ValueString())
		},
	}
}

func (k rentalKind[M]) create(ctx context.Context, s *session, plan, _ *M) error {
	f := k.common(plan)
	if f.MaxCostPerHour.IsUnknown() || f.MaxCostPerHour.IsNull() {
		price, err := k.demand(plan).price(ctx, s)
		if err != nil {
			return err
		}
		f.MaxCostPerHour = newText(amount, &price)
	}
	body := k.order(plan)
	f.putOrder(body)
	once := berth.Once{Kind: k.name, Path: rentals, Body: body, Token: f.ClientToken.ValueString(),
		IsAlive: func(ctx context.Context, id string) (bool, error) {
			record, err := getRental(ctx, s, id)
			if err != nil || record.isEnding() || record.State == "Failed" {
				return isThere(errors.Join(err, errGoneIf(err == nil)))
			}
			return true, nil
		}}
	var answer rentalRecord
	if err := s.createWithCapacity(ctx, once, f.WaitForCapacity.ValueString(), &answer); err != nil {
		return k.demand(plan).withAlternatives(ctx, s, err)
	}
	f.ID = types.StringValue(strconv.FormatInt(answer.ID, 10))
	if f.Running.IsUnknown() {
		f.Running = types.BoolValue(true)
	}
	running := f.Running
	err := k.fillAll(ctx, s, plan, answer, nil)
	f.Running = running
	return err
}

func errGoneIf(isGone bool) error {
	if isGone {
		return errGone
	}
	return nil
}

// createWithCapacity orders again while there is no capacity, for as long as the customer wants to wait.
func (s *session) createWithCapacity(ctx context.Context, once berth.Once, patience string, out any) error {
	limit, err := parsePatience(patience)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(limit)
	for {
		err := s.create(ctx, once, "id", out)
		if !berth.HasReason(err, capacityReasons...) || time.Now().After(deadline) {
			return err
		}
		if s.client.Wait(ctx, capacityPause) != nil {
			return err
		}
	}
}

func parsePatience(patience string) (time.Duration, error) {
	if patience == "" {
		return 0, nil
	}
	limit, err := time.ParseDuration(patience)
	if err != nil {
		return 0, fmt.Errorf("wait_for_capacity must be a duration such as 30m: %w", err)
	}
	return limit, nil
}

// putOrder adds what an order of each kind may have.
func (f *rentalFields) putOrder(body fields) {
	body.put("label", f.Label)
	body.put("autoTerminateAt", f.AutoTerminateAt)
	body.put("spendingLimitUsd", f.SpendingLimit)
	body.put("maxCostPerHourUsd", f.MaxCostPerHour)
	body.put("gpuCount", f.GPUCount)
	body.put("templateId", f.TemplateID)
	body.put("env", f.Env)
	body.put("onStart", f.OnStart)
}

// ready waits until it runs, or is stopped where the configuration says so.
func (k rentalKind[M]) ready(ctx context.Context, s *session, m *M) error {
	f := k.common(m)
	id := f.ID.ValueString()
	if err := awaitState(ctx, s, id, "Running"); err != nil {
		return err
	}
	if !f.Running.ValueBool() {
		if err := setRunning(ctx, s, id, false); err != nil {
			return err
		}
	}
	return k.read(ctx, s, m)
}

// awaitState waits for a state. An error says what the rental costs meanwhile, because it goes on.
func awaitState(ctx context.Context, s *session, id, state string) error {
	var last rentalRecord
	err := s.until(ctx, func() (bool, error) {
		record, err := getRental(ctx, s, id)
		if err != nil {
			return false, err
		}
		last = record
		if record.State == "Failed" || record.isEnding() {
			return false, fmt.Errorf("rental %s is %s: %s", id, record.State, record.why())
		}
		return record.State == state, nil
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("rental %s is %s and not %s in time. It goes on and costs %s USD per hour while it runs. It is in "+
			"the state, so that the next apply replaces it or `destroy` ends it; `untaint` keeps it: %w",
			id, last.State, state, shortAmount(last.PricePerHourUSD), err)
	}
	return err
}

func setRunning(ctx context.Context, s *session, id string, running bool) error {
	action, state := "/stop", "Stopped"
	var body any
	if running {
		action, state, body = "/start", "Running", fields{}
	}
	if err := s.send(ctx, http.MethodPost, rentals+"/"+id+action, body, nil); err != nil {
		return err
	}
	return awaitState(ctx, s, id, state)
}

func (k rentalKind[M]) read(ctx context.Context, s *session, m *M) error {
	f := k.common(m)
	record, err := getRental(ctx, s, f.ID.ValueString())
	if err != nil {
		return err
	}
	if record.isEnding() || record.State == "Failed" {
		if !ownEnds[deref(record.StatusReason)] {
			return errGone
		}
		// An ended rental stays as it was, so that nothing looks like a change.
		f.EndedBy = types.StringPointerValue(record.StatusReason)
		if !f.Name.IsNull() {
			return nil
		}
	}
	var order *orderRecord
	if f.Name.IsNull() {
		var answer struct{ Order orderRecord }
		if err := s.get(ctx, rentals+"/"+f.ID.ValueString()+"/order", nil, &answer); err != nil {
			return err
		}
		order = &answer.Order
	}
	return k.fillAll(ctx, s, m, record, order)
}

// fillAll takes over what the server has. order is set for an import, which has nothing else.
func (k rentalKind[M]) fillAll(ctx context.Context, s *session, m *M, record rentalRecord, order *orderRecord) error {
	f := k.common(m)
	if order != nil {
		f.GPUCount, f.TemplateID = types.Int64Value(record.GPUCount), types.StringPointerValue(record.Workload.TemplateID)
		f.OnStart = types.StringPointerValue(order.OnStart)
		if order.Env != nil {
			f.Env = stringMap(order.Env)
		}
		f.MaxCostPerHour = newText(amount, &record.PricePerHourUSD)
	}
	if f.RecreateAfterEnd.IsNull() {
		f.RecreateAfterEnd = types.BoolValue(false)
	}
	f.Name, f.Label = types.StringValue(record.Name), keepNull(f.Label, record.Label)
	f.Running = types.BoolValue(record.State != "Stopped" && record.State != "Stopping")
	f.AutoTerminateAt, f.SpendingLimit = newText(instant, record.AutoTerminateAt), newText(amount, record.SpendingLimitUSD)
	f.PricePerHour = newText(amount, &record.PricePerHourUSD)
	f.SSHUser, f.SSHHost, f.SSHPort = types.StringNull(), types.StringNull(), types.Int64Null()
	if record.SSH != nil {
		f.SSHUser, f.SSHHost = types.StringValue(record.SSH.User), types.StringValue(record.SSH.Host)
		f.SSHPort = types.Int64Value(record.SSH.Port)
	}
	if f.EndedBy.IsUnknown() {
		f.EndedBy = types.StringNull()
	}
	k.fill(m, record, order)
	if order == nil && (f.Volumes.IsNull() || f.Volumes.IsUnknown()) {
		f.Volumes = noVolumes()
		return nil
	}
	return readVolumes(ctx, s, f, order != nil)
}

func (k rentalKind[M]) update(ctx context.Context, s *session, planned, before, _ *M) error {
	plan, state := k.common(planned), k.common(before)
	if !state.EndedBy.IsNull() {
		// It has ended, and its last values stay.
		plan.keepUnknown(state)
		return nil
	}
	id := plan.ID.ValueString()
	body := fields{}
	body.putOrNull("label", plan.Label)
	body.putOrNull("autoTerminateAt", plan.AutoTerminateAt)
	body.putOrNull("spendingLimitUsd", plan.SpendingLimit)
	if err := s.send(ctx, http.MethodPatch, rentals+"/"+id, body, nil); err != nil {
		return err
	}
	if k.movesVolumes {
		if err := moveVolumes(ctx, s, plan, state); err != nil {
			return err
		}
	}
	if !plan.Running.IsUnknown() && !plan.Running.Equal(state.Running) {
		if err := setRunning(ctx, s, id, plan.Running.ValueBool()); err != nil {
			return err
		}
	}
	return k.read(ctx, s, planned)
}

// keepUnknown takes from the state what a plan leaves to the server.
func (f *rentalFields) keepUnknown(state *rentalFields) {
	if f.Running.IsUnknown() {
		f.Running = state.Running
	}
	if f.MaxCostPerHour.IsUnknown() {
		f.MaxCostPerHour = state.MaxCostPerHour
	}
	if f.Volumes.IsUnknown() {
		f.Volumes = state.Volumes
	}
	f.Name, f.PricePerHour = state.Name, state.PricePerHour
	f.SSHUser, f.SSHHost, f.SSHPort = state.SSHUser, state.SSHHost, state.SSHPort
}

// endRental waits until the machine is gone: volumes are free then, and its GPUs can be ordered again.
func endRental(ctx context.Context, s *session, id string) error {
	if err := s.send(ctx, http.MethodDelete, rentals+"/"+id, nil, nil); err != nil {
		if !berth.HasReason(err, "already_terminated") {
			return err
		}
	}
	return s.until(ctx, func() (bool, error) {
		record, err := getRental(ctx, s, id)
		return record.State == "Terminated", err
	})
}

func (k rentalKind[M]) plan(ctx context.Context, s *session, p *planning[M]) {
	plan, config := k.common(p.plan), k.common(p.config)
	if config.SpendingLimit.IsNull() {
		plan.SpendingLimit = newText(amount, nil)
		if !s.spendingLimit.IsNull() {
			plan.SpendingLimit = s.spendingLimit
			if p.state != nil && means(amount, k.common(p.state).SpendingLimit.ValueString(), s.spendingLimit.ValueString()) {
				plan.SpendingLimit = k.common(p.state).SpendingLimit
			}
		}
	}
	if _, err := parsePatience(config.WaitForCapacity.ValueString()); err != nil {
		p.problems.AddAttributeError(path.Root("wait_for_capacity"), "Not a duration", err.Error())
	}
	if p.state == nil {
		k.planPrice(ctx, s, p)
		return
	}
	state := k.common(p.state)
	plan.EndedBy = state.EndedBy
	if !state.EndedBy.IsNull() {
		if plan.RecreateAfterEnd.ValueBool() {
			plan.EndedBy = types.StringUnknown()
			*p.replaces = append(*p.replaces, path.Root("ended_by"))
		}
		return
	}
	if p.hasChanged("running") {
		plan.SSHUser, plan.SSHHost, plan.SSHPort = types.StringUnknown(), types.StringUnknown(), types.Int64Unknown()
	}
	for _, name := range k.replacing {
		if p.hasChanged(name) {
			k.demand(p.plan).warnIfFull(ctx, s, k.demand(p.state), p.problems)
			return
		}
	}
}

// planPrice makes the price of today the highest that the order accepts, unless the customer has set one.
func (k rentalKind[M]) planPrice(ctx context.Context, s *session, p *planning[M]) {
	plan := k.common(p.plan)
	if !k.common(p.config).MaxCostPerHour.IsNull() {
		return
	}
	if !s.maxCostPerHour.IsNull() {
		plan.MaxCostPerHour = s.maxCostPerHour
		return
	}
	price, err := k.demand(p.plan).price(ctx, s)
	switch {
	case err == nil:
		plan.MaxCostPerHour = newText(amount, &price)
	case !errors.Is(err, errUnknownYet):
		p.problems.AddWarning("The price of "+"berth_"+k.name+" is not known", err.Error()+
			"\n\nThe order asks for it again, and accepts no higher price than it gets then.")
	}
}
