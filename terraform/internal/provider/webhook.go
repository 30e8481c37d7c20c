package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type webhookModel struct {
	ID          types.String   `tfsdk:"id"`
	URL         types.String   `tfsdk:"url"`
	Description types.String   `tfsdk:"description"`
	EventTypes  types.List     `tfsdk:"event_types"`
	Enabled     types.Bool     `tfsdk:"enabled"`
	Secret      types.String   `tfsdk:"secret"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

type webhookRecord struct {
	ID, URL     string
	Description *string
	EventTypes  []string
	Enabled     bool
	Secret      *string
}

func (m *webhookModel) fill(row webhookRecord) {
	m.ID, m.URL, m.Enabled = types.StringValue(row.ID), types.StringValue(row.URL), types.BoolValue(row.Enabled)
	m.Description, m.EventTypes = keepNull(m.Description, row.Description), stringList(row.EventTypes)
	if row.Secret != nil {
		m.Secret = types.StringPointerValue(row.Secret)
	}
	if m.Secret.IsUnknown() {
		m.Secret = types.StringNull()
	}
}

func (m *webhookModel) body() fields {
	body := fields{}
	body.put("url", m.URL)
	body.putOrNull("description", m.Description)
	body.putOrNull("eventTypes", m.EventTypes)
	return body
}

func webhook() definition[webhookModel] {
	const list = "/v2/webhooks"
	read := func(ctx context.Context, s *session, m *webhookModel) error {
		row, err := findIn(ctx, s, list, "webhooks", func(row webhookRecord) bool { return row.ID == m.ID.ValueString() })
		if err == nil {
			m.fill(row)
		}
		return err
	}
	change := func(ctx context.Context, s *session, m *webhookModel) error {
		body := m.body()
		body.put("enabled", m.Enabled)
		var answer webhookRecord
		err := s.send(ctx, http.MethodPatch, list+"/"+m.ID.ValueString(), body, &answer)
		if err == nil {
			m.fill(answer)
		}
		return err
	}
	return definition[webhookModel]{
		name:  "webhook",
		about: "Sends events to a URL, signed according to Standard Webhooks.",
		attributes: attributes{
			"id":          idAttribute("ID of the webhook."),
			"url":         stringAttribute(required, "Receives a POST per event."),
			"description": stringAttribute(optional, "What it is for."),
			"event_types": stringsAttribute(optional, "Types of events that are sent; default: all."),
			"enabled":     boolAttribute(optional|computed, "Whether events are sent; default: true."),
			"secret": stringAttribute(computed|sensitive,
				"Signing secret, `whsec_…`. Only the create returns it, so it is null after an import."),
		},
		id:       func(m *webhookModel) string { return m.ID.ValueString() },
		timeouts: func(m *webhookModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *webhookModel) error {
			var answer webhookRecord
			err := s.create(ctx, berth.Once{Kind: "webhook", Path: list, Body: plan.body(), IsAlive: func(ctx context.Context, id string) (bool, error) {
				return isThere(read(ctx, s, &webhookModel{ID: types.StringValue(id)}))
			}}, "id", &answer)
			if err != nil {
				return err
			}
			isOff := !plan.Enabled.IsUnknown() && !plan.Enabled.IsNull() && !plan.Enabled.ValueBool()
			plan.fill(answer)
			if isOff {
				plan.Enabled = types.BoolValue(false)
				return change(ctx, s, plan)
			}
			return nil
		},
		read:   read,
		update: func(ctx context.Context, s *session, plan, _, _ *webhookModel) error { return change(ctx, s, plan) },
		remove: func(ctx context.Context, s *session, m *webhookModel) error {
			return s.send(ctx, http.MethodDelete, list+"/"+m.ID.ValueString(), nil, nil)
		},
	}
}
