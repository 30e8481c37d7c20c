// The pages in docs/ follow from the schemas and the examples: `go test ./internal/provider -run Docs -update` writes them.
package provider

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

var update = flag.Bool("update", false, "write the pages")

// described is what attributes of resources, data sources and ephemeral resources have in common.
type described interface {
	GetMarkdownDescription() string
	IsRequired() bool
	IsOptional() bool
	IsSensitive() bool
}

type page struct{ folder, name, about, rows string }

func rowsOf[A described](attributes map[string]A, prefix string) string {
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	sort.Strings(names)
	var rows strings.Builder
	for _, name := range names {
		one := attributes[name]
		use := "read-only"
		if one.IsRequired() {
			use = "required"
		} else if one.IsOptional() {
			use = "optional"
		}
		if one.IsSensitive() {
			use += ", sensitive"
		}
		about := one.GetMarkdownDescription()
		if prefix+name == "timeouts" {
			about = "Time limits, such as `{ create = \"45m\" }`."
		}
		if nested, ok := any(one).(dataschema.ListNestedAttribute); ok {
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", prefix+name, use, about)
			rows.WriteString(rowsOf(nested.NestedObject.Attributes, prefix+name+"."))
			continue
		}
		if nested, ok := any(one).(schema.SetNestedAttribute); ok {
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", prefix+name, use, about)
			rows.WriteString(rowsOf(nested.NestedObject.Attributes, prefix+name+"."))
			continue
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", prefix+name, use, about)
	}
	return rows.String()
}

func pages(t *testing.T) []page {
	t.Helper()
	ctx := context.Background()
	one := New("test")()
	var all []page
	for _, make := range one.Resources(ctx) {
		item := make()
		var name resource.MetadataResponse
		var answer resource.SchemaResponse
		item.Metadata(ctx, resource.MetadataRequest{ProviderTypeName: "berth"}, &name)
		item.Schema(ctx, resource.SchemaRequest{}, &answer)
		if problems := answer.Schema.ValidateImplementation(ctx); problems.HasError() {
			t.Errorf("%s: %v", name.TypeName, problems)
		}
		all = append(all, page{"resources", name.TypeName, answer.Schema.MarkdownDescription, rowsOf(answer.Schema.Attributes, "")})
	}
	for _, make := range one.DataSources(ctx) {
		item := make()
		var name datasource.MetadataResponse
		var answer datasource.SchemaResponse
		item.Metadata(ctx, datasource.MetadataRequest{ProviderTypeName: "berth"}, &name)
		item.Schema(ctx, datasource.SchemaRequest{}, &answer)
		all = append(all, page{"data-sources", name.TypeName, answer.Schema.MarkdownDescription, rowsOf(answer.Schema.Attributes, "")})
	}
	for _, make := range one.(provider.ProviderWithEphemeralResources).EphemeralResources(ctx) {
		item := make()
		var name ephemeral.MetadataResponse
		var answer ephemeral.SchemaResponse
		item.Metadata(ctx, ephemeral.MetadataRequest{ProviderTypeName: "berth"}, &name)
		item.Schema(ctx, ephemeral.SchemaRequest{}, &answer)
		all = append(all, page{"ephemeral-resources", name.TypeName, answer.Schema.MarkdownDescription, rowsOf(answer.Schema.Attributes, "")})
	}
	var settings provider.SchemaResponse
	one.Schema(ctx, provider.SchemaRequest{}, &settings)
	return append(all, page{"", "index", settings.Schema.MarkdownDescription, rowsOf(settings.Schema.Attributes, "")})
}

func TestDocs(t *testing.T) {
	for _, one := range pages(t) {
		short := strings.TrimPrefix(one.name, "berth_")
		if strings.Contains(one.rows, "|  |") {
			t.Errorf("%s has an attribute without a description", one.name)
		}
		example, err := os.ReadFile(filepath.Join("..", "..", "examples", one.folder, short+".tf"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := fmt.Sprintf("# %s\n\n%s\n\n```hcl\n%s```\n\n| attribute | | |\n|---|---|---|\n%s", one.name, one.about, example, one.rows)
		if one.folder == "resources" {
			text += fmt.Sprintf("\nImport: `tofu import %s.NAME ID`\n", one.name)
		}
		file := filepath.Join("..", "..", "docs", one.folder, short+".md")
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if current, err := os.ReadFile(file); err != nil || string(current) != text {
			t.Errorf("%s is not up to date: go test ./internal/provider -run Docs -update", file)
		}
	}
}
