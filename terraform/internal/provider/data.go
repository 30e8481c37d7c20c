// The base of data sources, and the ephemeral API key.
package provider

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	ephemeralschema "github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

// source is one data source. M is its model.
type source[M any] struct {
	name, about string
	attributes  map[string]schema.Attribute
	read        func(ctx context.Context, s *session, m *M) error
}

type dataBase[M any] struct {
	source  source[M]
	session *session
}

func newData[M any](one source[M]) func() datasource.DataSource {
	return func() datasource.DataSource { return &dataBase[M]{source: one} }
}

func (d *dataBase[M]) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + d.source.name
}

func (d *dataBase[M]) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	response.Schema = schema.Schema{MarkdownDescription: d.source.about, Attributes: d.source.attributes}
}

func (d *dataBase[M]) Configure(_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if one, ok := request.ProviderData.(*session); ok {
		d.session = one
	}
}

func (d *dataBase[M]) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var m M
	response.Diagnostics.Append(request.Config.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := d.source.read(ctx, d.session, &m); err != nil {
		report(&response.Diagnostics, "Cannot read berth_"+d.source.name, err)
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &m)...)
}

func readString(about string, u use) schema.StringAttribute {
	return schema.StringAttribute{Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), MarkdownDescription: about}
}

func readInt(about string, u use) schema.Int64Attribute {
	return schema.Int64Attribute{Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), MarkdownDescription: about}
}

func readList(about string, rows map[string]schema.Attribute) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{Computed: true, MarkdownDescription: about, NestedObject: schema.NestedAttributeObject{Attributes: rows}}
}

const ephemeralKeyLife = time.Hour

// ephemeralKey is an API key that no state has: answer for one run and revoked at its end.
type ephemeralKey struct{ session *session }

type ephemeralKeyModel struct {
	Name   types.String `tfsdk:"name"`
	Scopes types.List   `tfsdk:"scopes"`
	Key    types.String `tfsdk:"key"`
}

func newEphemeralKey() ephemeral.EphemeralResource { return &ephemeralKey{} }

func (e *ephemeralKey) Metadata(_ context.Context, request ephemeral.MetadataRequest, response *ephemeral.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_api_key"
}

func (e *ephemeralKey) Schema(_ context.Context, _ ephemeral.SchemaRequest, response *ephemeral.SchemaResponse) {
	response.Schema = ephemeralschema.Schema{
		MarkdownDescription: "An API key that neither plan nor state has. It is answer for one run, revoked at its end, and expires after an hour.",
		Attributes: map[string]ephemeralschema.Attribute{
			"name":   ephemeralschema.StringAttribute{Required: true, MarkdownDescription: "Name of the key."},
			"scopes": ephemeralschema.ListAttribute{Required: true, ElementType: types.StringType, MarkdownDescription: "What it may do, such as `inference`."},
			"key":    ephemeralschema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The key."},
		},
	}
}

func (e *ephemeralKey) Configure(_ context.Context, request ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	if one, ok := request.ProviderData.(*session); ok {
		e.session = one
	}
}

func (e *ephemeralKey) Open(ctx context.Context, request ephemeral.OpenRequest, response *ephemeral.OpenResponse) {
	var m ephemeralKeyModel
	response.Diagnostics.Append(request.Config.Get(ctx, &m)...)
	if response.Diagnostics.HasError() {
		return
	}
	body := fields{"expiresAt": time.Now().Add(ephemeralKeyLife).UTC().Format(time.RFC3339)}
	body.put("name", m.Name)
	body.put("scopes", m.Scopes)
	var answer apiKeyRecord
	call := berth.Call{Method: http.MethodPost, Path: apiKeys, Body: body, IdempotencyKey: rand.Text()}
	err := e.session.client.Do(ctx, call, &answer)
	if err != nil {
		report(&response.Diagnostics, "Cannot create an ephemeral berth_api_key", err)
		return
	}
	m.Key = types.StringValue(answer.Key)
	response.Diagnostics.Append(response.Result.Set(ctx, &m)...)
	response.Diagnostics.Append(response.Private.SetKey(ctx, "id", []byte(`"`+answer.PublicID+`"`))...)
}

func (e *ephemeralKey) Close(ctx context.Context, request ephemeral.CloseRequest, response *ephemeral.CloseResponse) {
	id, problems := request.Private.GetKey(ctx, "id")
	response.Diagnostics.Append(problems...)
	if len(id) < 3 {
		return
	}
	path := apiKeys + "/" + string(id[1:len(id)-1])
	if err := e.session.send(ctx, http.MethodDelete, path, nil, nil); err != nil && !berth.IsNotFound(err) {
		report(&response.Diagnostics, "Cannot revoke an ephemeral berth_api_key", err)
	}
}
