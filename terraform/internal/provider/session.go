// What the resources share: the client, the journal of creates, and the defaults of the provider.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

const (
	firstPoll = time.Second
	maxPoll   = 5 * time.Second
)

type session struct {
	client  *berth.Client
	journal *berth.Journal
	// spendingLimit and maxCostPerHour apply to orders that have none. Null: there is none.
	spendingLimit  text
	maxCostPerHour text
}

func (s *session) get(ctx context.Context, path string, query url.Values, out any) error {
	return s.client.Do(ctx, berth.Call{Method: http.MethodGet, Path: path, Query: query}, out)
}

func (s *session) send(ctx context.Context, method, path string, body, out any) error {
	return s.client.Do(ctx, berth.Call{Method: method, Path: path, Body: body}, out)
}

// create posts the body at most once and decodes the answer into out.
func (s *session) create(ctx context.Context, once berth.Once, idField string, out any) error {
	once.ID = func(answer json.RawMessage) (string, error) { return idIn(answer, idField) }
	answer, err := s.client.CreateOnce(ctx, s.journal, once)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

func idIn(answer json.RawMessage, field string) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(answer, &fields); err != nil {
		return "", err
	}
	raw := string(fields[field])
	if text, err := strconv.Unquote(raw); err == nil {
		return text, nil
	}
	if raw == "" {
		return "", errors.New("the answer has no " + field)
	}
	return raw, nil
}

// until asks again until isDone says so, or the context ends.
func (s *session) until(ctx context.Context, isDone func() (bool, error)) error {
	for pause := firstPoll; ; pause = min(pause*2, maxPoll) {
		done, err := isDone()
		if err != nil || done {
			return err
		}
		if err := s.client.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

// findIn returns the row of a list that has this ID.
func findIn[T any](ctx context.Context, s *session, path, field string, isIt func(T) bool) (T, error) {
	var none T
	var answer map[string]json.RawMessage
	if err := s.get(ctx, path, nil, &answer); err != nil {
		return none, err
	}
	var rows []T
	if err := json.Unmarshal(answer[field], &rows); err != nil {
		return none, err
	}
	for _, row := range rows {
		if isIt(row) {
			return row, nil
		}
	}
	return none, errGone
}

// isThere turns the result of a read into the answer to the question whether it is there.
func isThere(err error) (bool, error) {
	if errors.Is(err, errGone) || berth.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// fields is the body of a request.
type fields map[string]any

// put adds a value unless it is null or unknown.
func (f fields) put(name string, value attr.Value) {
	if value == nil || value.IsNull() || value.IsUnknown() {
		return
	}
	f[name] = plain(value)
}

// putOrNull adds a value, and null for none, which removes it.
func (f fields) putOrNull(name string, value attr.Value) {
	if value.IsNull() {
		f[name] = nil
		return
	}
	f.put(name, value)
}

func plain(value attr.Value) any {
	switch one := value.(type) {
	case text:
		return one.ValueString()
	case types.String:
		return one.ValueString()
	case types.Int64:
		return one.ValueInt64()
	case types.Bool:
		return one.ValueBool()
	case types.Float64:
		return one.ValueFloat64()
	case types.List:
		return plainList(one.Elements())
	case types.Set:
		return plainList(one.Elements())
	case types.Map:
		all := map[string]any{}
		for name, element := range one.Elements() {
			all[name] = plain(element)
		}
		return all
	}
	panic("no plain form of " + value.Type(context.Background()).String())
}

func plainList(elements []attr.Value) []any {
	all := make([]any, len(elements))
	for i, element := range elements {
		all[i] = plain(element)
	}
	return all
}

// stringList returns a list, or null for nil.
func stringList(values []string) types.List {
	if values == nil {
		return types.ListNull(types.StringType)
	}
	elements := make([]attr.Value, len(values))
	for i, value := range values {
		elements[i] = types.StringValue(value)
	}
	return types.ListValueMust(types.StringType, elements)
}

func stringMap(values map[string]string) types.Map {
	if values == nil {
		return types.MapNull(types.StringType)
	}
	elements := map[string]attr.Value{}
	for name, value := range values {
		elements[name] = types.StringValue(value)
	}
	return types.MapValueMust(types.StringType, elements)
}

// keepNull keeps null where the server has an empty value for an attribute that was never set.
func keepNull(current types.String, value *string) types.String {
	if current.IsNull() && (value == nil || *value == "") {
		return types.StringNull()
	}
	return types.StringPointerValue(value)
}
