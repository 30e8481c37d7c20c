resource "berth_container" "notebook" {
  gpu_model             = "rtx-4090"
  gpu_count             = 1
  image                 = "quay.io/jupyter/pytorch-notebook:cuda12-latest"
  ports                 = ["8888/http"]
  max_cost_per_hour_usd = "0.60"
  spending_limit_usd    = "20"
}
