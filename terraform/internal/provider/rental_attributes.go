package provider

import (
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

var tokenPattern = regexp.MustCompile(`^[\x21-\x7e]{1,200}$`)

// clientTokenAttribute is used by the create only, so a later change of it changes nothing.
func clientTokenAttribute() schema.StringAttribute {
	one := stringAttribute(optional, "Your own name for this order, unique in the account, such as `prod-trainer-1`. An apply "+
		"that was interrupted on a machine that is gone, as in CI, is then repeated without ordering twice. Without it, "+
		"the journal in the working folder prevents that.")
	one.Validators = []validator.String{stringvalidator.RegexMatches(tokenPattern, "must have 1 to 200 characters without spaces")}
	return one
}

func rentalAttributes(movesVolumes bool) attributes {
	return attributes{
		"id":                 idAttribute("ID of the rental."),
		"name":               stringAttribute(computed, "Unique name of the rental."),
		"label":              stringAttribute(optional, "Your label."),
		"running":            boolAttribute(optional|computed, "Whether it runs; false stops it and keeps its disk. Left out: as it is."),
		"auto_terminate_at":  textAttribute(instant, optional, "Time of its end (RFC 3339)."),
		"spending_limit_usd": textAttribute(amount, optional|computed, "Ends it when its cost reaches this amount in USD; default: that of the provider."),
		"max_cost_per_hour_usd": textAttribute(amount, optional|computed,
			"Highest price per hour in USD that the order accepts; default: that of the provider, or the price in the plan. A later change has no effect."),
		"template_id": stringAttribute(optional|replaces, "Template that the order starts from, as `ID` or `ID@VERSION`."),
		"env":         mapAttribute(optional|replaces, "Environment variables; values may contain `{{ secrets.NAME }}`."),
		"on_start":    stringAttribute(optional|replaces, "Shell script, run at every start."),
		"volumes":     volumesAttribute(movesVolumes),
		"wait_for_capacity": stringAttribute(optional,
			"How long an order waits for free GPUs, such as `20m`, within `timeouts.create`; default: it fails at once and names alternatives."),
		"recreate_after_end": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Whether a rental that its own limit, end time or budget has ended is ordered again; default: false."},
		"client_token":       clientTokenAttribute(),
		"ended_by":           schema.StringAttribute{Computed: true, MarkdownDescription: "What ended it, such as `spending_limit`; null while it lives."},
		"price_per_hour_usd": textAttribute(amount, computed, "Price per hour in USD while it runs."),
		"ssh_user":           stringAttribute(computed, "User for SSH."),
		"ssh_host":           stringAttribute(computed, "Host for SSH."),
		"ssh_port":           intAttribute(computed, "Port for SSH."),
	}
}

var mountTypes = map[string]attr.Type{"volume_id": types.StringType, "path": types.StringType, "read_only": types.BoolType}

type mount struct {
	VolumeID types.String `tfsdk:"volume_id"`
	Path     types.String `tfsdk:"path"`
	ReadOnly types.Bool   `tfsdk:"read_only"`
}

func noVolumes() types.Set { return types.SetNull(types.ObjectType{AttrTypes: mountTypes}) }

func volumesAttribute(moves bool) schema.SetNestedAttribute {
	about := "Storage volumes. Left out: as they are, for volumes that `berth_volume_attachment` attaches."
	modifiers := []planmodifier.Set{setplanmodifier.UseStateForUnknown()}
	if !moves {
		about = "Storage volumes. A container gets its volumes with its order, so a change replaces it."
		modifiers = append(modifiers, setplanmodifier.RequiresReplace())
	}
	return schema.SetNestedAttribute{
		Optional: true, Computed: true, PlanModifiers: modifiers, MarkdownDescription: about,
		NestedObject: schema.NestedAttributeObject{Attributes: attributes{
			"volume_id": schema.StringAttribute{Required: true, MarkdownDescription: "ID of the volume."},
			"path":      schema.StringAttribute{Optional: true, MarkdownDescription: "Where it is mounted; not for bare metal."},
			"read_only": schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether it is mounted read-only; default: false."},
		}},
	}
}

// priceBook are the attributes of virtual machines and bare metal.
func priceBookAttributes() attributes {
	return attributes{
		"region":           stringAttribute(required|replaces, "Region, such as `us-east-1`."),
		"gpu_type":         withDefault(defaultGPUType, "GPU; default: `h100`.", "h100", "h200", "b200"),
		"network_type":     withDefault(defaultNetworkType, "Network; default: `ethernet`.", "ethernet", "infiniband"),
		"gpu_count":        intAttribute(required|replaces, "Number of GPUs, one that the rental options offer."),
		"user_data":        stringAttribute(optional|replaces, "cloud-init user data of a virtual machine, or a script for bare metal."),
		"term_period_days": intAttribute(optional|replaces, "Reserves it for one of the terms on offer; default: on demand."),
	}
}

func withDefault(value, about string, values ...string) schema.StringAttribute {
	one := stringAttribute(optional|replaces, about, values...)
	one.Computed, one.Default = true, stringdefault.StaticString(value)
	return one
}

// imageName is an image on the wire.
type imageName struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

func (i *imageName) value() types.String {
	if i == nil {
		return types.StringNull()
	}
	if i.Tag == nil {
		return types.StringValue(i.Name)
	}
	return types.StringValue(i.Name + ":" + *i.Tag)
}

// parseImage splits at the colon of the tag, which comes after the last slash: a registry may have a port.
func parseImage(image string) imageName {
	colon := strings.LastIndex(image, ":")
	if colon < 0 || colon < strings.LastIndex(image, "/") || strings.Contains(image, "@") {
		return imageName{Name: image}
	}
	tag := image[colon+1:]
	return imageName{Name: image[:colon], Tag: &tag}
}

// portList keeps the order of the configuration where the server has the same ports.
func portList(current types.List, ports []portOrder) types.List {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = string(port)
	}
	all := stringList(texts)
	if sameElements(current, all) {
		return current
	}
	return all
}

func sameElements(one, other types.List) bool {
	if one.IsNull() || one.IsUnknown() || len(one.Elements()) != len(other.Elements()) {
		return false
	}
	counts := map[string]int{}
	for i, element := range one.Elements() {
		counts[element.String()]++
		counts[other.Elements()[i].String()]--
	}
	for _, count := range counts {
		if count != 0 {
			return false
		}
	}
	return true
}
