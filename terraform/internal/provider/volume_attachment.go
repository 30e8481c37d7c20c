package provider

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type volumeAttachmentModel struct {
	ID       types.String   `tfsdk:"id"`
	RentalID types.String   `tfsdk:"rental_id"`
	VolumeID types.String   `tfsdk:"volume_id"`
	Path     types.String   `tfsdk:"path"`
	ReadOnly types.Bool     `tfsdk:"read_only"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
}

func volumeAttachment() definition[volumeAttachmentModel] {
	read := func(ctx context.Context, s *session, m *volumeAttachmentModel) error {
		rental, volume, ok := strings.Cut(m.ID.ValueString(), "/")
		if !ok {
			return fmt.Errorf("the ID of an attachment is RENTAL/VOLUME, not %q", m.ID.ValueString())
		}
		record, err := getRental(ctx, s, rental)
		if err != nil {
			return err
		}
		rows, err := listAttachments(ctx, s, rental)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if strconv.FormatInt(row.StorageVolumeID, 10) != volume || row.State == "detaching" || record.isEnding() {
				continue
			}
			// An import has nothing but the ID, and takes the path over.
			if m.RentalID.IsNull() || !m.Path.IsNull() {
				m.Path = types.StringPointerValue(row.Path)
			}
			m.RentalID, m.VolumeID, m.ReadOnly = types.StringValue(rental), types.StringValue(volume), types.BoolValue(row.ReadOnly)
			return nil
		}
		return errGone
	}
	return definition[volumeAttachmentModel]{
		name:  "volume_attachment",
		about: "A storage volume on a virtual machine or on bare metal. Containers get their volumes with their order.",
		attributes: attributes{
			"id":        idAttribute("`RENTAL/VOLUME`, the IDs of both."),
			"rental_id": stringAttribute(required|replaces, "ID of the rental."),
			"volume_id": stringAttribute(required|replaces, "ID of the volume."),
			"path":      stringAttribute(optional|replaces, "Where a virtual machine mounts it from the next boot on; default: nowhere."),
			"read_only": boolAttribute(optional|computed|replaces, "Whether it is read-only; default: false."),
		},
		id:       func(m *volumeAttachmentModel) string { return m.ID.ValueString() },
		timeouts: func(m *volumeAttachmentModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *volumeAttachmentModel) error {
			plan.ID = types.StringValue(plan.RentalID.ValueString() + "/" + plan.VolumeID.ValueString())
			if plan.ReadOnly.IsUnknown() {
				plan.ReadOnly = types.BoolValue(false)
			}
			// One that an interrupted apply has attached already is taken over.
			if err := read(ctx, s, &volumeAttachmentModel{ID: plan.ID}); err == nil {
				return nil
			}
			err := attach(ctx, s, plan.RentalID.ValueString(),
				mount{VolumeID: plan.VolumeID, Path: plan.Path, ReadOnly: plan.ReadOnly})
			if err != nil {
				plan.ID = types.StringNull()
			}
			return err
		},
		read: read,
		remove: func(ctx context.Context, s *session, m *volumeAttachmentModel) error {
			return detach(ctx, s, m.RentalID.ValueString(), m.VolumeID.ValueString())
		},
	}
}
