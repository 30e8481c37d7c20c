package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	defaultGPUType     = "h100"
	defaultNetworkType = "ethernet"
)

// priceBookFields are those of virtual machines and bare metal, whose price the operator sets.
type priceBookFields struct {
	Region         types.String `tfsdk:"region"`
	GPUType        types.String `tfsdk:"gpu_type"`
	NetworkType    types.String `tfsdk:"network_type"`
	UserData       types.String `tfsdk:"user_data"`
	TermPeriodDays types.Int64  `tfsdk:"term_period_days"`
}

var priceBookReplaces = []string{"region", "gpu_type", "network_type", "gpu_count", "user_data", "term_period_days", "template_id",
	"env", "on_start"}

func (p *priceBookFields) put(body fields) {
	body.put("region", p.Region)
	body.put("gpuType", p.GPUType)
	body.put("networkType", p.NetworkType)
	body.put("userData", p.UserData)
	body.put("termPeriodDays", p.TermPeriodDays)
}

func (p *priceBookFields) fill(record rentalRecord, order *orderRecord) {
	p.GPUType, p.NetworkType = types.StringPointerValue(record.GPUType), types.StringValue(record.NetworkType)
	if order == nil {
		return
	}
	p.Region, p.UserData = types.StringValue(record.Region), types.StringPointerValue(order.UserData)
	if record.TermPeriodDays != nil {
		p.TermPeriodDays = types.Int64Value(int64(*record.TermPeriodDays))
	}
}

func (p *priceBookFields) demand(kind string, gpuCount types.Int64) demand {
	return demand{kind: kind, region: p.Region, gpuType: p.GPUType, networkType: p.NetworkType, gpuCount: gpuCount,
		termDays: p.TermPeriodDays}
}

type virtualMachineModel struct {
	rentalFields
	priceBookFields
	DiskGB types.Int64 `tfsdk:"disk_gb"`
	Ports  types.List  `tfsdk:"ports"`
}

func virtualMachine() definition[virtualMachineModel] {
	return rentalKind[virtualMachineModel]{
		name: "virtual_machine",
		about: "A virtual machine with GPUs. It is billed by the millisecond from the moment it runs until it is destroyed. " +
			"The label, the limits, the end, `running` and the volumes change in place; everything else replaces it.",
		attributes: with(priceBookAttributes(), attributes{
			"disk_gb": intAttribute(optional|replaces, "Size of the root disk in GB."),
			"ports":   stringsAttribute(optional|replaces, "Ports, such as `8888/http`."),
		}),
		replacing:    append([]string{"disk_gb", "ports"}, priceBookReplaces...),
		movesVolumes: true,
		common:       func(m *virtualMachineModel) *rentalFields { return &m.rentalFields },
		order: func(m *virtualMachineModel) fields {
			body := fields{"kind": "virtual-machine"}
			m.priceBookFields.put(body)
			body.put("diskGb", m.DiskGB)
			body.put("ports", m.Ports)
			if volumes := volumeOrder(m.Volumes); volumes != nil {
				body["volumes"] = volumes
			}
			return body
		},
		fill: func(m *virtualMachineModel, record rentalRecord, order *orderRecord) {
			m.priceBookFields.fill(record, order)
			if order != nil {
				m.DiskGB = types.Int64PointerValue(order.DiskGB)
				if len(order.Ports) > 0 {
					m.Ports = portList(m.Ports, order.Ports)
				}
			}
		},
		demand: func(m *virtualMachineModel) demand {
			one := m.priceBookFields.demand("virtual-machine", m.GPUCount)
			one.diskGB = m.DiskGB
			return one
		},
	}.definition()
}
