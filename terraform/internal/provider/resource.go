// The base of all resources. It does once what each of them needs: state before waiting, creates that are not repeated,
// reads that notice what is gone, imports, time limits, and errors that say what to do.
package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"terraform-provider-berth/internal/berth"
)

// errGone is what a read returns for a thing that is no longer there.
var errGone = errors.New("it is no longer there")

// definition is one resource. M is its model: a struct with the attributes and `timeouts`.
type definition[M any] struct {
	name       string
	about      string
	attributes attributes
	// limits are the defaults of create, update and delete.
	limit time.Duration
	// id is the ID in a model; imported puts one there.
	id       func(*M) string
	timeouts func(*M) timeouts.Value
	// create sets at least the ID. It returns before the thing is ready.
	create func(ctx context.Context, s *session, plan, config *M) error
	// ready waits until the thing can be used. nil: it can be used at once.
	ready func(ctx context.Context, s *session, m *M) error
	// read fills the model, also one that has nothing but an ID.
	read func(ctx context.Context, s *session, m *M) error
	// update changes plan into the new state. nil: every change replaces.
	update func(ctx context.Context, s *session, plan, state, config *M) error
	remove func(ctx context.Context, s *session, m *M) error
	// plan adjusts a plan and reports what cannot be done. nil: nothing to adjust.
	plan func(ctx context.Context, s *session, p *planning[M])
}

// planning is a plan that a resource may adjust. state is nil for a create.
type planning[M any] struct {
	config, plan, state *M
	replaces            *path.Paths
	problems            *diag.Diagnostics
	// hasChanged tells whether the plan has another value than the state. Nothing is changed by a create.
	hasChanged func(name string) bool
}

type base[M any] struct {
	definition definition[M]
	session    *session
}

func newResource[M any](d definition[M]) func() resource.Resource {
	if d.limit == 0 {
		d.limit = 5 * time.Minute
	}
	return func() resource.Resource { return &base[M]{definition: d} }
}

func (b *base[M]) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + b.definition.name
}

func (b *base[M]) Schema(ctx context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	options := timeouts.Opts{Create: true, Update: b.definition.update != nil, Delete: true}
	response.Schema = schema.Schema{
		MarkdownDescription: b.definition.about,
		Attributes:          with(b.definition.attributes, attributes{"timeouts": timeouts.Attributes(ctx, options)}),
	}
}

func (b *base[M]) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	if one, ok := request.ProviderData.(*session); ok {
		b.session = one
	}
}

func (b *base[M]) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), request, response)
}

func (b *base[M]) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan, config M
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	limit, problems := b.definition.timeouts(&plan).Create(ctx, b.definition.limit)
	response.Diagnostics.Append(problems...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := b.definition.create(ctx, b.session, &plan, &config); err != nil {
		report(&response.Diagnostics, "Cannot create "+b.title(), err)
		if b.definition.id(&plan) == "" {
			return
		}
	}
	// From here on the state has the ID, whatever happens: a failure leaves a tainted resource.
	b.write(context.WithoutCancel(ctx), &response.State, &response.Diagnostics, &plan)
	if b.definition.ready != nil && !response.Diagnostics.HasError() {
		if err := b.definition.ready(ctx, b.session, &plan); err != nil {
			report(&response.Diagnostics, b.title()+" "+b.definition.id(&plan)+" was created, but is not ready", err)
		}
		b.write(context.WithoutCancel(ctx), &response.State, &response.Diagnostics, &plan)
	}
	if err := b.session.journal.Returned(b.definition.name, b.definition.id(&plan)); err != nil {
		report(&response.Diagnostics, "Cannot keep the journal of creates", err)
	}
}

func (b *base[M]) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var m M
	response.Diagnostics.Append(request.State.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	b.settle(&response.Diagnostics, &m)
	err := b.definition.read(ctx, b.session, &m)
	switch {
	case errors.Is(err, errGone) || berth.IsNotFound(err):
		response.State.RemoveResource(ctx)
	case err != nil:
		report(&response.Diagnostics, "Cannot read "+b.title(), err)
	default:
		b.write(ctx, &response.State, &response.Diagnostics, &m)
	}
}

func (b *base[M]) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var plan, state, config M
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	limit, problems := b.definition.timeouts(&plan).Update(ctx, b.definition.limit)
	response.Diagnostics.Append(problems...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if b.definition.update != nil {
		if err := b.definition.update(ctx, b.session, &plan, &state, &config); err != nil {
			report(&response.Diagnostics, "Cannot change "+b.title(), err)
			return
		}
	}
	b.write(ctx, &response.State, &response.Diagnostics, &plan)
}

func (b *base[M]) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var m M
	response.Diagnostics.Append(request.State.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	limit, problems := b.definition.timeouts(&m).Delete(ctx, b.definition.limit)
	response.Diagnostics.Append(problems...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := b.definition.remove(ctx, b.session, &m); err != nil && !errors.Is(err, errGone) && !berth.IsNotFound(err) {
		report(&response.Diagnostics, "Cannot delete "+b.title(), err)
		return
	}
	b.settle(&response.Diagnostics, &m)
}

func (b *base[M]) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	// A plan is also made to validate, without a provider that has its settings.
	if b.session == nil || request.Plan.Raw.IsNull() {
		return
	}
	var p planning[M]
	var config, plan, state M
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	p.config, p.plan = &config, &plan
	if !request.State.Raw.IsNull() {
		response.Diagnostics.Append(request.State.Get(ctx, &state)...)
		p.state = &state
	}
	if response.Diagnostics.HasError() {
		return
	}
	if p.state != nil {
		b.settle(&response.Diagnostics, p.state)
	}
	if b.definition.plan == nil {
		return
	}
	p.replaces, p.problems = &response.RequiresReplace, &response.Diagnostics
	p.hasChanged = func(name string) bool { return isChanged(request, name) }
	b.definition.plan(ctx, b.session, &p)
	response.Diagnostics.Append(response.Plan.Set(ctx, p.plan)...)
}

// isChanged compares the plan with the state.
func isChanged(request resource.ModifyPlanRequest, name string) bool {
	if request.State.Raw.IsNull() {
		return false
	}
	step := tftypes.NewAttributePath().WithAttributeName(name)
	planned, _, errPlan := tftypes.WalkAttributePath(request.Plan.Raw, step)
	before, _, errState := tftypes.WalkAttributePath(request.State.Raw, step)
	if errPlan != nil || errState != nil {
		return true
	}
	return !planned.(tftypes.Value).Equal(before.(tftypes.Value))
}

func (b *base[M]) settle(problems *diag.Diagnostics, m *M) {
	if err := b.session.journal.Settle(b.definition.name, b.definition.id(m)); err != nil {
		report(problems, "Cannot keep the journal of creates", err)
	}
}

func (b *base[M]) write(ctx context.Context, state *tfsdk.State, problems *diag.Diagnostics, m *M) {
	problems.Append(state.Set(ctx, m)...)
}

func (b *base[M]) title() string { return "berth_" + b.definition.name }

// report adds what the server said, with the name of its reason and the way out where the provider knows one.
func report(problems *diag.Diagnostics, summary string, err error) {
	detail := err.Error()
	var answer *berth.Error
	if errors.As(err, &answer) {
		if answer.Reason != "" {
			detail += fmt.Sprintf("\n\nReason: %s (HTTP %d)", answer.Reason, answer.Status)
		}
		if answer.Status == 401 {
			detail += "\n\nSet api_key of the provider or BERTH_KEY to a valid API key."
		}
	}
	problems.AddError(summary, detail)
}
