package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type apiKeyModel struct {
	ID            types.String   `tfsdk:"id"`
	Name          types.String   `tfsdk:"name"`
	Scopes        types.List     `tfsdk:"scopes"`
	ExpiresAt     text           `tfsdk:"expires_at"`
	AllowedModels types.List     `tfsdk:"allowed_models"`
	MonthlyLimit  text           `tfsdk:"monthly_limit_usd"`
	TotalLimit    text           `tfsdk:"total_limit_usd"`
	Key           types.String   `tfsdk:"key"`
	Timeouts      timeouts.Value `tfsdk:"timeouts"`
}

type apiKeyRecord struct {
	PublicID        string `json:"publicId"`
	Name            string
	Scopes          []string
	ExpiresAt       *string
	AllowedModels   []string
	MonthlyLimitUSD *string `json:"monthlyLimitUsd"`
	TotalLimitUSD   *string `json:"totalLimitUsd"`
	RevokedAt       *string
	Key             string
}

const apiKeys = "/v2/api-keys"

func apiKey() definition[apiKeyModel] {
	read := func(ctx context.Context, s *session, m *apiKeyModel) error {
		row, err := findIn(ctx, s, apiKeys, "apiKeys",
			func(row apiKeyRecord) bool { return row.PublicID == m.ID.ValueString() && row.RevokedAt == nil })
		if err != nil {
			return err
		}
		m.Name, m.Scopes = types.StringValue(row.Name), stringList(row.Scopes)
		m.ExpiresAt, m.AllowedModels = newText(instant, row.ExpiresAt), stringList(row.AllowedModels)
		m.MonthlyLimit, m.TotalLimit = newText(amount, row.MonthlyLimitUSD), newText(amount, row.TotalLimitUSD)
		if m.Key.IsUnknown() {
			m.Key = types.StringNull()
		}
		return nil
	}
	return definition[apiKeyModel]{
		name: "api_key",
		about: "An API key. The state has it; for a key that no state should have, use the ephemeral resource of the same name. " +
			"Every change makes a new key.",
		attributes: attributes{
			"id":                idAttribute("Public ID of the key."),
			"name":              stringAttribute(required|replaces, "Name of the key."),
			"scopes":            stringsAttribute(required|replaces, "What it may do, such as `inference`; none that the provider's key lacks."),
			"expires_at":        textAttribute(instant, optional|replaces, "When it stops working; default: never."),
			"allowed_models":    stringsAttribute(optional|replaces, "Models that it may use; default: all."),
			"monthly_limit_usd": textAttribute(amount, optional|replaces, "Most that it may spend per month in USD."),
			"total_limit_usd":   textAttribute(amount, optional|replaces, "Most that it may ever spend in USD."),
			"key":               stringAttribute(computed|sensitive, "The key. Only the create returns it, so it is null after an import."),
		},
		id:       func(m *apiKeyModel) string { return m.ID.ValueString() },
		timeouts: func(m *apiKeyModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *apiKeyModel) error {
			body := fields{}
			body.put("name", plan.Name)
			body.put("scopes", plan.Scopes)
			body.put("expiresAt", plan.ExpiresAt)
			body.put("allowedModels", plan.AllowedModels)
			body.put("monthlyLimitUsd", plan.MonthlyLimit)
			body.put("totalLimitUsd", plan.TotalLimit)
			var answer apiKeyRecord
			err := s.create(ctx, berth.Once{Kind: "api_key", Path: apiKeys, Body: body, IsAlive: func(ctx context.Context, id string) (bool, error) {
				return isThere(read(ctx, s, &apiKeyModel{ID: types.StringValue(id)}))
			}}, "publicId", &answer)
			if err != nil {
				return err
			}
			plan.ID, plan.Key = types.StringValue(answer.PublicID), types.StringValue(answer.Key)
			return nil
		},
		read: read,
		remove: func(ctx context.Context, s *session, m *apiKeyModel) error {
			return s.send(ctx, http.MethodDelete, apiKeys+"/"+m.ID.ValueString(), nil, nil)
		},
	}
}
