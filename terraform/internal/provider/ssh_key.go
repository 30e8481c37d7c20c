package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type sshKeyModel struct {
	ID          types.String   `tfsdk:"id"`
	Name        types.String   `tfsdk:"name"`
	PublicKey   text           `tfsdk:"public_key"`
	Fingerprint types.String   `tfsdk:"fingerprint"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

type sshKeyRecord struct{ ID, Name, PublicKey, Fingerprint string }

func sshKey() definition[sshKeyModel] {
	const list = "/v2/ssh-keys"
	read := func(ctx context.Context, s *session, m *sshKeyModel) error {
		row, err := findIn(ctx, s, list, "sshKeys", func(row sshKeyRecord) bool { return row.ID == m.ID.ValueString() })
		if err == nil {
			m.Name, m.Fingerprint = types.StringValue(row.Name), types.StringValue(row.Fingerprint)
			m.PublicKey = newText(publicKey, &row.PublicKey)
		}
		return err
	}
	return definition[sshKeyModel]{
		name:  "ssh_key",
		about: "An SSH public key of the account. It is installed on machines that are ordered after it.",
		attributes: attributes{
			"id":          idAttribute("ID of the key."),
			"name":        stringAttribute(required|replaces, "Name of the key."),
			"public_key":  textAttribute(publicKey, required|replaces, "The public key. Another comment is no change."),
			"fingerprint": stringAttribute(computed, "SHA-256 fingerprint."),
		},
		id:       func(m *sshKeyModel) string { return m.ID.ValueString() },
		timeouts: func(m *sshKeyModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *sshKeyModel) error {
			body := fields{}
			body.put("name", plan.Name)
			body.put("publicKey", plan.PublicKey)
			var answer sshKeyRecord
			err := s.create(ctx, berth.Once{Kind: "ssh_key", Path: list, Body: body, IsAlive: func(ctx context.Context, id string) (bool, error) {
				return isThere(read(ctx, s, &sshKeyModel{ID: types.StringValue(id)}))
			}}, "id", &answer)
			if err != nil {
				return err
			}
			plan.ID = types.StringValue(answer.ID)
			return read(ctx, s, plan)
		},
		read: read,
		remove: func(ctx context.Context, s *session, m *sshKeyModel) error {
			return s.send(ctx, http.MethodDelete, list+"/"+m.ID.ValueString(), nil, nil)
		},
	}
}
