package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type budgetModel struct {
	ID            types.String   `tfsdk:"id"`
	Name          types.String   `tfsdk:"name"`
	Scope         types.String   `tfsdk:"scope"`
	ScopeValue    types.String   `tfsdk:"scope_value"`
	MonthlyUSD    text           `tfsdk:"monthly_usd"`
	AlertsPercent types.List     `tfsdk:"alerts_percent"`
	Action        types.String   `tfsdk:"action"`
	Timeouts      timeouts.Value `tfsdk:"timeouts"`
}

type budgetRecord struct {
	ID, Name, Scope string
	ScopeValue      *string
	MonthlyUSD      string `json:"monthlyUsd"`
	AlertsPercent   []int64
	Action          string
}

func (m *budgetModel) fill(row budgetRecord) {
	alerts := make([]attr.Value, len(row.AlertsPercent))
	for i, percent := range row.AlertsPercent {
		alerts[i] = types.Int64Value(percent)
	}
	m.ID, m.Name, m.Scope = types.StringValue(row.ID), types.StringValue(row.Name), types.StringValue(row.Scope)
	m.ScopeValue, m.Action = types.StringPointerValue(row.ScopeValue), types.StringValue(row.Action)
	m.MonthlyUSD, m.AlertsPercent = newText(amount, &row.MonthlyUSD), types.ListValueMust(types.Int64Type, alerts)
}

func (m *budgetModel) body() fields {
	body := fields{}
	body.put("name", m.Name)
	body.put("monthlyUsd", m.MonthlyUSD)
	body.put("alertsPercent", m.AlertsPercent)
	body.put("action", m.Action)
	return body
}

func budget() definition[budgetModel] {
	const list = "/v2/budgets"
	read := func(ctx context.Context, s *session, m *budgetModel) error {
		row, err := findIn(ctx, s, list, "budgets", func(row budgetRecord) bool { return row.ID == m.ID.ValueString() })
		if err == nil {
			m.fill(row)
		}
		return err
	}
	return definition[budgetModel]{
		name:  "budget",
		about: "An amount per month for the account, an API key or a label, with alerts and an optional stop.",
		attributes: attributes{
			"id":          idAttribute("ID of the budget."),
			"name":        stringAttribute(required, "Name of the budget."),
			"scope":       stringAttribute(optional|computed|replaces, "What it counts; default: `account`.", "account", "key", "label"),
			"scope_value": stringAttribute(optional|replaces, "Public ID of the key, or the label; required for both."),
			"monthly_usd": textAttribute(amount, required, "Amount per month in USD."),
			"alerts_percent": schema.ListAttribute{
				Optional: true, Computed: true, ElementType: types.Int64Type,
				PlanModifiers:       []planmodifier.List{listplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Percentages at which to alert; default: 50, 80, 100.",
			},
			"action": stringAttribute(optional|computed, "What happens at 100 %; default: `alert`.",
				"alert", "block", "stop", "terminate"),
		},
		id:       func(m *budgetModel) string { return m.ID.ValueString() },
		timeouts: func(m *budgetModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *budgetModel) error {
			body := plan.body()
			body.put("scope", plan.Scope)
			body.put("scopeValue", plan.ScopeValue)
			var answer budgetRecord
			err := s.create(ctx, berth.Once{Kind: "budget", Path: list, Body: body, IsAlive: func(ctx context.Context, id string) (bool, error) {
				return isThere(read(ctx, s, &budgetModel{ID: types.StringValue(id)}))
			}}, "id", &answer)
			if err == nil {
				plan.fill(answer)
			}
			return err
		},
		read: read,
		update: func(ctx context.Context, s *session, plan, _, _ *budgetModel) error {
			var answer budgetRecord
			err := s.send(ctx, http.MethodPatch, list+"/"+plan.ID.ValueString(), plan.body(), &answer)
			if err == nil {
				plan.fill(answer)
			}
			return err
		},
		remove: func(ctx context.Context, s *session, m *budgetModel) error {
			return s.send(ctx, http.MethodDelete, list+"/"+m.ID.ValueString(), nil, nil)
		},
	}
}
