// Texts that mean the same in several spellings: 12.5 and 12.500000000, times in different zones, a GPU by a part of
// its name, an SSH key with another comment. A difference in spelling is no drift and no change.
package provider

import (
	"context"
	"encoding/json"
	"math/big"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type textKind int

const (
	amount textKind = iota
	instant
	gpuName
	publicKey
	recipeJSON
)

type textType struct {
	basetypes.StringType
	kind textKind
}

func (t textType) Equal(other attr.Type) bool {
	same, ok := other.(textType)
	return ok && same.kind == t.kind
}

func (t textType) String() string { return "provider.textType" }

func (t textType) ValueType(context.Context) attr.Value { return text{kind: t.kind} }

func (t textType) ValueFromString(_ context.Context, in basetypes.StringValue) (basetypes.StringValuable, diag.Diagnostics) {
	return text{StringValue: in, kind: t.kind}, nil
}

func (t textType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	value, err := t.StringType.ValueFromTerraform(ctx, in)
	if err != nil {
		return nil, err
	}
	return text{StringValue: value.(basetypes.StringValue), kind: t.kind}, nil
}

type text struct {
	basetypes.StringValue
	kind textKind
}

func (t text) Type(context.Context) attr.Type { return textType{kind: t.kind} }

func (t text) Equal(other attr.Value) bool {
	same, ok := other.(text)
	return ok && same.kind == t.kind && t.StringValue.Equal(same.StringValue)
}

// StringSemanticEquals makes the framework keep the earlier spelling.
func (t text) StringSemanticEquals(_ context.Context, other basetypes.StringValuable) (bool, diag.Diagnostics) {
	same, ok := other.(text)
	return ok && means(t.kind, t.ValueString(), same.ValueString()), nil
}

func means(kind textKind, a, b string) bool {
	if a == b {
		return true
	}
	switch kind {
	case amount:
		left, isLeft := new(big.Rat).SetString(a)
		right, isRight := new(big.Rat).SetString(b)
		return isLeft && isRight && left.Cmp(right) == 0
	case instant:
		left, errLeft := time.Parse(time.RFC3339Nano, a)
		right, errRight := time.Parse(time.RFC3339Nano, b)
		return errLeft == nil && errRight == nil && left.Equal(right)
	case gpuName:
		left, right := plainGPU(a), plainGPU(b)
		return left != "" && right != "" && (strings.Contains(left, right) || strings.Contains(right, left))
	case publicKey:
		return bareKey(a) == bareKey(b)
	case recipeJSON:
		var left, right any
		if json.Unmarshal([]byte(a), &left) != nil || json.Unmarshal([]byte(b), &right) != nil {
			return false
		}
		return reflect.DeepEqual(left, right)
	}
	return false
}

// afterSlash is the last part of a name such as ACCOUNT/NAME.
func afterSlash(name string) string { return name[strings.LastIndex(name, "/")+1:] }

var notInGPU = regexp.MustCompile(`[^a-z0-9]`)

func plainGPU(name string) string { return notInGPU.ReplaceAllString(strings.ToLower(name), "") }

// bareKey is a public key without its comment.
func bareKey(key string) string {
	words := strings.Fields(key)
	return strings.Join(words[:min(2, len(words))], " ")
}

func newText(kind textKind, value *string) text {
	if value == nil {
		return text{StringValue: basetypes.NewStringNull(), kind: kind}
	}
	spelled := *value
	if kind == amount {
		spelled = shortAmount(spelled)
	}
	return text{StringValue: basetypes.NewStringValue(spelled), kind: kind}
}

func unknownText(kind textKind) text {
	return text{StringValue: basetypes.NewStringUnknown(), kind: kind}
}

// shortAmount has no zeros at its end, as people write it.
func shortAmount(value string) string {
	if !strings.Contains(value, ".") {
		return value
	}
	return strings.TrimSuffix(strings.TrimRight(value, "0"), ".")
}

// keepSpelling plans the spelling of the state for a value that means the same.
type keepSpelling struct{ kind textKind }

func (keepSpelling) Description(context.Context) string {
	return "Another spelling of the same value is no change."
}

func (k keepSpelling) MarkdownDescription(ctx context.Context) string { return k.Description(ctx) }

func (k keepSpelling) PlanModifyString(_ context.Context, request planmodifier.StringRequest, response *planmodifier.StringResponse) {
	if request.StateValue.IsNull() || request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() {
		return
	}
	if means(k.kind, request.StateValue.ValueString(), request.ConfigValue.ValueString()) {
		response.PlanValue = request.StateValue
	}
}
