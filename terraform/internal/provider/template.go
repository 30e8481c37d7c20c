package provider

import (
	"context"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

type templateModel struct {
	ID         types.String   `tfsdk:"id"`
	Name       types.String   `tfsdk:"name"`
	Version    types.Int64    `tfsdk:"version"`
	Visibility types.String   `tfsdk:"visibility"`
	Icon       types.String   `tfsdk:"icon"`
	Summary    types.String   `tfsdk:"summary"`
	Readme     types.String   `tfsdk:"readme"`
	Image      types.String   `tfsdk:"image"`
	Env        types.Map      `tfsdk:"env"`
	Ports      types.List     `tfsdk:"ports"`
	Command    types.List     `tfsdk:"command"`
	Args       types.List     `tfsdk:"args"`
	OnStart    types.String   `tfsdk:"on_start"`
	DiskGB     types.Int64    `tfsdk:"disk_gb"`
	MinVRAM    types.Float64  `tfsdk:"min_vram_gb"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

type templateRecord struct {
	ID, Name, Visibility  string
	Version               int64
	Icon, Summary, Readme *string
	Image                 *imageName
	Env                   map[string]string
	Ports                 []portOrder
	Command, Args         []string
	OnStart               *string
	DiskGB                *int64
	MinVRAMGB             *float64
}

// The fields that a change cannot remove: leaving one out keeps it.
var templateKeeps = []string{"icon", "image", "command", "args", "disk_gb", "min_vram_gb"}

func (m *templateModel) fill(row templateRecord) {
	m.ID, m.Name, m.Version = types.StringValue(row.ID), types.StringValue(row.Name), types.Int64Value(row.Version)
	m.Visibility, m.Icon = types.StringValue(row.Visibility), types.StringPointerValue(row.Icon)
	m.Summary, m.Readme = keepNull(m.Summary, row.Summary), keepNull(m.Readme, row.Readme)
	m.Image = row.Image.value()
	if len(row.Env) > 0 || !m.Env.IsNull() {
		m.Env = stringMap(row.Env)
	}
	if len(row.Ports) > 0 || !m.Ports.IsNull() {
		m.Ports = portList(m.Ports, row.Ports)
	}
	m.Command, m.Args, m.OnStart = stringList(row.Command), stringList(row.Args), keepNull(m.OnStart, row.OnStart)
	m.DiskGB, m.MinVRAM = types.Int64PointerValue(row.DiskGB), types.Float64PointerValue(row.MinVRAMGB)
}

func (m *templateModel) body() fields {
	body := fields{"name": m.Name.ValueString()}
	body.put("visibility", m.Visibility)
	body.put("icon", m.Icon)
	body.put("summary", m.Summary)
	body.put("readme", m.Readme)
	body.put("env", m.Env)
	body.put("ports", m.Ports)
	body.put("command", m.Command)
	body.put("args", m.Args)
	body.put("onStart", m.OnStart)
	body.put("diskGb", m.DiskGB)
	body.put("minVramGb", m.MinVRAM)
	if !m.Image.IsNull() {
		body["image"] = parseImage(m.Image.ValueString())
	}
	return body
}

func template() definition[templateModel] {
	const list = "/v2/templates"
	read := func(ctx context.Context, s *session, m *templateModel) error {
		var row templateRecord
		err := s.get(ctx, list+"/"+m.ID.ValueString(), nil, &row)
		if err == nil {
			m.fill(row)
		}
		return err
	}
	return definition[templateModel]{
		name:  "template",
		about: "A template of orders. A change of its fields makes a new version; rentals keep the one that they were ordered with.",
		attributes: attributes{
			"id":          idAttribute("ID of the template."),
			"name":        stringAttribute(required, "Name of the template."),
			"version":     schema.Int64Attribute{Computed: true, MarkdownDescription: "Newest version."},
			"visibility":  stringAttribute(optional|computed, "`link`: anyone who knows the ID can use it; default: `private`.", "private", "link"),
			"icon":        stringAttribute(optional, "Its picture in the console."),
			"summary":     stringAttribute(optional, "One sentence."),
			"readme":      stringAttribute(optional, "Markdown."),
			"image":       stringAttribute(optional, "Image with its tag; default: that of the host."),
			"env":         mapAttribute(optional, "Environment variables; values may contain `{{ secrets.NAME }}`."),
			"ports":       stringsAttribute(optional, "Ports, such as `8888/http`."),
			"command":     stringsAttribute(optional, "Replaces the entrypoint of the image."),
			"args":        stringsAttribute(optional, "Replaces the command of the image."),
			"on_start":    stringAttribute(optional, "Shell script, run at every start."),
			"disk_gb":     intAttribute(optional, "Size of the root disk in GB."),
			"min_vram_gb": schema.Float64Attribute{Optional: true, MarkdownDescription: "Memory in GB that each GPU needs."},
		},
		id:       func(m *templateModel) string { return m.ID.ValueString() },
		timeouts: func(m *templateModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *templateModel) error {
			var answer templateRecord
			err := s.create(ctx, berth.Once{Kind: "template", Path: list, Body: plan.body(), IsAlive: func(ctx context.Context, id string) (bool, error) {
				return isThere(read(ctx, s, &templateModel{ID: types.StringValue(id)}))
			}}, "id", &answer)
			if err == nil {
				plan.fill(answer)
			}
			return err
		},
		read: read,
		update: func(ctx context.Context, s *session, plan, state, _ *templateModel) error {
			body := plan.body()
			// Empty values remove what was there.
			for name, isRemoved := range map[string]bool{
				"summary": plan.Summary.IsNull() && !state.Summary.IsNull(),
				"readme":  plan.Readme.IsNull() && !state.Readme.IsNull(),
				"onStart": plan.OnStart.IsNull() && !state.OnStart.IsNull(),
			} {
				if isRemoved {
					body[name] = ""
				}
			}
			if plan.Env.IsNull() && !state.Env.IsNull() {
				body["env"] = fields{}
			}
			if plan.Ports.IsNull() && !state.Ports.IsNull() {
				body["ports"] = []any{}
			}
			var answer templateRecord
			err := s.send(ctx, http.MethodPatch, list+"/"+plan.ID.ValueString(), body, &answer)
			if err == nil {
				plan.fill(answer)
			}
			return err
		},
		remove: func(ctx context.Context, s *session, m *templateModel) error {
			return s.send(ctx, http.MethodDelete, list+"/"+m.ID.ValueString(), nil, nil)
		},
		plan: func(_ context.Context, _ *session, p *planning[templateModel]) {
			if p.state == nil {
				return
			}
			c, b := p.config, p.state
			isRemoved := map[string]bool{
				"icon": c.Icon.IsNull() && !b.Icon.IsNull(), "image": c.Image.IsNull() && !b.Image.IsNull(),
				"command": c.Command.IsNull() && !b.Command.IsNull(), "args": c.Args.IsNull() && !b.Args.IsNull(),
				"disk_gb": c.DiskGB.IsNull() && !b.DiskGB.IsNull(), "min_vram_gb": c.MinVRAM.IsNull() && !b.MinVRAM.IsNull(),
			}
			for _, name := range templateKeeps {
				if isRemoved[name] {
					*p.replaces = append(*p.replaces, path.Root(name))
				}
			}
		},
	}
}
