package provider

import (
	"context"
	"net/url"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const maxRows = 1_000

func dataSources() []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newData(optionsSource()), newData(offersSource()), newData(quoteSource()), newData(modelsSource()), newData(balanceSource()),
		newData(rentalsSource()),
	}
}

type optionRow struct {
	Kind         types.String `tfsdk:"kind"`
	Region       types.String `tfsdk:"region"`
	GPUType      types.String `tfsdk:"gpu_type"`
	NetworkType  types.String `tfsdk:"network_type"`
	GPUCount     types.Int64  `tfsdk:"gpu_count"`
	Available    types.Int64  `tfsdk:"available"`
	PricePerHour types.String `tfsdk:"price_per_hour_usd"`
}

type optionsModel struct {
	Kind    types.String `tfsdk:"kind"`
	Region  types.String `tfsdk:"region"`
	GPUType types.String `tfsdk:"gpu_type"`
	Options []optionRow  `tfsdk:"options"`
}

func optionsSource() source[optionsModel] {
	return source[optionsModel]{
		name: "options", about: "Virtual machines and bare metal that can be rented, with their prices.",
		attributes: map[string]schema.Attribute{
			"kind":     readString("Only `virtual-machine` or `bare-metal`.", optional),
			"region":   readString("Only this region.", optional),
			"gpu_type": readString("Only this GPU.", optional),
			"options": readList("The options.", map[string]schema.Attribute{
				"kind": readString("Kind of the rental.", computed), "region": readString("Region.", computed),
				"gpu_type": readString("GPU.", computed), "network_type": readString("Network.", computed),
				"gpu_count": readInt("GPUs of one rental.", computed), "available": readInt("How many can be rented now.", computed),
				"price_per_hour_usd": readString("Price of one rental per hour in USD.", computed),
			}),
		},
		read: func(ctx context.Context, s *session, m *optionsModel) error {
			options, err := demand{}.options(ctx, s)
			m.Options = []optionRow{}
			for _, one := range options {
				if !one.Enabled || isOther(m.Kind, one.MachineType) || isOther(m.Region, one.Region) || isOther(m.GPUType, one.GPUType) {
					continue
				}
				m.Options = append(m.Options, optionRow{
					types.StringValue(one.MachineType), types.StringValue(one.Region), types.StringValue(one.GPUType),
					types.StringValue(one.ConnectionType), types.Int64Value(one.GPUCount), types.Int64Value(one.TotalAvailable),
					types.StringValue(strconv.FormatFloat(one.CostPerHour, 'f', -1, 64)),
				})
			}
			return err
		},
	}
}

func isOther(filter types.String, value string) bool {
	return !filter.IsNull() && filter.ValueString() != value
}

type offerRow struct {
	MachineID types.String `tfsdk:"machine_id"`
	Region    types.String `tfsdk:"region"`
	GPUModel  types.String `tfsdk:"gpu_model"`
	GPUsFree  types.Int64  `tfsdk:"gpus_free"`
	Price     types.String `tfsdk:"price_per_gpu_hour_usd"`
}

type offersModel struct {
	GPUModel types.String `tfsdk:"gpu_model"`
	Region   types.String `tfsdk:"region"`
	GPUsFree types.Int64  `tfsdk:"min_gpus_free"`
	Offers   []offerRow   `tfsdk:"offers"`
}

func offersSource() source[offersModel] {
	return source[offersModel]{
		name: "offers", about: "Machines of the marketplace, cheapest first; at most 100.",
		attributes: map[string]schema.Attribute{
			"gpu_model":     readString("Only GPUs with this part in their name.", optional),
			"region":        readString("Only this region.", optional),
			"min_gpus_free": readInt("Only machines with as many free GPUs.", optional),
			"offers": readList("The machines.", map[string]schema.Attribute{
				"machine_id": readString("ID of the machine.", computed), "region": readString("Region.", computed),
				"gpu_model": readString("GPU.", computed), "gpus_free": readInt("Free GPUs.", computed),
				"price_per_gpu_hour_usd": readString("Price of a GPU per hour in USD.", computed),
			}),
		},
		read: func(ctx context.Context, s *session, m *offersModel) error {
			query := url.Values{"sort": {"price"}, "limit": {"100"}}
			if !m.GPUModel.IsNull() {
				query.Set("gpu", m.GPUModel.ValueString())
			}
			if !m.Region.IsNull() {
				query.Set("region", m.Region.ValueString())
			}
			if !m.GPUsFree.IsNull() {
				query.Set("free", strconv.FormatInt(m.GPUsFree.ValueInt64(), 10))
			}
			var answer struct{ Machines []marketMachine }
			err := s.get(ctx, "/v2/marketplace/machines", query, &answer)
			m.Offers = []offerRow{}
			for _, one := range answer.Machines {
				m.Offers = append(m.Offers, offerRow{
					types.StringValue(one.ID), types.StringValue(one.Region), types.StringValue(one.GPUModel),
					types.Int64Value(one.GPUsFree), types.StringValue(shortAmount(one.PricePerGPUHourUSD)),
				})
			}
			return err
		},
	}
}

type quoteModel struct {
	Kind           types.String `tfsdk:"kind"`
	Region         types.String `tfsdk:"region"`
	GPUType        types.String `tfsdk:"gpu_type"`
	NetworkType    types.String `tfsdk:"network_type"`
	GPUCount       types.Int64  `tfsdk:"gpu_count"`
	TermPeriodDays types.Int64  `tfsdk:"term_period_days"`
	PricePerHour   types.String `tfsdk:"price_per_hour_usd"`
}

func quoteSource() source[quoteModel] {
	return source[quoteModel]{
		name: "quote", about: "The price of a virtual machine or of bare metal, without an order.",
		attributes: map[string]schema.Attribute{
			"kind":               readString("`virtual-machine` or `bare-metal`.", required),
			"region":             readString("Region.", required),
			"gpu_type":           readString("GPU; default: `h100`.", optional),
			"network_type":       readString("Network; default: `ethernet`.", optional),
			"gpu_count":          readInt("Number of GPUs.", required),
			"term_period_days":   readInt("Term; default: on demand.", optional),
			"price_per_hour_usd": readString("Price per hour in USD.", computed),
		},
		read: func(ctx context.Context, s *session, m *quoteModel) error {
			one := demand{kind: m.Kind.ValueString(), region: m.Region, gpuType: m.GPUType, networkType: m.NetworkType, gpuCount: m.GPUCount,
				termDays: m.TermPeriodDays}
			price, err := one.price(ctx, s)
			m.PricePerHour = types.StringValue(shortAmount(price))
			return err
		},
	}
}

type modelRow struct {
	ID            types.String `tfsdk:"id"`
	Kind          types.String `tfsdk:"kind"`
	ContextLength types.Int64  `tfsdk:"context_length"`
}

type modelsModel struct {
	Kind   types.String `tfsdk:"kind"`
	Models []modelRow   `tfsdk:"models"`
}

func modelsSource() source[modelsModel] {
	return source[modelsModel]{
		name: "models", about: "Models that the account can use.",
		attributes: map[string]schema.Attribute{
			"kind": readString("Only this kind, such as `chat`.", optional),
			"models": readList("The models.", map[string]schema.Attribute{
				"id": readString("Name that requests use.", computed), "kind": readString("What it does.", computed),
				"context_length": readInt("Longest context in tokens; null: it has none.", computed),
			}),
		},
		read: func(ctx context.Context, s *session, m *modelsModel) error {
			var answer struct {
				Data []struct {
					ID, Kind      string
					ContextLength *int64 `json:"context_length"`
				}
			}
			err := s.get(ctx, "/v1/models", nil, &answer)
			m.Models = []modelRow{}
			for _, one := range answer.Data {
				if !isOther(m.Kind, one.Kind) {
					m.Models = append(m.Models, modelRow{types.StringValue(one.ID), types.StringValue(one.Kind), types.Int64PointerValue(one.ContextLength)})
				}
			}
			return err
		},
	}
}

type balanceModel struct {
	Available types.String `tfsdk:"available_usd"`
	Held      types.String `tfsdk:"held_usd"`
	Hourly    types.String `tfsdk:"hourly_spend_usd"`
	EmptyAt   types.String `tfsdk:"empty_at"`
}

func balanceSource() source[balanceModel] {
	return source[balanceModel]{
		name: "balance", about: "The money of the account.",
		attributes: map[string]schema.Attribute{
			"available_usd":    readString("What new rentals can use, in USD.", computed),
			"held_usd":         readString("On hold for what runs, in USD.", computed),
			"hourly_spend_usd": readString("Spend per hour in USD.", computed),
			"empty_at":         readString("When the balance is used up; null: never.", computed),
		},
		read: func(ctx context.Context, s *session, m *balanceModel) error {
			var answer struct {
				AvailableUSD   string `json:"availableUsd"`
				HeldUSD        string `json:"heldUsd"`
				HourlySpendUSD string `json:"hourlySpendUsd"`
				EmptyAt        *string
			}
			err := s.get(ctx, "/v2/customer/balance", nil, &answer)
			m.Available, m.Held = types.StringValue(shortAmount(answer.AvailableUSD)), types.StringValue(shortAmount(answer.HeldUSD))
			m.Hourly, m.EmptyAt = types.StringValue(shortAmount(answer.HourlySpendUSD)), types.StringPointerValue(answer.EmptyAt)
			return err
		},
	}
}

type rentalRow struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Label        types.String `tfsdk:"label"`
	Kind         types.String `tfsdk:"kind"`
	State        types.String `tfsdk:"state"`
	Region       types.String `tfsdk:"region"`
	GPUModel     types.String `tfsdk:"gpu_model"`
	GPUCount     types.Int64  `tfsdk:"gpu_count"`
	PricePerHour types.String `tfsdk:"price_per_hour_usd"`
	CostSoFar    types.String `tfsdk:"cost_so_far_usd"`
}

type rentalsModel struct {
	Search  types.String `tfsdk:"search"`
	Kind    types.String `tfsdk:"kind"`
	Rentals []rentalRow  `tfsdk:"rentals"`
}

func rentalsSource() source[rentalsModel] {
	return source[rentalsModel]{
		name: "rentals", about: "Rentals of every kind that have not ended, newest first, with their costs; at most 1,000.",
		attributes: map[string]schema.Attribute{
			"search": readString("Only those with this part in their name or label.", optional),
			"kind":   readString("Only `container`, `virtual-machine` or `bare-metal`.", optional),
			"rentals": readList("The rentals.", map[string]schema.Attribute{
				"id": readString("ID.", computed), "name": readString("Name.", computed), "label": readString("Label.", computed),
				"kind": readString("Kind.", computed), "state": readString("State.", computed), "region": readString("Region.", computed),
				"gpu_model": readString("GPU.", computed), "gpu_count": readInt("Number of GPUs.", computed),
				"price_per_hour_usd": readString("Price per hour in USD while it runs.", computed),
				"cost_so_far_usd":    readString("Cost until now in USD.", computed),
			}),
		},
		read: func(ctx context.Context, s *session, m *rentalsModel) error {
			query := url.Values{"limit": {strconv.Itoa(maxRows)}}
			if !m.Search.IsNull() {
				query.Set("q", m.Search.ValueString())
			}
			if !m.Kind.IsNull() {
				query.Set("kind", m.Kind.ValueString())
			}
			var answer struct{ Rentals []rentalRecord }
			err := s.get(ctx, rentals, query, &answer)
			m.Rentals = []rentalRow{}
			for _, one := range answer.Rentals {
				m.Rentals = append(m.Rentals, rentalRow{
					types.StringValue(strconv.FormatInt(one.ID, 10)), types.StringValue(one.Name), types.StringPointerValue(one.Label),
					types.StringValue(one.Kind), types.StringValue(one.State), types.StringValue(one.Region), types.StringValue(one.GPUModel),
					types.Int64Value(one.GPUCount), types.StringValue(shortAmount(one.PricePerHourUSD)),
					types.StringValue(shortAmount(one.CostSoFarUSD)),
				})
			}
			return err
		},
	}
}
