package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type bareMetalModel struct {
	rentalFields
	priceBookFields
	CudaVersion types.String `tfsdk:"cuda_version"`
}

func bareMetal() definition[bareMetalModel] {
	return rentalKind[bareMetalModel]{
		name: "bare_metal",
		about: "Whole machines without a hypervisor, eight GPUs each. The label, the limits, the end and the volumes change in " +
			"place; everything else replaces it.",
		attributes: with(priceBookAttributes(), attributes{
			"cuda_version": stringAttribute(optional|replaces, "CUDA version; default: chosen by the server.", "cuda12.8", "cuda12.9"),
		}),
		replacing:    append([]string{"cuda_version"}, priceBookReplaces...),
		movesVolumes: true,
		common:       func(m *bareMetalModel) *rentalFields { return &m.rentalFields },
		order: func(m *bareMetalModel) fields {
			body := fields{"kind": "bare-metal"}
			m.priceBookFields.put(body)
			body.put("cudaVersion", m.CudaVersion)
			if volumes := volumeOrder(m.Volumes); volumes != nil {
				body["volumes"] = volumes
			}
			return body
		},
		fill: func(m *bareMetalModel, record rentalRecord, order *orderRecord) {
			m.priceBookFields.fill(record, order)
			if order != nil {
				m.CudaVersion = types.StringPointerValue(order.CudaVersion)
			}
		},
		demand: func(m *bareMetalModel) demand { return m.priceBookFields.demand("bare-metal", m.GPUCount) },
	}.definition()
}
