package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

const (
	volumes      = "/v2/alpha/on-demand/storage-volumes"
	volumeStepGB = 256
	maxVolumeGB  = 64_000
)

type volumeModel struct {
	ID          types.String   `tfsdk:"id"`
	Label       types.String   `tfsdk:"label"`
	Region      types.String   `tfsdk:"region"`
	SizeGB      types.Int64    `tfsdk:"size_gb"`
	NodeName    types.String   `tfsdk:"node_name"`
	ClientToken types.String   `tfsdk:"client_token"`
	Timeouts    timeouts.Value `tfsdk:"timeouts"`
}

type volumeRecord struct {
	ID              int64
	Label, Region   string
	SizeInGB        int64 `json:"sizeInGb"`
	GrowingToGB     *int64
	NodeName        *string
	TerminatedAt    *string
	DeletedAt       *string
	AttachedRentals []int64
}

func findVolume(ctx context.Context, s *session, id string) (volumeRecord, error) {
	var rows []volumeRecord
	number, err := strconv.ParseInt(id, 10, 32)
	if err != nil {
		return volumeRecord{}, fmt.Errorf("the ID of a volume is a number, not %q", id)
	}
	query := url.Values{"before": {strconv.FormatInt(number+1, 10)}, "limit": {"1"}}
	if err := s.get(ctx, volumes, query, &rows); err != nil {
		return volumeRecord{}, err
	}
	if len(rows) == 0 || rows[0].ID != number || rows[0].TerminatedAt != nil || rows[0].DeletedAt != nil {
		return volumeRecord{}, errGone
	}
	return rows[0], nil
}

func volume() definition[volumeModel] {
	read := func(ctx context.Context, s *session, m *volumeModel) error {
		row, err := findVolume(ctx, s, m.ID.ValueString())
		if err != nil {
			return err
		}
		m.Label, m.Region, m.SizeGB = types.StringValue(row.Label), types.StringValue(row.Region), types.Int64Value(row.SizeInGB)
		if row.GrowingToGB != nil {
			m.SizeGB = types.Int64Value(*row.GrowingToGB)
		}
		m.NodeName = types.StringPointerValue(row.NodeName)
		return nil
	}
	return definition[volumeModel]{
		name: "volume",
		about: "A storage volume. It grows in place and never shrinks. A delete detaches it first; a container keeps its volumes " +
			"until it is terminated.",
		limit: 15 * time.Minute,
		attributes: attributes{
			"id":     idAttribute("ID of the volume."),
			"label":  stringAttribute(required|replaces, "Letters, digits, underscores and hyphens; at least 4."),
			"region": stringAttribute(required|replaces, "Region of the volume and the rentals that use it."),
			"size_gb": schema.Int64Attribute{Required: true, MarkdownDescription: "Size in GB, a multiple of 256.",
				Validators: []validator.Int64{int64validator.Between(volumeStepGB, maxVolumeGB)}},
			"node_name":    stringAttribute(optional|computed|replaces, "Machine that it is on, for volumes of machines with containers."),
			"client_token": clientTokenAttribute(),
		},
		id:       func(m *volumeModel) string { return m.ID.ValueString() },
		timeouts: func(m *volumeModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *volumeModel) error {
			body := fields{}
			body.put("label", plan.Label)
			body.put("region", plan.Region)
			body.put("sizeInGb", plan.SizeGB)
			body.put("nodeName", plan.NodeName)
			var answer struct{ StorageVolumeID int64 }
			err := s.create(ctx, berth.Once{Kind: "volume", Path: volumes, Body: body, Token: plan.ClientToken.ValueString(),
				IsAlive: func(ctx context.Context, id string) (bool, error) {
					_, err := findVolume(ctx, s, id)
					return isThere(err)
				}}, "storageVolumeId", &answer)
			if err != nil {
				return err
			}
			plan.ID = types.StringValue(strconv.FormatInt(answer.StorageVolumeID, 10))
			return read(ctx, s, plan)
		},
		read: read,
		update: func(ctx context.Context, s *session, plan, state, _ *volumeModel) error {
			if plan.SizeGB.ValueInt64() > state.SizeGB.ValueInt64() {
				return grow(ctx, s, plan)
			}
			return nil
		},
		remove: removeVolume,
		plan: func(_ context.Context, _ *session, p *planning[volumeModel]) {
			if p.plan.SizeGB.IsUnknown() {
				return
			}
			size := p.plan.SizeGB.ValueInt64()
			if size%volumeStepGB != 0 {
				p.problems.AddAttributeError(path.Root("size_gb"), "The size is not offered", "It must be a multiple of 256 GB.")
			}
			if p.state != nil && size < p.state.SizeGB.ValueInt64() && !p.hasChanged("region") && !p.hasChanged("label") {
				p.problems.AddAttributeError(path.Root("size_gb"), "A volume cannot shrink",
					fmt.Sprintf("Volume %s has %d GB. Create another volume of %d GB and copy the data.",
						p.state.ID.ValueString(), p.state.SizeGB.ValueInt64(), size))
			}
		},
	}
}

func grow(ctx context.Context, s *session, m *volumeModel) error {
	id, size := m.ID.ValueString(), m.SizeGB.ValueInt64()
	if err := s.send(ctx, http.MethodPatch, volumes+"/"+id, fields{"sizeInGb": size}, nil); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		row, err := findVolume(ctx, s, id)
		return row.GrowingToGB == nil && row.SizeInGB >= size, err
	})
}

// removeVolume detaches it first. A rental that is being terminated lets go of it by itself.
func removeVolume(ctx context.Context, s *session, m *volumeModel) error {
	row, err := findVolume(ctx, s, m.ID.ValueString())
	if err != nil {
		return err
	}
	if len(row.AttachedRentals) > 0 {
		err := s.send(ctx, http.MethodPost, volumes+"/detach", fields{"storageVolumeId": row.ID}, nil)
		if err != nil && !berth.HasReason(err, "volume_fixed", "already_terminated", "not_attached") {
			return err
		}
	}
	err = s.until(ctx, func() (bool, error) {
		err := s.send(ctx, http.MethodPost, volumes+"/terminate", fields{"storageVolumeId": row.ID}, nil)
		if !berth.HasReason(err, "volume_attached") {
			return err == nil, err
		}
		// Those that are ending let go of it; the others keep it.
		for _, rental := range row.AttachedRentals {
			one, failed := getRental(ctx, s, strconv.FormatInt(rental, 10))
			if failed != nil || (one.Kind == "container" && !one.isEnding()) {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		_, err := findVolume(ctx, s, m.ID.ValueString())
		isStillThere, err := isThere(err)
		return !isStillThere, err
	})
}
