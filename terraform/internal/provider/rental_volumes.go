package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type attachmentRecord struct {
	StorageVolumeID int64
	Path            *string
	ReadOnly        bool
	State           string
}

func listAttachments(ctx context.Context, s *session, rentalID string) ([]attachmentRecord, error) {
	var answer struct{ Volumes []attachmentRecord }
	err := s.get(ctx, rentals+"/"+rentalID+"/volumes", nil, &answer)
	return answer.Volumes, err
}

// readVolumes keeps a path that the configuration has left to the engine.
func readVolumes(ctx context.Context, s *session, f *rentalFields, isImport bool) error {
	rows, err := listAttachments(ctx, s, f.ID.ValueString())
	if err != nil {
		return err
	}
	if isImport && len(rows) == 0 {
		f.Volumes = noVolumes()
		return nil
	}
	before, err := mounts(ctx, f.Volumes)
	if err != nil {
		return err
	}
	elements := []attr.Value{}
	for _, row := range rows {
		if row.State == "detaching" {
			continue
		}
		id := strconv.FormatInt(row.StorageVolumeID, 10)
		path := types.StringPointerValue(row.Path)
		if one, ok := before[id]; ok && one.Path.IsNull() {
			path = types.StringNull()
		}
		elements = append(elements, types.ObjectValueMust(mountTypes, map[string]attr.Value{
			"volume_id": types.StringValue(id), "path": path, "read_only": types.BoolValue(row.ReadOnly),
		}))
	}
	f.Volumes = types.SetValueMust(types.ObjectType{AttrTypes: mountTypes}, elements)
	return nil
}

func mounts(ctx context.Context, volumes types.Set) (map[string]mount, error) {
	all := map[string]mount{}
	if volumes.IsNull() || volumes.IsUnknown() {
		return all, nil
	}
	var list []mount
	if problems := volumes.ElementsAs(ctx, &list, false); problems.HasError() {
		return nil, errors.New(problems.Errors()[0].Detail())
	}
	for _, one := range list {
		all[one.VolumeID.ValueString()] = one
	}
	return all, nil
}

// volumeOrder is the field `volumes` of an order, or nil.
func volumeOrder(volumes types.Set) []fields {
	var list []mount
	if volumes.IsNull() || volumes.IsUnknown() || volumes.ElementsAs(context.Background(), &list, false).HasError() {
		return nil
	}
	var order []fields
	for _, one := range list {
		id, err := strconv.ParseInt(one.VolumeID.ValueString(), 10, 64)
		if err != nil {
			// The server names the field.
			id = 0
		}
		body := fields{"volumeId": id}
		body.put("path", one.Path)
		if one.ReadOnly.ValueBool() {
			body["readOnly"] = true
		}
		order = append(order, body)
	}
	return order
}

// moveVolumes detaches what is no longer planned, then attaches what is new. A change of the path is both.
func moveVolumes(ctx context.Context, s *session, plan, state *rentalFields) error {
	if plan.Volumes.IsUnknown() || plan.Volumes.IsNull() || plan.Volumes.Equal(state.Volumes) {
		return nil
	}
	target, err := mounts(ctx, plan.Volumes)
	if err != nil {
		return err
	}
	current, err := mounts(ctx, state.Volumes)
	if err != nil {
		return err
	}
	id := plan.ID.ValueString()
	for volumeID, one := range current {
		if next, ok := target[volumeID]; !ok || next != one {
			if err := detach(ctx, s, id, volumeID); err != nil {
				return err
			}
		}
	}
	for volumeID, one := range target {
		if before, ok := current[volumeID]; !ok || before != one {
			if err := attach(ctx, s, id, one); err != nil {
				return err
			}
		}
	}
	return nil
}

func attach(ctx context.Context, s *session, rentalID string, one mount) error {
	volumeID, err := strconv.ParseInt(one.VolumeID.ValueString(), 10, 64)
	if err != nil {
		return fmt.Errorf("the ID of a volume is a number, not %q", one.VolumeID.ValueString())
	}
	body := fields{"storageVolumeId": volumeID, "readOnly": one.ReadOnly.ValueBool()}
	body.put("path", one.Path)
	if err := s.send(ctx, http.MethodPost, rentals+"/"+rentalID+"/volumes", body, nil); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		rows, err := listAttachments(ctx, s, rentalID)
		for _, row := range rows {
			if row.StorageVolumeID == volumeID {
				return row.State == "attached", err
			}
		}
		if err == nil {
			err = fmt.Errorf("volume %d was not attached", volumeID)
		}
		return false, err
	})
}

func detach(ctx context.Context, s *session, rentalID, volumeID string) error {
	err := s.send(ctx, http.MethodDelete, rentals+"/"+rentalID+"/volumes/"+volumeID, nil, nil)
	if err != nil {
		return err
	}
	return s.until(ctx, func() (bool, error) {
		rows, err := listAttachments(ctx, s, rentalID)
		for _, row := range rows {
			if strconv.FormatInt(row.StorageVolumeID, 10) == volumeID {
				return false, err
			}
		}
		return true, err
	})
}
