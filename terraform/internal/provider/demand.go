// What an order needs: its price today, whether it would find a place, and what is free instead.
package provider

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

const maxAlternatives = 6

var (
	capacityReasons = []string{"no_capacity", "no_storage_capacity"}
	errUnknownYet   = errors.New("it depends on values that are not known yet")
)

// demand is an order without its program. Containers have a machine or a GPU model, the others a region and a GPU type.
type demand struct {
	kind        string
	region      types.String
	gpuType     types.String
	networkType types.String
	gpuCount    types.Int64
	termDays    types.Int64
	diskGB      types.Int64
	gpuModel    text
	machineID   types.String
}

type rentalOption struct {
	Enabled        bool
	CostPerHour    float64
	Region         string
	GPUType        string
	GPUCount       int64
	ConnectionType string
	TotalAvailable int64
	MachineType    string
}

func (d demand) isKnown() bool {
	return !d.region.IsUnknown() && !d.gpuCount.IsUnknown() && !d.termDays.IsUnknown() && !d.diskGB.IsUnknown()
}

// price is that of the whole order per hour.
func (d demand) price(ctx context.Context, s *session) (string, error) {
	if !d.isKnown() {
		return "", errUnknownYet
	}
	if d.kind == "container" {
		return d.containerPrice(ctx, s)
	}
	query := url.Values{
		"rentalType": {d.kind}, "region": {d.region.ValueString()}, "gpuCount": {strconv.FormatInt(d.gpuCount.ValueInt64(), 10)},
		"gpuType": {orDefault(d.gpuType, defaultGPUType)}, "networkType": {orDefault(d.networkType, defaultNetworkType)},
	}
	if !d.termDays.IsNull() {
		query.Set("termPeriodDays", strconv.FormatInt(d.termDays.ValueInt64(), 10))
	}
	if !d.diskGB.IsNull() && d.kind == "virtual-machine" {
		query.Set("diskGb", strconv.FormatInt(d.diskGB.ValueInt64(), 10))
	}
	var quote struct {
		CostPerHourUSD string `json:"costPerHourUsd"`
	}
	err := s.get(ctx, "/v2/rental-quote", query, &quote)
	return quote.CostPerHourUSD, err
}

func orDefault(value types.String, other string) string {
	if value.IsNull() || value.IsUnknown() {
		return other
	}
	return value.ValueString()
}

type marketMachine struct {
	ID, Region, GPUModel string
	GPUsFree             int64
	PricePerGPUHourUSD   string `json:"pricePerGpuHourUsd"`
}

func (d demand) machines(ctx context.Context, s *session, free int64) ([]marketMachine, error) {
	query := url.Values{"sort": {"price"}}
	if free > 0 {
		query.Set("free", strconv.FormatInt(free, 10))
	}
	if d.hasMachine() {
		query.Set("text", d.machineID.ValueString())
	} else {
		query.Set("gpu", d.gpuModel.ValueString())
	}
	var answer struct{ Machines []marketMachine }
	if err := s.get(ctx, "/v2/marketplace/machines", query, &answer); err != nil {
		return nil, err
	}
	if !d.hasMachine() {
		return answer.Machines, nil
	}
	for _, machine := range answer.Machines {
		if machine.ID == d.machineID.ValueString() {
			return []marketMachine{machine}, nil
		}
	}
	return nil, nil
}

func (d demand) hasMachine() bool { return !d.machineID.IsNull() && !d.machineID.IsUnknown() }

func (d demand) containerPrice(ctx context.Context, s *session) (string, error) {
	if !d.hasMachine() && (d.gpuModel.IsNull() || d.gpuModel.IsUnknown()) {
		return "", errUnknownYet
	}
	count := d.gpuCount.ValueInt64()
	for _, free := range []int64{count, 0} {
		machines, err := d.machines(ctx, s, free)
		if err != nil {
			return "", err
		}
		if len(machines) > 0 {
			price, ok := new(big.Rat).SetString(machines[0].PricePerGPUHourUSD)
			if !ok {
				return "", fmt.Errorf("the price %q is not a number", machines[0].PricePerGPUHourUSD)
			}
			return price.Mul(price, new(big.Rat).SetInt64(count)).FloatString(9), nil
		}
	}
	return "", errors.New("no machine of the marketplace has these GPUs")
}

func (d demand) options(ctx context.Context, s *session) ([]rentalOption, error) {
	var options []rentalOption
	err := s.get(ctx, "/v2/alpha/on-demand/rental-options", nil, &options)
	return options, err
}

func (d demand) isLike(option rentalOption) bool {
	return option.MachineType == d.kind && option.Region == d.region.ValueString() &&
		option.GPUType == orDefault(d.gpuType, defaultGPUType) && option.ConnectionType == orDefault(d.networkType, defaultNetworkType)
}

// hasPlace tells whether the order would find its GPUs now.
func (d demand) hasPlace(ctx context.Context, s *session) (bool, error) {
	if d.kind == "container" {
		machines, err := d.machines(ctx, s, d.gpuCount.ValueInt64())
		return len(machines) > 0, err
	}
	options, err := d.options(ctx, s)
	for _, option := range options {
		if d.isLike(option) && option.GPUCount == d.gpuCount.ValueInt64() && option.Enabled && option.TotalAvailable > 0 {
			return true, nil
		}
	}
	return false, err
}

// getsRoomFrom tells whether the rental that is replaced leaves enough GPUs of this kind.
func (d demand) getsRoomFrom(before demand) bool {
	if d.gpuCount.ValueInt64() > before.gpuCount.ValueInt64() || d.kind != before.kind {
		return false
	}
	if d.kind == "container" {
		return means(gpuName, d.gpuModel.ValueString(), before.gpuModel.ValueString()) &&
			(d.machineID.IsUnknown() || d.machineID.Equal(before.machineID))
	}
	return d.region.Equal(before.region) &&
		orDefault(d.gpuType, defaultGPUType) == orDefault(before.gpuType, defaultGPUType) &&
		orDefault(d.networkType, defaultNetworkType) == orDefault(before.networkType, defaultNetworkType)
}

// warnIfFull says in a plan that the replacement would find no place, since the rental is ended before.
func (d demand) warnIfFull(ctx context.Context, s *session, before demand, problems *diag.Diagnostics) {
	if !d.isKnown() || d.getsRoomFrom(before) {
		return
	}
	hasPlace, err := d.hasPlace(ctx, s)
	if err != nil {
		problems.AddWarning("Whether the replacement can be placed is not known", err.Error())
		return
	}
	if hasPlace {
		return
	}
	problems.AddWarning("The replacement cannot be placed now",
		"There are not enough free GPUs for it, and the rental that it replaces would be ended first. "+
			"`lifecycle { create_before_destroy = true }` keeps that until the replacement runs.\n\n"+d.alternatives(ctx, s))
}

// withAlternatives adds to a lack of capacity what is free instead.
func (d demand) withAlternatives(ctx context.Context, s *session, err error) error {
	if !berth.HasReason(err, capacityReasons...) {
		return err
	}
	return fmt.Errorf("%w\n\n%s\nSet wait_for_capacity, such as \"30m\", to wait for free GPUs", err, d.alternatives(ctx, s))
}

// alternatives names what is free: first the same GPU elsewhere, then others.
func (d demand) alternatives(ctx context.Context, s *session) string {
	lines, err := d.freeOptions(ctx, s)
	if d.kind == "container" {
		lines, err = d.freeModels(ctx, s)
	}
	if err != nil {
		return "What is free instead is not known: " + err.Error()
	}
	if len(lines) == 0 {
		return "Nothing of this kind is free."
	}
	return "Free now:\n" + strings.Join(lines[:min(len(lines), maxAlternatives)], "\n")
}

func (d demand) freeOptions(ctx context.Context, s *session) ([]string, error) {
	options, err := d.options(ctx, s)
	free := options[:0]
	for _, option := range options {
		if option.MachineType == d.kind && option.Enabled && option.TotalAvailable > 0 {
			free = append(free, option)
		}
	}
	rank := func(option rentalOption) int {
		score := 0
		if option.GPUType != orDefault(d.gpuType, defaultGPUType) {
			score += 4
		}
		if option.GPUCount != d.gpuCount.ValueInt64() {
			score += 2
		}
		if option.Region != d.region.ValueString() {
			score++
		}
		return score
	}
	sort.SliceStable(free, func(i, j int) bool { return rank(free[i]) < rank(free[j]) })
	lines := make([]string, len(free))
	for i, option := range free {
		lines[i] = fmt.Sprintf("- %d × %s in %s (%s) for %s USD per hour", option.GPUCount, option.GPUType, option.Region,
			option.ConnectionType, strconv.FormatFloat(option.CostPerHour, 'f', -1, 64))
	}
	return lines, err
}

func (d demand) freeModels(ctx context.Context, s *session) ([]string, error) {
	query := url.Values{"sort": {"price"}, "grouped": {"true"}, "free": {strconv.FormatInt(d.gpuCount.ValueInt64(), 10)}}
	var answer struct{ Machines []marketMachine }
	err := s.get(ctx, "/v2/marketplace/machines", query, &answer)
	lines := make([]string, len(answer.Machines))
	for i, machine := range answer.Machines {
		lines[i] = fmt.Sprintf("- %s in %s for %s USD per GPU and hour", machine.GPUModel, machine.Region,
			shortAmount(machine.PricePerGPUHourUSD))
	}
	return lines, err
}
