package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type registryCredentialModel struct {
	ID              types.String   `tfsdk:"id"`
	Name            types.String   `tfsdk:"name"`
	Server          types.String   `tfsdk:"server"`
	Username        types.String   `tfsdk:"username"`
	Password        types.String   `tfsdk:"password_wo"`
	PasswordVersion types.Int64    `tfsdk:"password_wo_version"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`
}

type registryCredentialRecord struct{ ID, Name, Server, Username string }

func registryCredential() definition[registryCredentialModel] {
	const list = "/v2/registry-credentials"
	read := func(ctx context.Context, s *session, m *registryCredentialModel) error {
		m.ID, m.PasswordVersion = importedVersion(m.ID, m.PasswordVersion)
		row, err := findIn(ctx, s, list, "registryCredentials",
			func(row registryCredentialRecord) bool { return row.ID == m.ID.ValueString() })
		if err != nil {
			return err
		}
		m.Name, m.Server = types.StringValue(row.Name), types.StringValue(row.Server)
		m.Username = types.StringValue(row.Username)
		return nil
	}
	return definition[registryCredentialModel]{
		name:  "registry_credential",
		about: "A login for a private image registry. The password is write-only: neither plans nor states have it.",
		attributes: attributes{
			"id":          idAttribute("ID of the login."),
			"name":        stringAttribute(required|replaces, "Name of the login."),
			"server":      stringAttribute(required|replaces, "Host name of the registry, such as `registry.example.com`."),
			"username":    stringAttribute(required|replaces, "User name at the registry."),
			"password_wo": writeOnly("The password or access token. Needs OpenTofu 1.11 or Terraform 1.11."),
			"password_wo_version": writeOnlyVersion(
				"Increase it to replace the login with one that has the new password; default: 1. An import of `ID@3` has the version 3.", replaces),
		},
		id:       func(m *registryCredentialModel) string { return m.ID.ValueString() },
		timeouts: func(m *registryCredentialModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, config *registryCredentialModel) error {
			body := fields{}
			body.put("name", plan.Name)
			body.put("server", plan.Server)
			body.put("username", plan.Username)
			body.put("password", config.Password)
			var answer registryCredentialRecord
			err := s.create(ctx, berth.Once{Kind: "registry_credential", Path: list, Body: body,
				IsAlive: func(ctx context.Context, id string) (bool, error) {
					return isThere(read(ctx, s, &registryCredentialModel{ID: types.StringValue(id)}))
				}}, "id", &answer)
			if err != nil {
				return err
			}
			plan.ID = types.StringValue(answer.ID)
			return nil
		},
		read: read,
		remove: func(ctx context.Context, s *session, m *registryCredentialModel) error {
			return s.send(ctx, http.MethodDelete, list+"/"+m.ID.ValueString(), nil, nil)
		},
	}
}
