package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"terraform-provider-berth/internal/berth"
)

const deployments = "/v2/deployments"

type deploymentModel struct {
	ID               types.String   `tfsdk:"id"`
	Name             types.String   `tfsdk:"name"`
	Model            types.String   `tfsdk:"model"`
	CatalogModel     types.String   `tfsdk:"catalog_model"`
	Recipe           text           `tfsdk:"recipe"`
	GPUModel         types.String   `tfsdk:"gpu_model"`
	GPUCount         types.Int64    `tfsdk:"gpu_count"`
	Region           types.String   `tfsdk:"region"`
	MaxUSDPerGPUHour text           `tfsdk:"max_usd_per_gpu_hour"`
	MinReplicas      types.Int64    `tfsdk:"min_replicas"`
	MaxReplicas      types.Int64    `tfsdk:"max_replicas"`
	RequestsEach     types.Float64  `tfsdk:"requests_per_replica"`
	UpDelay          types.Int64    `tfsdk:"up_delay_seconds"`
	DownDelay        types.Int64    `tfsdk:"down_delay_seconds"`
	Idle             types.Int64    `tfsdk:"idle_seconds"`
	HourlyBudget     text           `tfsdk:"hourly_budget_usd"`
	ClientToken      types.String   `tfsdk:"client_token"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`
}

type deploymentRecord struct {
	ID, Model, Status, Rollout string
	Message                    *string
	Spec                       struct {
		Recipe json.RawMessage
		GPUs   struct {
			Model, Region    *string
			Count            int64
			MaxUSDPerGPUHour *string `json:"maxUsdPerGpuHour"`
		} `json:"gpus"`
	}
	Settings struct {
		Replicas struct{ Min, Max int64 }
		Scaling  struct {
			TargetOutstanding                             *float64
			UpDelaySeconds, DownDelaySeconds, IdleSeconds int64
		}
		HourlyBudgetUSD *string `json:"hourlyBudgetUsd"`
	}
}

func (m *deploymentModel) fill(row deploymentRecord) {
	m.ID, m.Model = types.StringValue(row.ID), types.StringValue(row.Model)
	recipe := string(row.Spec.Recipe)
	if m.Recipe.IsNull() || m.Recipe.IsUnknown() || !means(recipeJSON, m.Recipe.ValueString(), recipe) {
		m.Recipe = newText(recipeJSON, &recipe)
	}
	gpus, settings := row.Spec.GPUs, row.Settings
	m.GPUModel, m.Region = types.StringPointerValue(gpus.Model), types.StringPointerValue(gpus.Region)
	m.GPUCount, m.MaxUSDPerGPUHour = types.Int64Value(gpus.Count), newText(amount, gpus.MaxUSDPerGPUHour)
	m.MinReplicas, m.MaxReplicas = types.Int64Value(settings.Replicas.Min), types.Int64Value(settings.Replicas.Max)
	m.RequestsEach = types.Float64PointerValue(settings.Scaling.TargetOutstanding)
	m.UpDelay, m.DownDelay = types.Int64Value(settings.Scaling.UpDelaySeconds), types.Int64Value(settings.Scaling.DownDelaySeconds)
	m.Idle, m.HourlyBudget = types.Int64Value(settings.Scaling.IdleSeconds), newText(amount, settings.HourlyBudgetUSD)
	if m.Name.IsNull() || m.Name.IsUnknown() {
		m.Name = types.StringValue(afterSlash(row.Model))
	}
}

func (m *deploymentModel) gpus() fields {
	gpus := fields{}
	gpus.put("model", m.GPUModel)
	gpus.put("count", m.GPUCount)
	gpus.put("region", m.Region)
	gpus.put("maxUsdPerGpuHour", m.MaxUSDPerGPUHour)
	return gpus
}

// settings are what applies at once. Fields of an object that are left out get its defaults, so all of them go along.
func (m *deploymentModel) settings(body fields) {
	replicas, scaling := fields{}, fields{}
	replicas.put("min", m.MinReplicas)
	replicas.put("max", m.MaxReplicas)
	scaling.put("targetOutstanding", m.RequestsEach)
	scaling.put("upDelaySeconds", m.UpDelay)
	scaling.put("downDelaySeconds", m.DownDelay)
	scaling.put("idleSeconds", m.Idle)
	body["replicas"], body["scaling"] = replicas, scaling
	body.putOrNull("hourlyBudgetUsd", m.HourlyBudget)
}

func (m *deploymentModel) recipe() (any, error) {
	if m.Recipe.IsNull() || m.Recipe.IsUnknown() {
		return nil, nil
	}
	var recipe map[string]any
	if err := json.Unmarshal([]byte(m.Recipe.ValueString()), &recipe); err != nil {
		return nil, fmt.Errorf("recipe must be an object as JSON, as from jsonencode: %w", err)
	}
	return recipe, nil
}

func deployment() definition[deploymentModel] {
	read := func(ctx context.Context, s *session, m *deploymentModel) error {
		var row deploymentRecord
		err := s.get(ctx, deployments+"/"+m.ID.ValueString(), nil, &row)
		if err == nil && row.Status == "deleting" {
			return errGone
		}
		if err == nil {
			m.fill(row)
		}
		return err
	}
	return definition[deploymentModel]{
		name: "deployment",
		about: "A model on rented GPUs. Replicas, scaling and the budget change at once, the recipe and the GPUs by a rollout; only the " +
			"name replaces it. How many replicas run now is no attribute, because scaling changes it.",
		limit: 45 * time.Minute,
		attributes: attributes{
			"id":            idAttribute("ID of the deployment."),
			"name":          stringAttribute(optional|computed|replaces, "Name of the model in the account; default: that of the catalog."),
			"model":         stringAttribute(computed, "Name that requests use, `ACCOUNT/NAME`."),
			"catalog_model": stringAttribute(optional|replaces, "Model of the catalog. Set this or `recipe`."),
			"recipe": textAttribute(recipeJSON, optional|computed,
				"Engine and its options as JSON, such as `jsonencode({ name = \"vllm\", hubModel = \"Qwen/Qwen3-8B\" })`."),
			"gpu_model":            stringAttribute(optional, "Name of the GPU, or a part of it; default: any."),
			"gpu_count":            intAttribute(optional|computed, "GPUs per replica; default: 1, or what the catalog says."),
			"region":               stringAttribute(optional, "Where replicas may run; default: anywhere."),
			"max_usd_per_gpu_hour": textAttribute(amount, optional, "Highest price of a GPU per hour in USD; default: no limit."),
			"min_replicas":         intAttribute(optional|computed, "Fewest replicas; with 0, the first request starts one. Default: 0."),
			"max_replicas":         intAttribute(optional|computed, "Most replicas; 0 pauses it. Default: 1."),
			"requests_per_replica": schema.Float64Attribute{Optional: true, MarkdownDescription: "Requests per replica that scaling aims for; default: automatic."},
			"up_delay_seconds":     intAttribute(optional|computed, "How long more replicas must be needed before they are added."),
			"down_delay_seconds":   intAttribute(optional|computed, "How long fewer must be enough before replicas are removed."),
			"idle_seconds":         intAttribute(optional|computed, "Time without requests before the last replica ends."),
			"hourly_budget_usd":    textAttribute(amount, optional, "Most that all replicas together may cost per hour in USD; default: no limit."),
			"client_token":         clientTokenAttribute(),
		},
		id:       func(m *deploymentModel) string { return m.ID.ValueString() },
		timeouts: func(m *deploymentModel) timeouts.Value { return m.Timeouts },
		create: func(ctx context.Context, s *session, plan, _ *deploymentModel) error {
			body := fields{"gpus": plan.gpus()}
			body.put("name", plan.Name)
			body.put("catalogModel", plan.CatalogModel)
			plan.settings(body)
			recipe, err := plan.recipe()
			if err != nil {
				return err
			}
			if recipe != nil {
				body["recipe"] = recipe
			}
			var answer deploymentRecord
			err = s.create(ctx, berth.Once{Kind: "deployment", Path: deployments, Body: body, Token: plan.ClientToken.ValueString(),
				IsAlive: func(ctx context.Context, id string) (bool, error) {
					return isThere(read(ctx, s, &deploymentModel{ID: types.StringValue(id)}))
				}}, "id", &answer)
			if err == nil {
				plan.fill(answer)
			}
			return err
		},
		ready: awaitDeployment,
		read:  read,
		update: func(ctx context.Context, s *session, plan, state, _ *deploymentModel) error {
			path := deployments + "/" + plan.ID.ValueString()
			body := fields{}
			plan.settings(body)
			if err := s.send(ctx, http.MethodPatch, path, body, nil); err != nil {
				return err
			}
			recipe, err := plan.recipe()
			if err != nil {
				return err
			}
			isSameSpec := plan.Recipe.Equal(state.Recipe) && plan.GPUModel.Equal(state.GPUModel) && plan.GPUCount.Equal(state.GPUCount) &&
				plan.Region.Equal(state.Region) && plan.MaxUSDPerGPUHour.Equal(state.MaxUSDPerGPUHour)
			if !isSameSpec {
				rollout := fields{"gpus": plan.gpus()}
				if recipe != nil {
					rollout["recipe"] = recipe
				}
				if err := s.send(ctx, http.MethodPost, path+"/rollout", rollout, nil); err != nil {
					return err
				}
				if err := awaitDeployment(ctx, s, plan); err != nil {
					return err
				}
			}
			return read(ctx, s, plan)
		},
		remove: func(ctx context.Context, s *session, m *deploymentModel) error {
			path := deployments + "/" + m.ID.ValueString()
			if err := s.send(ctx, http.MethodDelete, path, nil, nil); err != nil {
				return err
			}
			return s.until(ctx, func() (bool, error) {
				err := s.get(ctx, path, nil, nil)
				isStillThere, err := isThere(err)
				return !isStillThere, err
			})
		},
	}
}

// awaitDeployment waits until the newest version answers, or no replica is wanted.
func awaitDeployment(ctx context.Context, s *session, m *deploymentModel) error {
	return s.until(ctx, func() (bool, error) {
		var row deploymentRecord
		if err := s.get(ctx, deployments+"/"+m.ID.ValueString(), nil, &row); err != nil {
			return false, err
		}
		if row.Status == "failed" || row.Rollout == "failed" {
			return false, fmt.Errorf("the deployment has failed: %s", deref(row.Message))
		}
		if m.MinReplicas.ValueInt64() == 0 && row.Status == "idle" {
			return true, nil
		}
		return row.Status == "ready" && row.Rollout == "done", nil
	})
}
