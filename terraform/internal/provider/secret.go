package provider

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type secretModel struct {
	ID           types.String   `tfsdk:"id"`
	Name         types.String   `tfsdk:"name"`
	Value        types.String   `tfsdk:"value_wo"`
	ValueVersion types.Int64    `tfsdk:"value_wo_version"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`
}

// writeOnly is a value that neither the plan nor the state has. A change is noticed by its version.
func writeOnly(about string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, WriteOnly: true, Sensitive: true, MarkdownDescription: about}
}

func writeOnlyVersion(about string, u use) schema.Int64Attribute {
	one := intAttribute(optional|u, about)
	one.Computed, one.Default = true, int64default.StaticInt64(1)
	return one
}

// importedVersion reads ID@VERSION of an import, which knows no version otherwise: then it is 1.
func importedVersion(id types.String, version types.Int64) (types.String, types.Int64) {
	if !version.IsNull() {
		return id, version
	}
	name, suffix, _ := strings.Cut(id.ValueString(), "@")
	number, err := strconv.ParseInt(suffix, 10, 64)
	if err != nil {
		number = 1
	}
	return types.StringValue(name), types.Int64Value(number)
}

func secret() definition[secretModel] {
	set := func(ctx context.Context, s *session, m *secretModel, value types.String) error {
		body := fields{"value": value.ValueString()}
		return s.send(ctx, http.MethodPut, "/v2/secrets/"+m.Name.ValueString(), body, nil)
	}
	return definition[secretModel]{
		name: "secret",
		about: "A secret of the account. Orders refer to it as `{{ secrets.NAME }}`. The value is write-only: neither plans nor " +
			"states have it.",
		attributes: attributes{
			"id":       idAttribute("Name of the secret."),
			"name":     stringAttribute(required|replaces, "Name: letters, digits, underscores and hyphens."),
			"value_wo": writeOnly("The value. Needs OpenTofu 1.11 or Terraform 1.11."),
			"value_wo_version": writeOnlyVersion(
				"Increase it to set the value again; default: 1. An import of `NAME@3` has the version 3.", 0),
		},
		id:       func(m *secretModel) string { return m.ID.ValueString() },
		timeouts: func(m *secretModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, config *secretModel) error {
			if err := set(ctx, s, plan, config.Value); err != nil {
				return err
			}
			plan.ID = plan.Name
			return nil
		},
		read: func(ctx context.Context, s *session, m *secretModel) error {
			type row struct{ Name string }
			m.ID, m.ValueVersion = importedVersion(m.ID, m.ValueVersion)
			_, err := findIn(ctx, s, "/v2/secrets", "secrets", func(one row) bool { return one.Name == m.ID.ValueString() })
			m.Name = m.ID
			return err
		},
		update: func(ctx context.Context, s *session, plan, state, config *secretModel) error {
			if plan.ValueVersion.Equal(state.ValueVersion) {
				return nil
			}
			return set(ctx, s, plan, config.Value)
		},
		remove: func(ctx context.Context, s *session, m *secretModel) error {
			return s.send(ctx, http.MethodDelete, "/v2/secrets/"+m.ID.ValueString(), nil, nil)
		},
	}
}
