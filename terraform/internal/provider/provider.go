// Package provider has the provider's settings and the list of its resources.
package provider

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type berthProvider struct{ version string }

// New returns the provider of this version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &berthProvider{version: version} }
}

type settings struct {
	URL            types.String `tfsdk:"url"`
	APIKey         types.String `tfsdk:"api_key"`
	SpendingLimit  text         `tfsdk:"default_spending_limit_usd"`
	MaxCostPerHour text         `tfsdk:"default_max_cost_per_hour_usd"`
}

func (p *berthProvider) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName, response.Version = "berth", p.version
}

func (p *berthProvider) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	amounts := textType{kind: amount}
	response.Schema = schema.Schema{
		MarkdownDescription: "Machines, volumes and models of a Berth GPU cloud.",
		Attributes: map[string]schema.Attribute{
			"url":     schema.StringAttribute{Optional: true, MarkdownDescription: "Address of the server; default: `BERTH_URL`."},
			"api_key": schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: "API key; default: `BERTH_KEY`."},
			"default_spending_limit_usd": schema.StringAttribute{Optional: true, CustomType: amounts,
				MarkdownDescription: "Spending limit in USD of each rental that sets none."},
			"default_max_cost_per_hour_usd": schema.StringAttribute{Optional: true, CustomType: amounts,
				MarkdownDescription: "Highest price per hour in USD of each order that sets none; default: the price in the plan."},
		},
	}
}

func (p *berthProvider) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var config settings
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	if config.URL.IsUnknown() || config.APIKey.IsUnknown() {
		response.Diagnostics.AddError("The provider berth needs its url and api_key to plan",
			"They depend on resources that do not exist yet. Create those first, or set BERTH_URL and BERTH_KEY.")
		return
	}
	address, key := settingOr(config.URL, "BERTH_URL"), settingOr(config.APIKey, "BERTH_KEY")
	if address == "" {
		response.Diagnostics.AddError("The provider berth needs the address of a server", "Set url, or BERTH_URL.")
	}
	if key == "" {
		response.Diagnostics.AddError("The provider berth needs an API key", "Set api_key, or BERTH_KEY.")
	}
	if response.Diagnostics.HasError() {
		return
	}
	client, err := berth.New(address, key, "terraform-provider-berth/"+p.version)
	if err != nil {
		response.Diagnostics.AddError("The provider berth cannot use its url", err.Error())
		return
	}
	one := &session{
		client: client, journal: berth.OpenJournal(),
		spendingLimit: config.SpendingLimit, maxCostPerHour: config.MaxCostPerHour,
	}
	response.ResourceData, response.DataSourceData, response.EphemeralResourceData = one, one, one
}

func settingOr(value types.String, variable string) string {
	if !value.IsNull() {
		return value.ValueString()
	}
	return os.Getenv(variable)
}

func (p *berthProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newResource(volume()), newResource(sshKey()), newResource(secret()), newResource(template()),
		newResource(budget()), newResource(virtualMachine()), newResource(bareMetal()), newResource(container()),
		newResource(volumeAttachment()), newResource(deployment()),
		newResource(webhook()), newResource(apiKey()), newResource(registryCredential()),
	}
}

func (p *berthProvider) DataSources(context.Context) []func() datasource.DataSource {
	return dataSources()
}

func (p *berthProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{newEphemeralKey}
}
