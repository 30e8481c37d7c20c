// Rentals as the server shows them.
package provider

import (
	"context"
	"encoding/json"
	"fmt"
)

// rentalRecord is the part of a rental that the provider reads.
type rentalRecord struct {
	ID               int64
	Name             string
	Label            *string
	Kind             string
	State            string
	StatusReason     *string
	StatusMessage    *string
	Region           string
	GPUModel         string
	GPUType          *string
	GPUCount         int64
	NetworkType      string
	Machines         []struct{ ID string }
	Image            *imageName
	AutoTerminateAt  *string
	SpendingLimitUSD *string `json:"spendingLimitUsd"`
	PricePerHourUSD  string  `json:"pricePerHourUsd"`
	CostSoFarUSD     string  `json:"costSoFarUsd"`
	TermPeriodDays   *float64
	Convert          *bool `json:"convertToOnDemandOnExpiry"`
	SSH              *struct {
		User, Host string
		Port       int64
	}
	Workload struct{ TemplateID *string }
}

// orderRecord is the order that makes a rental like this one.
type orderRecord struct {
	Env                  map[string]string
	OnStart, UserData    *string
	Command, Args        []string
	Ports                []portOrder
	DiskGB               *int64
	ShmGB                *float64
	RegistryCredentialID *string
	CudaVersion          *string
	Image                *imageName
}

func getRental(ctx context.Context, s *session, id string) (rentalRecord, error) {
	var record rentalRecord
	err := s.get(ctx, rentals+"/"+id, nil, &record)
	return record, err
}

func (r rentalRecord) isEnding() bool { return r.State == "Terminating" || r.State == "Terminated" }

func (r rentalRecord) why() string {
	if r.StatusMessage != nil {
		return *r.StatusMessage + " (" + deref(r.StatusReason) + ")"
	}
	return deref(r.StatusReason)
}

func deref(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// portOrder is a port of an order: a number, a text such as 8888/http, or an object.
type portOrder string

func (p *portOrder) UnmarshalJSON(raw []byte) error {
	var number int
	if json.Unmarshal(raw, &number) == nil {
		*p = portOrder(fmt.Sprintf("%d/tcp", number))
		return nil
	}
	var object struct {
		Port     int
		Protocol string
	}
	if json.Unmarshal(raw, &object) == nil {
		*p = portOrder(fmt.Sprintf("%d/%s", object.Port, object.Protocol))
		return nil
	}
	return json.Unmarshal(raw, (*string)(p))
}
