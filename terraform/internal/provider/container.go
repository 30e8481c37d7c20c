package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/float64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type containerModel struct {
	rentalFields
	MachineID            types.String  `tfsdk:"machine_id"`
	GPUModel             text          `tfsdk:"gpu_model"`
	Image                types.String  `tfsdk:"image"`
	Command              types.List    `tfsdk:"command"`
	Args                 types.List    `tfsdk:"args"`
	DiskGB               types.Int64   `tfsdk:"disk_gb"`
	ShmGB                types.Float64 `tfsdk:"shm_gb"`
	Ports                types.List    `tfsdk:"ports"`
	RegistryCredentialID types.String  `tfsdk:"registry_credential_id"`
}

func container() definition[containerModel] {
	return rentalKind[containerModel]{
		name: "container",
		about: "A container on the marketplace, on one machine or on the cheapest with a GPU model. The label, the limits, the end " +
			"and `running` change in place; everything else replaces it.",
		attributes: attributes{
			"machine_id": stringAttribute(optional|computed|replaces, "Machine that runs it. Set this or `gpu_model`."),
			"gpu_model": textAttribute(gpuName, optional|computed|replaces,
				"Part of the name of the GPU, such as `h100`; the cheapest machine that has it is chosen."),
			"gpu_count": intAttribute(required|replaces, "Number of GPUs."),
			"image":     stringAttribute(optional|replaces, "Image with its tag, such as `ubuntu:24.04`; default: that of the template or the supplier."),
			"command":   stringsAttribute(optional|replaces, "Replaces the entrypoint of the image."),
			"args":      stringsAttribute(optional|replaces, "Replaces the command of the image."),
			"disk_gb":   intAttribute(optional|replaces, "Size of the root disk in GB."),
			"shm_gb": schema.Float64Attribute{Optional: true, MarkdownDescription: "Size of /dev/shm in GB.",
				PlanModifiers: []planmodifier.Float64{float64planmodifier.RequiresReplace()}},
			"ports":                  stringsAttribute(optional|replaces, "Ports, such as `8888/http`."),
			"registry_credential_id": stringAttribute(optional|replaces, "Login for a private image registry."),
		},
		replacing: []string{"machine_id", "gpu_model", "gpu_count", "image", "command", "args", "disk_gb", "shm_gb", "ports",
			"registry_credential_id", "template_id", "env", "on_start", "volumes"},
		common: func(m *containerModel) *rentalFields { return &m.rentalFields },
		order: func(m *containerModel) fields {
			body := fields{"kind": "container"}
			if m.MachineID.IsNull() || m.MachineID.IsUnknown() {
				body.put("gpuModel", m.GPUModel)
			} else {
				body.put("machineId", m.MachineID)
			}
			if !m.Image.IsNull() {
				body["image"] = parseImage(m.Image.ValueString())
			}
			body.put("command", m.Command)
			body.put("args", m.Args)
			body.put("diskGb", m.DiskGB)
			body.put("shmGb", m.ShmGB)
			body.put("ports", m.Ports)
			body.put("registryCredentialId", m.RegistryCredentialID)
			if volumes := volumeOrder(m.Volumes); volumes != nil {
				body["volumes"] = volumes
			}
			return body
		},
		fill: func(m *containerModel, record rentalRecord, order *orderRecord) {
			if len(record.Machines) > 0 {
				m.MachineID = types.StringValue(record.Machines[0].ID)
			} else if m.MachineID.IsUnknown() {
				m.MachineID = types.StringNull()
			}
			if m.GPUModel.IsNull() || m.GPUModel.IsUnknown() || !means(gpuName, m.GPUModel.ValueString(), record.GPUModel) {
				m.GPUModel = newText(gpuName, &record.GPUModel)
			}
			if order == nil {
				return
			}
			m.Image, m.DiskGB, m.ShmGB = order.Image.value(), types.Int64PointerValue(order.DiskGB), types.Float64PointerValue(order.ShmGB)
			m.Command, m.Args = stringList(order.Command), stringList(order.Args)
			m.RegistryCredentialID = types.StringPointerValue(order.RegistryCredentialID)
			if len(order.Ports) > 0 {
				m.Ports = portList(m.Ports, order.Ports)
			}
		},
		demand: func(m *containerModel) demand {
			return demand{kind: "container", gpuCount: m.GPUCount, gpuModel: m.GPUModel, machineID: m.MachineID}
		},
	}.definition()
}
