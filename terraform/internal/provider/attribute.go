// Short forms of attributes, so that a resource is a list of its fields.
package provider

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

type attributes = map[string]schema.Attribute

var (
	amountPattern  = regexp.MustCompile(`^\d{1,9}(\.\d{1,9})?$`)
	instantPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)
)

// use says who sets an attribute, and what a change of it means.
type use int

const (
	required use = 1 << iota
	optional
	computed
	replaces
	sensitive
)

func (u use) has(one use) bool { return u&one != 0 }

func stringAttribute(u use, about string, values ...string) schema.StringAttribute {
	one := schema.StringAttribute{
		Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), Sensitive: u.has(sensitive),
		MarkdownDescription: about,
	}
	if u.has(computed) {
		one.PlanModifiers = append(one.PlanModifiers, stringplanmodifier.UseStateForUnknown())
	}
	if u.has(replaces) {
		one.PlanModifiers = append(one.PlanModifiers, stringplanmodifier.RequiresReplace())
	}
	if len(values) > 0 {
		one.Validators = []validator.String{stringvalidator.OneOf(values...)}
	}
	return one
}

// textAttribute is a string in one of the spellings of its kind.
func textAttribute(kind textKind, u use, about string) schema.StringAttribute {
	one := stringAttribute(u&^replaces, about)
	one.CustomType = textType{kind: kind}
	one.PlanModifiers = append(one.PlanModifiers, keepSpelling{kind})
	if u.has(replaces) {
		one.PlanModifiers = append(one.PlanModifiers, stringplanmodifier.RequiresReplace())
	}
	switch kind {
	case amount:
		one.Validators = []validator.String{stringvalidator.RegexMatches(amountPattern, `must be an amount in USD such as "12.50"`)}
	case instant:
		one.Validators = []validator.String{stringvalidator.RegexMatches(instantPattern, "must be a time such as 2030-01-31T12:00:00Z")}
	}
	return one
}

func intAttribute(u use, about string) schema.Int64Attribute {
	one := schema.Int64Attribute{
		Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), MarkdownDescription: about,
	}
	if u.has(computed) {
		one.PlanModifiers = append(one.PlanModifiers, int64planmodifier.UseStateForUnknown())
	}
	if u.has(replaces) {
		one.PlanModifiers = append(one.PlanModifiers, int64planmodifier.RequiresReplace())
	}
	return one
}

func boolAttribute(u use, about string) schema.BoolAttribute {
	one := schema.BoolAttribute{
		Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), MarkdownDescription: about,
	}
	if u.has(computed) {
		one.PlanModifiers = append(one.PlanModifiers, boolplanmodifier.UseStateForUnknown())
	}
	if u.has(replaces) {
		one.PlanModifiers = append(one.PlanModifiers, boolplanmodifier.RequiresReplace())
	}
	return one
}

func stringsAttribute(u use, about string) schema.ListAttribute {
	one := schema.ListAttribute{
		Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), ElementType: types.StringType,
		MarkdownDescription: about,
	}
	if u.has(computed) {
		one.PlanModifiers = append(one.PlanModifiers, listplanmodifier.UseStateForUnknown())
	}
	if u.has(replaces) {
		one.PlanModifiers = append(one.PlanModifiers, listplanmodifier.RequiresReplace())
	}
	return one
}

func mapAttribute(u use, about string) schema.MapAttribute {
	one := schema.MapAttribute{
		Required: u.has(required), Optional: u.has(optional), Computed: u.has(computed), ElementType: types.StringType,
		MarkdownDescription: about,
	}
	if u.has(replaces) {
		one.PlanModifiers = []planmodifier.Map{mapplanmodifier.RequiresReplace()}
	}
	return one
}

// idAttribute is what `import` takes.
func idAttribute(about string) schema.StringAttribute { return stringAttribute(computed, about) }

// with returns the attributes of both.
func with(one, other attributes) attributes {
	all := attributes{}
	for _, part := range []attributes{one, other} {
		for name, attribute := range part {
			all[name] = attribute
		}
	}
	return all
}
